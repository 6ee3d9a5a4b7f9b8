// Package simulate plays requests against the dispatchers on a virtual clock,
// and reports what becomes of each.
//
// It drives dispatch.Policy unmodified: the same state machines that the
// gateway drives, with the same events, so that what is simulated is what runs.
// It reads no clock and starts no goroutine; the same seed gives the same
// result, to the last digit, on any machine. Every random number belongs to a
// purpose with a sequence of its own (arrivals of a pipeline, fan-out of a
// pipeline, noise of devices), and arrivals at another rate are the same draws
// brought closer together: policies and rates are compared on the same luck.
//
//	loads ── arrivals ── flow ── station ── policy
//	                               │
//	                             flights ── device
//
// A request takes its way through the modules by package flow, as in the
// gateway. All events of a run, whatever the setting, stand in one queue
// (dispatch/agenda), keyed by what they happen to.
//
// There are three settings:
//
//	OnPlans      runs a plan for each pipeline: one dispatcher a module, the plan's
//	             groups as executors, budgets as virtual arrivals
//	OnCluster    runs everything on one cluster of devices with one dispatcher,
//	             without a plan: the setting of Symphony
//	OnExecutors  runs requests of one module on executors of several kinds with
//	             one dispatcher: queries to a pool (Kairos), applications that
//	             share a function (HarmonyBatch)
//
// and a question on top of them:
//
//	FindGoodput  the highest rate at which enough requests are in time
//
// # What is counted
//
// A request is counted by its arrival: those of a warm-up are not. Each has one
// outcome: completed (answered within the SLO), late (answered after it),
// dropped (a policy gave it up, or two devices were lost under it) or refused
// (when it came: it could not be in time, or a queue was full). After the last arrival a run goes on until every request
// has its outcome. The interval around an attainment is the wider of wilson's
// and that of batch means over stretches of time, because misses come in
// bursts.
//
// # What is left out
//
// Tensors, and the time to move them beyond Options.Delay; the bound on
// requests under way at a gateway; timers and devices that are not
// punctual beyond Options.Noise.
//
// # What is drawn
//
// RandomSource draws what is random in a simulation: the same seed, the same numbers.
package simulate
