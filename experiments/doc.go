// Package experiments holds every figure and table of the papers that Harpagon
// builds on, and of its own docs. The files that begin with
// its name measure one subject:
//
//	planning     the policies of planning on drawn workloads
//	dispatching  the goodput of shared pools, in the settings of Symphony
//	overload     goodput beyond the planned rate
//	simulating   whether plans keep their promises, request by request
//	grouping     what applications save that share functions
//	pools        the goodput of pools of unlike instances
//	cores        how many decisions a second a scheduler on several cores takes
//
// Package published has the numbers that they start from.
//
// Experiments drive the packages below; only the command line imports them.
//
// # Assumptions
//
// What a paper leaves open, or its systems do otherwise than ours, is an Assumption with a
// name and a source, in a file for each system (assumptions_planning.go and others). A
// figure checks whether it holds (Env.Holds), so a profile of them can be played (Assume),
// and Figure.Explain finds by trying which of them close the gap between a number and the
// printed one. What it found on a small part of each figure is kept in gaps.json, which
// figures and docs/results/papers.md show.
//
// # Cores
//
// It drives a dispatcher, or one policy without it, as fast as possible, and measures how
// fast that is.
//
// The clock of a run is virtual: it advances with the arrivals, whose gaps are drawn
// beforehand. So the policies see the same load whatever the machine is able to do or has
// to do beside, and a run measures what a request costs: in time, and in processor time,
// which other work on the machine hardly changes. A worker that gets ahead of another
// waits for it, and so does the clock.
//
// Step drives one policy from one goroutine: what deciding takes. Run drives a
// dispatcher.Dispatcher as it serves, with admission, counts and the ends of batches, from
// so many goroutines; each is a gateway with a part of the models and of the executors.
// Drawing arrivals from the prepared ones and emulating executors are part of what is
// measured.
//
// # Dispatching
//
// It holds the settings in which Symphony (deferred batch
// scheduling) was evaluated, and measures policies in them.
//
// A DispatchSetting is a pool of equal devices, the networks that it serves, how their
// requests divide and how they crowd. Measure finds the goodput of a policy
// there: the highest rate at which each network has 99 % of its requests in
// time, by simulation. dispatchSettings lists the settings, by part:
//
//   - table4: two networks on eight devices, with the bound of executors that
//     take turns (equation 2 of the paper), with network delays, and at three
//     times the goodput;
//   - networks: every network of the paper's tables 5 and 6, alone on eight
//     devices;
//   - mixed: all of them together, equally or a few popular (Zipf);
//   - bursts: gamma gaps from shape 1 (Poisson) down to 0.05;
//   - devices: one to a thousand;
//   - models: a rising number of models on the same devices.
//
// Speed measures how fast a policy decides, and Frontends what uneven rates
// independent frontends cause, the paper's case for one scheduler (table 2). A changing
// workload (dispatching_changing.go) is played as one cluster, and divided among sub-clusters (dispatching_clusters.go).
//
// # Figure
//
// Figure is what all figures and tables have in common: an ID, how long
// they take, how they are run, and rows that are written as text, Markdown, CSV
// and JSON, or drawn.
//
// A row is one measured number: in which setting, by which system, which
// metric, ours and the one that the paper prints. A Layout sets what of this goes down and
// what across in a table; everything else divides the rows into several tables. So no
// figure writes its own table.
//
// # Grouping
//
// It measures what applications that share a model save by sharing
// functions, by every policy (HarmonyBatch): on drawn inputs, over two hours of
// rates that change every minute, and how true the model of costs is where
// arrivals are random.
//
// # Overload
//
// It measures what becomes of requests as more come than devices can do:
// goodput over offered load, on the workloads of planning, with the dispatchers and
// the admission control that serve. The capacity of a plan is the highest goodput at the
// planned rate and beyond; loads are offered in capacities.
//
// # Planning
//
// It judges policies: on one pipeline (Compare, Sweep) and on many
// that are drawn at random (Workloads, Measure, NewTable).
//
// # The workloads
//
// The Harpagon paper evaluates with 1131 workloads over five applications,
// which are not public. Workloads draws as many over the same applications, as
// package pipelines/library declares them: each workload takes the DAG and the
// fan-outs of one application, all five in turn, and draws the rest from a Regime:
// Published is that of the papers as far as they state it, wide holds more:
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
//
// # Pools
//
// It compares, on the five models of the Kairos paper, what a pool
// reaches by the paper's choice and distributor, by the best choice, and by the
// distributors that the paper compares with.
//
// # Simulating
//
// It holds plans to their promises by simulation: on the
// workloads of planning, request by request.
//
// # Limits
//
// upperLimit reports how many requests any dispatcher could have served in
// time, had it known all arrivals beforehand: the physical limit that policies
// of package dispatch are measured against.
//
// A batch of b requests runs for l(b), starts no sooner than its last request
// arrives and ends no later than its first is due; at most n run at a time.
// The last condition is relaxed: instead, running costs a price per unit of
// time, which may differ from cell to cell of the time axis. With prices given,
// the best choice of batches is a shortest path over the requests in order of
// arrival. For every choice of prices, its value plus the worth of n executors
// at those prices is at least what any schedule with at most n at a time
// achieves (Lagrangian duality); prices are raised where too many run and
// lowered where too few do, and the least value found is the bound.
//
// The bound covers all schedules whose batches are runs of requests in the
// order of arrival, some requests left out between them. A run that leaves one
// out inside can always leave out its first instead.
//
// # Bounds of attainment
//
// boundAttainment returns an attainment that no rule of dispatch and dropping could exceed,
// even with all arrivals known.
//
// # Promises
//
// keepsPromise checks in the simulator whether plans keep what they promise.
package experiments
