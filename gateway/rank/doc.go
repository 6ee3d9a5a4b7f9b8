// Package rank schedules a pool of executors on several cores, off the data
// path: requests are names, deadlines and models, nothing more.
//
// It is Symphony's split (section 4.5) with unchanged policies. Models are
// dealt to workers. A worker is a goroutine that runs a dispatch.Demander over
// its models and owns no executor; requests go to it through a mailbox that is
// emptied in one go, so that a lock is taken once for many requests. One rank
// goroutine owns the executors. A worker whose batch is ready publishes the
// last instant at which that batch may start; the rank lends a free executor to
// the worker with the least time left. The worker's policy forms the batch for
// it and the batch starts, or the executor goes back. So the rank works per
// batch and not per request.
//
// A lent executor is busy for the rank from that instant on; this is the second
// of the two slips in the paper's pseudocode, which leaves it grantable.
package rank
