package paper

import (
	"time"

	"github.com/harpagon/harpagon/scheduler/plan"
)

// piccolo is the system of the Piccolo paper. Its Algorithm 1 and
// Theorem 1 are those of the Harpagon paper; what differs is here:
//
//   - a configuration has a concurrency level s, the batches that a machine runs
//     side by side ;
//   - Algorithm 2 starts at the configurations of the shortest worst case, has
//     neither node merger nor cost-direct, and resizes the budgets linearly in
//     the end (resize);
//   - dummy requests bring the leftover workload to b/(L - d), the rate that
//     just collects a batch in time, instead of filling a machine.
//
// The listing of Algorithm 2 has misprints. Read literally it ends at its start
// or writes past the objective, so the text around it is followed:
//
//	line 11   numerator and denominator are both negated: the same value as in
//	          the text, cost saved per latency added
//	line 13   GetLat(DAG, Mmax, cmax) asks for the latency of the best move so
//	          far, which is undefined for the first one; it must be
//	          GetLat(DAG, M, c_new), the move that is judged
//	line 15   cmax takes c; it must take c_new
//	line 16   the update stands inside the loop over the modules by its
//	          indentation, so the first module would move before others are
//	          looked at; it belongs after the loop, one move in each pass
//	line 19   GetLat(DAG, M, DAG[M]) must be the longest path through M, not the
//	          end-to-end latency: only then do the budgets of every path use the
//	          whole objective
//
// The paper adds dummy requests whenever their number is not negative. That
// raises the cost in its own example (285 requests per second on M1: batch 20
// would want 6.4 dummies), so they are added only where the cost falls. Where
// d is not half of L the formula differs much from the machine that it means to
// fill: for M3 of Harpagon's Table II it wants 122 dummy requests where 2 are
// enough. It also makes the cost change with every millisecond of a budget, so that a
// finer split is nearly always a little cheaper: with the rule of Harpagon first
// (Custom.Fill) Piccolo is as cheap as the best split in steps of a millisecond on 70 % of
// the workloads of piccolo/figure4, and on 43 % with its own.
func piccolo() policy {
	return policy{
		lacks:      []string{"merge", "direct"},
		concurrent: true,
		fastest:    true,
		resize:     resize,
		module:     func(s *search, m *plan.ModuleProblem) moduleSolver { return s.algorithm1(m, plan.CollectRate) },
	}
}

// resize is lines 18 and 19 of Piccolo's Algorithm 2: every budget grows by
// the SLO over the longest path through the module. Policy harpagon leaves that
// to the latency reassigner.
func resize(s *search, budgets []time.Duration) []time.Duration {
	return s.DAG.Stretch(budgets, s.Pipeline.SLO)
}
