// Package paper holds the published ways to plan a pipeline, each in a file that
// can be deleted with its line in names.go.
//
//	            split        hardware  configurations of a module
//	harpagon    efficiency   any       any number, by throughput a price; d + b/w
//	piccolo     efficiency   any       the same, several batches at a time on a machine
//	nexus       quantized    cheapest  largest throughput, 2d; one more for the rest
//	scrooge     throughput   any       largest throughput a price, d + b/t; one more for the rest
//	inferline   throughput   any       largest throughput a price, 2d
//	clipper     equal shares cheapest  largest throughput, 2d
//	brute       exhaustive   any       every set, in the papers' reading
//
// The baselines are what the Harpagon and Piccolo papers compare with (Table III
// of both), not the systems in full. All are charged in proportion.
//
// policy.go defines what a policy is made of, and takes the two steps that all of them
// share: it splits the objective, then a moduleSolver serves each module within its budget.
// algorithm1.go holds the rules by which they judge a worst case. The files of policy
// harpagon follow section III of its paper: algorithm1.go serves one module (split.Reassign
// is the latency reassigner); algorithm2.go splits the latency and finds a way back where
// the split cannot be served. splits.go holds the other ways to split that the paper
// compares with, one_configuration.go the variant of one configuration a module, and
// ablation.go names the variants of both papers' evaluations.
package paper
