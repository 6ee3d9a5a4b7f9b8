// Package pool decides how many instances of each kind to rent for queries of
// different sizes under a money budget (Kairos, HPDC '23).
//
// Kinds differ in price and speed. The base serves every size within the
// objective; cheaper kinds serve only the sizes below the first that takes too
// long there. Which mix of instances serves the most queries depends on how
// often each size occurs.
//
// Policies, by Options.Policy:
//
//   - kairos: an estimate of the throughput of every configuration within the
//     budget (section 5.2, Eq. 14 and 15) and the paper's rule to choose among
//     the best, without trying any.
//   - exact: the configuration with the highest goodput in simulation with
//     policy matching, from a search that leaves out only what a proven bound
//     excludes (see capacity), or what the limit on simulations cuts off, as the
//     plan states.
//   - homogeneous: the best pool of a single kind.
//
// The paper calls its estimate an upper bound. It is none: it fixes which sizes
// go where, and takes all smaller types to serve what the largest of them can,
// so that it errs both ways. The bound of this package holds for every way to
// distribute queries, the paper's oracle included.
//
// Every plan comes with its goodput: the highest rate at which 99 % of queries
// finish within the objective when dispatch policy matching distributes them,
// drawn for a trial and played by package simulate.
//
// # Trials
//
// A trial draws queries of different sizes, plays them against a pool of
// instances with package simulate, and finds the highest rate that the pool
// sustains.
//
// What distributes the queries is a dispatch.Policy: policy matching as it runs
// in the gateway, or what an experiment compares it with.
//
// The same seed draws the same queries for every policy, configuration and
// rate: a higher rate only brings them closer together. So policies differ by
// what they decide, not by luck.
package pool
