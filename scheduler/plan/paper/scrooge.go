package paper

import "github.com/harpagon/harpagon/scheduler/plan"

// scrooge is Scrooge as the papers compare with it: splitting by throughput, the
// configuration of the largest throughput a price that answers in d + b/t, and one
// more for the rest. Its mixed integer program is not public and has no part in
// this.
//
// d + b/t is read with t the rate of all full machines that run the configuration,
// d·(1 + 1/n) for n of them. Were t that of one machine, the value would be 2d and
// Scrooge would dispatch no better than round robin; the papers report that it
// does, in both by a worst case of about 1.5 d (Harpagon, figure 7a: 1.43 against
// 1.90 of Harpagon's own). Scrooge runs several batches at a time on a machine
// where the profile has such points, as in Piccolo's Table III.
func scrooge() policy {
	return policy{
		lacks:      []string{"dt", "multi", "dummy", "reassign", "merge", "direct"},
		split:      "throughput",
		concurrent: true,
		module:     func(s *search, m *plan.ModuleProblem) moduleSolver { return s.algorithm1(m) },
	}
}
