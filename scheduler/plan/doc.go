// Package plan has what all policies share that plan a pipeline: the problem and
// its options, the plan with its text and JSON, and the parts of planning that do
// not depend on a policy. It decides, for one pipeline, its profiles and the
// hardware on offer, how much of the latency objective each module may use, and
// which configurations on how many machines serve it for least money.
//
// Callers plan by package policies, which picks the policy that the options name from
// packages paper and exact:
//
//	p := policies.Solve(problem, options)
//
// A configuration is (hardware, batch b, concurrency s) with its measured
// duration d; a machine that runs it serves t = s·b/d requests per second for
// a price p per hour. A module that receives T requests per second under a
// budget L gets groups of machines; a group whose requests are collected at w
// requests per second answers within d + b/w of their arrival (Theorem 1 of the
// Harpagon paper; package demand decides exactly what a dispatcher can keep).
//
// Read problem.go and plan.go first: input and output. A Policy works on a Prepared problem
// (prepared.go): modules in topological order, each with its configurations (config.go). It
// makes a Schedule for every module and writes the plan (schedule.go); sound.go proves what
// a dispatcher can keep of it. solve.go drives a policy: with the headroom that the
// pipeline keeps (problem.go), and no more devices than exist (capacity.go).
//
// Everything is a pure function of its arguments.
//
// # Variants
//
// ChooseVariants chooses which networks serve a pipeline whose modules have variants.
//
// Each combination of variants is an ordinary pipeline: the same modules with other
// profiles. So a planner is called for one combination after another, the most accurate
// first:
//
//	accuracy of a combination  =  product of the accuracies of its modules
//
// which is the pipeline accuracy score of IPA (Ghafouri et al., arXiv 2308.12871). Two
// aims are known from InferLine's successors:
//
//   - LeastCost, as IPA's floor: of the combinations that are accurate enough, the one
//     whose plan costs least;
//   - MostAccurate, as the accuracy scaling of Loki (Ahmad, Guan, Sitaraman, arXiv
//     2407.03583): on devices that are fixed, the most accurate combination for which
//     they suffice, and never less than the floor.
//
// One network serves each module at a time: a plan gives it all requests of the module.
// As the rate changes, so does the choice, and Shares counts the requests that each variant
// answered.
package plan
