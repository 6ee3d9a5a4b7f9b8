package plan

import (
	"slices"
	"time"
)

// The baselines, as the Harpagon and Piccolo
// papers treat the systems when they compare (Table III of both), not the
// systems in full: Nexus's squishy packing of several models on one device,
// InferLine's simulator and tuner and Clipper's adaptive batch size have no part
// in it.
//
//	            split        hardware  configuration
//	nexus       quantized    one       largest throughput, 2d <= budget; one more for the rest
//	scrooge     throughput   any       largest throughput a price, d + b/t <= budget; one more for the rest
//	inferline   throughput   any       largest throughput a price, 2d <= budget
//	clipper     equal shares one       largest throughput, 2d <= budget
//
// All are charged in proportion; Nexus, InferLine and Clipper dispatch in round
// robin. Nexus and Scrooge fill whole
// machines and serve the rest with one configuration, whose partly used machine
// must answer within d + b/(its own rate). The other two take T/t machines for T
// requests per second and do not check the one that is only partly used.
// Assumptions: where one kind of hardware is used it is the cheapest, and Nexus
// cuts the SLO into a hundred segments. Where
// the whole rate is below one machine's throughput the claim of 2d may be one
// that nobody can keep; Sound says so.
//
// Scrooge's d + b/t is read with t the rate of all full machines that run the
// configuration, d·(1 + 1/n) for n of them. Were t that of one machine, the value
// would be 2d and Scrooge would dispatch no better than round robin; the papers
// report that it does, in both by a worst case of about 1.5 d (Harpagon, figure
// 7a: 1.43 against 1.90 of Harpagon's own). Scrooge runs several batches at a
// time on a machine where the profile has such points, as Piccolo's Table III
// says. Its mixed integer program is not public and has no part in this.

// steps that a baseline lacks.
func (o Options) baseline() Options {
	switch o.policy() {
	case PolicyNexus:
		o.Split = "quantized:10ms" // the step follows from the SLO, see segment
		o.Without = []string{"tc", "multi", "dummy", "reassign", "merge", "direct", "hetero"}
	case PolicyScrooge:
		o.Split = "throughput"
		o.Without = []string{"dt", "multi", "dummy", "reassign", "merge", "direct"}
	case PolicyPiccolo:
		o.Without = append(slices.Clone(o.Without), "merge", "direct")
	case PolicyInferLine:
		o.Split = "throughput"
		o.Without = []string{"tc", "dummy", "reassign", "merge", "direct"}
	case PolicyClipper:
		o.Split = "even"
		o.Without = []string{"tc", "dummy", "reassign", "merge", "direct", "hetero"}
	}
	return o
}

// segments is how many steps Nexus cuts an SLO into.
const segments = 100

func segment(slo time.Duration) time.Duration { return max(1, slo/segments) }

// fixed policies have no steps to switch off.
func (o Options) fixed() bool {
	return o.policy() == PolicyNexus || o.policy() == PolicyScrooge || o.oneConfig()
}

func (o Options) oneConfig() bool {
	return o.policy() == PolicyInferLine || o.policy() == PolicyClipper
}

// one serves the module with the best configuration that answers in 2d; the
// list of configurations has the best ratio first.
func (s *scheduler) one(budget time.Duration) (schedule, bool) {
	for _, c := range s.configs {
		if worst := 2 * c.duration; worst <= budget {
			n := s.rate / c.throughput()
			t := tranche{config: c, machines: n, rate: s.rate, collect: s.rate, worst: worst}
			return schedule{tranches: []tranche{t}, worst: worst, weight: c.weight * t.charged()}, true
		}
	}
	return schedule{}, false
}
