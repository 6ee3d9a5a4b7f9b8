// Package rank schedules a pool of executors on several cores, off the data
// path: requests are names, deadlines and models, nothing more.
//
// Symphony (section 4.5) splits its scheduler into model threads and one rank
// thread that owns all executors, so that every batch costs two messages to the
// rank. Here the executors are dealt out as well. A worker is a goroutine that
// runs an unchanged dispatch policy over its models and its executors, and most
// batches start without a word to anybody. Only what is uneven is exchanged: a
// worker that could start a batch but has no executor for it publishes the last
// instant at which that batch may start. Another one gives it an executor that
// idles; or one that becomes free, when its own most urgent batch has more time
// left. So the rule of the rank thread, the next executor to the batch with the
// least time left, holds across workers, but the decision is taken by whoever
// has the executor (see board).
//
// Requests come through mailboxes that are emptied in one go, so that a lock is
// taken once for many requests; a Feed gathers the requests of one caller
// before that. In steady state nothing is allocated.
//
// Package load drives a Scheduler as fast as it goes and says how fast that is.
package rank
