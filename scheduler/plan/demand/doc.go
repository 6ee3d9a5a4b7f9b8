// Package demand decides which collections of batches can be cut from one
// stream of requests in time, whatever dispatcher cuts them.
//
// Evenly paced arrivals are a processor: it serves one request every 1/T
// seconds, and serving means putting the request into an open batch. A group
// that starts a batch of b requests every P seconds is a periodic task: its job
// number k is released at k·P, needs b requests, and is due at k·P + W, where W
// is the window, the longest that a request may wait while its batch is
// collected. Cutting batches is then preemptive scheduling of one processor,
// for which two facts are classical:
//
//   - giving the next request to the open batch that is due first (earliest
//     deadline first) meets every due date that any rule can meet (Liu and
//     Layland 1973, Dertouzos 1974);
//
//   - when all groups release their first batch together, all due dates are met
//     exactly if for every t > 0
//
//     sum over g of max(0, floor((t - W_g)/P_g) + 1) · b_g/T  <=  t
//
//     the processor-demand test (Baruah, Rosier, Howell 1990).
//
// Test evaluates that sum at every due date that can matter and names the first
// one that fails. Least turns it round: the smallest worst-case latency, the
// same for all groups, that the test lets a module promise. For one group alone
// it is d + b/T.
//
// NonPreemptive is the same question for the other end: whether one device can
// run the batches of several groups, one at a time, each by its deadline.
//
// # Composition
//
// Both tests speak of one module that is reached evenly. Batches leave a module
// in bursts, so the next one is not. The bounds add up along a path all the same
// when every request carries a virtual arrival for each module: its arrival at
// the source plus the budgets of the modules above, along the longest path to
// it. Virtual arrivals are as even as the source, windows and due dates count
// from them, and a request that keeps each module's budget reaches the next
// module no later than its virtual arrival there. Earlier is no harm: it may
// wait, or start on an idle device as long as nothing that is due sooner is
// delayed. Where items multiply (fan-out) the virtual arrivals come in groups,
// and the proof is for the mean rate only.
//
// The arrivals are treated as a fluid. Where requests are counted singly, leave
// a margin of one inter-arrival time 1/T.
package demand
