// Package baseline has the distributors of queries that the Kairos paper compares its matching
// with (section 7). They know how long a query of each size takes on each kind of instance, learn
// nothing, and hand queries out one by one:
//
//	ribbon.go     ribbon: first come, first served, the base first
//	threshold.go  drs, after DeepRecSys: large queries to the base, small ones elsewhere
//	clockwork.go  clockwork: each query at once to the queue of the instance that ends it first
//	floor.go      what they share: which instances idle, and what can still be in time
//
// All of them drop a query once no instance can finish it in time. The originals would serve it
// late; dropping it is an advantage to them.
package baseline
