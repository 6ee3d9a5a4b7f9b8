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
// run the batches of several groups, one at a time, each by its deadline. It speaks of a
// device that takes what is due first, due one Deadline after its batch was closed (not
// after its first request came), of all batches that are closed: where a group closes one
// while its last is still running, the device goes on only when it knows of that one. A
// batch beside those that are counted may take the device as long as Slack says.
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
// delayed.
//
// # Bursts
//
// Where a request is divided into items (fan-out), all that are of one request have one virtual
// arrival: bursts of at most k items come one gap 1/R apart or later, at every module below alike.
// Every item keeps a latency L where
//
//   - executors run the batches of each burst in the order in which they come, and Unmixed
//     says no more than L. Bursts may be divided between groups in any fixed way;
//
//   - or the batches pass the test for a fluid of the rate k·R with windows that are one gap
//     shorter (Shaped), so that a batch may hold items of several bursts;
//
//   - or, on a device that others use, the batches that one burst fills are released together
//     (Task.AtOnce) and NonPreemptive says yes; or all of a device come with the same request
//     and InPhase does.
//
// A batch that waits for the items of the next burst needs shorter windows than those of the
// fluid where bursts come at exactly their rate. Nothing here proves that: a source that is
// slower by a hundredth makes such batches leave unfilled, and more of them than
// executors bear.
//
// # Kept request by request
//
// Requests are counted singly, and machines are not always free. A dispatcher
// keeps a plan that passes the test all the same if every group follows a
// schedule: batch k takes requests that arrive from k·P on, b at the most, and
// starts as soon as it is full, at k·P + W at the latest.
//
//   - A machine is idle whenever a batch is due. On n machines P >= d/n, so
//     batch k has ended by k·P + W + d <= (k+n)·P + W, when batch k+n of the
//     group is due; before that at most n - 1 batches after it have begun. It
//     does not matter how early each began. (Machines with time to spare allow
//     a start n·P - d later than the schedule's for the same reason.)
//
//   - No request waits longer than W: it arrived after the release of its batch.
//
//   - Every request of an even stream finds a batch where batches fill (b = f·P). By t
//     the groups have released room for sum of b·(floor(t/P) + 1) requests, a whole
//     number above T·t, so for all of the floor(T·t) + 1 that have come. And no room is
//     lost: let a batch due at D have room left, and t0 be the last
//     arrival before D that was given to a batch due later. No batch due by D
//     was released and had room then; so those that have had room since were
//     released after t0, the first at r. They need at most T·(D - r) requests by
//     the test, a whole number; so many arrive from r to D, and none went
//     elsewhere.
//
//   - Where batches start partly filled (b > f·P), fill is not whole. Let each
//     request stand for the fluid of the time 1/T after it. The fluid can be
//     divided by the test; a division of whole requests then exists, too
//     (transport problems have whole solutions), and earliest deadline first
//     finds one. A request may so come up to 1/T before the release of its
//     batch: windows need one inter-arrival time more, at the most.
//
//   - So they do where requests come at least 1/T apart, but later than an even stream's,
//     also where batches fill: room that is released while none come is lost. With windows
//     longer by 1/T full batches leave each request a batch that is released: let X be some
//     requests, each gap G between two of them at least 1/T long. Room that is released and
//     due within a gap is at most floor(T·G) - 1 by the test, and by the last of X at least
//     floor(T·(sum of G)) + 1 was released, so at least one for each of X can be had by X
//     (Hall 1935).
//
//   - One group alone with W = P needs nothing: every request lies in one
//     period, and no more than b of them in any.
//
// A schedule that begins again when all batches are closed and released is as good as the
// first.
package demand
