package plan

import "time"

// The baselines of one configuration a module, as the Harpagon and Piccolo
// papers treat the systems when they compare (Table III of both), not the
// systems in full: InferLine's simulator and tuner and Clipper's adaptive batch
// size have no part in it.
//
//	            split        hardware  configuration
//	inferline   throughput   any       largest throughput a price, 2d <= budget
//	clipper     equal shares one       largest throughput, 2d <= budget
//
// Both serve T requests per second on T/t machines in round robin, charged in
// proportion. Assumptions: Clipper's one kind of hardware is the cheapest; the
// machine that is only partly used is not checked against its own rate. Where
// the whole rate is below one machine's throughput the claim of 2d may be one
// that nobody can keep; Sound says so.

// steps that a baseline lacks.
func (o Options) baseline() Options {
	switch o.policy() {
	case PolicyInferLine:
		o.Split = "throughput"
		o.Without = []string{"tc", "dummy", "reassign", "merge", "direct"}
	case PolicyClipper:
		o.Split = "even"
		o.Without = []string{"tc", "dummy", "reassign", "merge", "direct", "hetero"}
	}
	return o
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
			return schedule{tranches: []tranche{t}, worst: worst, weight: c.weight * n}, true
		}
	}
	return schedule{}, false
}
