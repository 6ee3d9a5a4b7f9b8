// Package planning judges policies: on one pipeline (Compare, Sweep) and on many
// that are drawn at random (Workloads, Measure, NewTable).
//
// # The workloads
//
// The Harpagon paper evaluates with 1131 workloads over five applications,
// which are not public. Workloads draws as many over the same applications, as
// package pipelines/library declares them: each workload takes the DAG and the
// fan-outs of one application, all five in turn, and draws the rest from a Regime:
// Published is that of the papers as far as they state it, Wide holds more:
//
//	hardware    2 or 3 kinds; each next one at 0.35 to 0.75 times the speed of
//	            the one before; price = 1 to 4 for the fastest, for the others in
//	            proportion to speed^g · (0.85 to 1.15), g from 0.8 to 1.5
//	profiles    batches 1, 2, 4, ..., 32, in a quarter of the workloads to 64;
//	            on the fastest device a batch starts in 5 to 50 ms and takes
//	            0.5 to 20 ms more a request (both log-uniform); slower devices
//	            start speed^-0.5 and go on speed^-1 as fast
//	family      of each module's profile:
//	            affine   start + step·b
//	            stairs   the same, the batch rounded up to a multiple of 4 or 8
//	            noisy    affine, each point times 0.95 to 1.08
//	            gaining  start + step·b^g, g from 0.7 to 0.95
//	            tiring   affine to batch 8, each further request 1.3 times as long
//	rate        20 to 1000 requests per second at the source (log-uniform)
//	SLO         2 to 10 times the application's fastest path
//
// Profiles hold one batch at a time on a device; WithConcurrency adds points for
// two and four side by side, for policies that can use them.
//
// Nothing here was measured. Workload i of a seed is always the same, however
// many are drawn, on every machine.
//
// # What is counted
//
// A policy is judged against policy exact under the same cost model. Its plan is
// optimal when it is sound and costs no more than exact's, within Tolerance.
// Where it is not sound and costs less, it looks cheaper only because it
// promises what no dispatcher can keep; that is counted by itself. A sound plan
// that is cheaper than exact's would be a defect of exact, and is counted too.
//
// Everything is a pure function of its arguments; the clock for solve times is
// passed in, and a caller that has several cores measures workloads side by
// side.
package planning
