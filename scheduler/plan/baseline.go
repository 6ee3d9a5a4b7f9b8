package plan

import "time"

// The baselines, as the Harpagon and Piccolo
// papers treat the systems when they compare (Table III of both), not the
// systems in full: Nexus's squishy packing of several models on one device,
// InferLine's simulator and tuner and Clipper's adaptive batch size have no part
// in it.
//
//	            split        hardware  configuration
//	nexus       quantized    one       largest throughput, 2d <= budget; one more for the rest
//	inferline   throughput   any       largest throughput a price, 2d <= budget
//	clipper     equal shares one       largest throughput, 2d <= budget
//
// All dispatch in round robin and are charged in proportion. Nexus fills whole
// machines and serves the rest with one configuration, whose partly used machine
// must answer within d + b/(its own rate). The other two take T/t machines for T
// requests per second and do not check the one that is only partly used.
// Assumptions: where one kind of hardware is used it is the cheapest, and Nexus
// cuts the SLO into a hundred segments. Where
// the whole rate is below one machine's throughput the claim of 2d may be one
// that nobody can keep; Sound says so.

// steps that a baseline lacks.
func (o Options) baseline() Options {
	switch o.policy() {
	case PolicyNexus:
		o.Split = "quantized:10ms" // the step follows from the SLO, see segment
		o.Without = []string{"tc", "multi", "dummy", "reassign", "merge", "direct", "hetero"}
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
func (o Options) fixed() bool { return o.policy() == PolicyNexus || o.oneConfig() }

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
