// Package functions decides which applications share a batch, and what kind of
// serverless function runs it, when several applications with objectives of their own use
// one model (HarmonyBatch: Chen, Xu, Gu, Chen, Liu, Zhou 2024).
//
// Solve takes a function, its provider and a policy, and returns a Plan as
// data. In order:
//
//   - catalogue.go: what is on offer. Each size of a CPU or GPU function with
//     each batch size has an average latency, which is billed, and a maximum,
//     which objectives are held by (equations 1 to 4), hence a cost per request
//     (equation 6). Where the provider bills in steps, the average is rounded
//     up to them.
//     A group needs an offer that fits it. A request waits at most its own
//     timeout, objective less maximum latency; the batch leaves when the first
//     timeout among its requests runs out. Timeouts of all applications move
//     together with the latency, and so does the equivalent timeout of the
//     group (equation 5). So a group is three numbers that no offer changes:
//     its rate, its shortest objective and its equivalent objective. An offer
//     fits when its maximum latency is below a bound that follows from these
//     and its batch size.
//     The cheapest offer that fits is found exactly: by batch size the
//     offers form a staircase (slower is cheaper), and one binary search per
//     batch size finds the step.
//   - published_policies.go merges groups in two stages, as the paper does; exact.go
//     finds the best partition among all by dynamic programming over subsets,
//     for up to a dozen applications, beyond that the best one that keeps
//     neighbours in the order of objectives together, with a lower bound
//     (bound.go) that holds for all. published_policies.go has the baselines, too.
//   - fit.go finds the coefficients from measurements, by least squares, and
//     reports how far off they are.
//
// Costs are money per request, in the currency of the provider's prices.
package functions
