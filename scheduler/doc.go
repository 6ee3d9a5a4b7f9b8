// Package scheduler holds the pure decisions, one package a question:
//
//	plan        a pipeline, its profiles, its objective  ->  what to run; its policies
//	            are in plan/paper and plan/exact, plan/policies picks one by name
//	sizing      the same for random arrivals  ->  the plan that attains its target
//	functions   applications that share a model  ->  groups, and functions to call
//	cluster     many pipelines that share devices  ->  how many, in which sub-clusters
//	pool        a budget and a mix of query sizes  ->  instances to rent
//	placement   a plan and devices  ->  where; desired and actual  ->  changes
//	dispatch    requests, executors, time  ->  batches
//	flow        a pipeline and what is complete of a request  ->  items that are ready
//	simulate    arrivals and plans  ->  what becomes of every request
//	autoscale   measures  ->  advice
//
// Nothing in it reads a clock, starts a goroutine, writes a log, draws from a
// shared source of randomness or keeps state between calls outside of values
// that its caller holds. Time, randomness and data arrive as arguments; what
// comes back is data that can be printed, stored, compared and replayed. So
// the command line's dry run, the workflow that plans for real, the gateway
// and a simulator can all drive the same code, and a decision seen in
// production is reproduced by calling one function.
package scheduler
