package paper

import (
	"time"

	"github.com/harpagon/harpagon/scheduler/plan"
)

// nexus is Nexus as the papers compare with it: quantized splitting, one kind of
// hardware (the cheapest that has a plan), round robin, the configuration of the
// largest throughput that answers in 2d, and one more for the rest, whose partly
// used machine must answer within d + b/(its own rate). Under cost model shared
// what modules leave over is packed as in the paper of Nexus itself (squish.go).
func nexus() plan.Policy {
	return oneKind{policy{
		lacks:  []string{"tc", "multi", "dummy", "reassign", "merge", "direct"},
		split:  "quantized:10ms", // the step follows from the SLO
		step:   segment,
		share:  (*search).squish,
		module: func(s *search, m *plan.ModuleProblem) moduleSolver { return s.algorithm1(m) },
	}}
}

// segments is how many steps Nexus cuts an SLO into, which is assumed.
const segments = 100

func segment(slo time.Duration) time.Duration { return max(1, slo/segments) }
