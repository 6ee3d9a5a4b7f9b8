package paper

import (
	"math"
	"time"

	"github.com/harpagon/harpagon/scheduler/plan"
)

// latencyRule is how a policy judges the worst case of a request: GetWCL of the
// Harpagon paper.
type latencyRule interface {
	// full is the worst case of full machines of configuration c whose batches are
	// collected at w requests per second.
	full(c plan.Config, w float64) time.Duration

	// partial is that of one machine that is only partly used and receives rate
	// requests per second.
	partial(c plan.Config, rate float64) time.Duration

	// fastest is the least worst case with any dummy requests.
	fastest(c plan.Config) time.Duration

	// leastRate is the rate, no lower than given, at which the rule holds for machines
	// that are filled with dummy requests.
	leastRate(c plan.Config, rate float64) float64
}

// ruleOf is the rule that the options leave. Of two steps that exclude each
// other the first counts.
func ruleOf(o plan.Options) latencyRule {
	var rule latencyRule = throughputCost{}
	switch {
	case o.Lacks("tc"):
		rule = roundRobin{}
	case o.Lacks("dt"):
		rule = byConfiguration{}
	}
	if o.Reading == plan.ReadingLiteral {
		return literal{rule}
	}
	return rule
}

// throughputCost is Theorem 1: with throughput-cost dispatch, w is the rate of
// all machines whose throughput-cost ratio is no better, and the worst case is
// d + b/w.
type throughputCost struct{}

func (throughputCost) full(c plan.Config, w float64) time.Duration {
	return plan.PartialWorstCase(c, w)
}

func (throughputCost) partial(c plan.Config, rate float64) time.Duration {
	return plan.PartialWorstCase(c, rate)
}

func (throughputCost) fastest(c plan.Config) time.Duration { return c.Duration }

func (throughputCost) leastRate(_ plan.Config, rate float64) float64 { return rate }

// roundRobin lets every machine collect at its own rate: a full one needs 2d.
type roundRobin struct{ throughputCost }

func (roundRobin) full(c plan.Config, _ float64) time.Duration { return 2 * c.Duration }

func (roundRobin) fastest(c plan.Config) time.Duration { return 2 * c.Duration }

func (roundRobin) leastRate(c plan.Config, rate float64) float64 {
	return math.Max(rate, c.Throughput())
}

// unchecked is roundRobin without regard to the machine that is only partly used.
type unchecked struct{ roundRobin }

func (unchecked) partial(c plan.Config, _ float64) time.Duration { return 2 * c.Duration }

// byConfiguration lets the machines of one configuration collect together, apart
// from all others, as Scrooge dispatches: w is the rate of those that w fills.
type byConfiguration struct{ throughputCost }

func (byConfiguration) full(c plan.Config, w float64) time.Duration {
	if n := math.Floor(w/c.Throughput() + plan.RateTolerance); n >= 1 {
		w = n * c.Throughput()
	}
	return plan.PartialWorstCase(c, w)
}

func (byConfiguration) leastRate(c plan.Config, rate float64) float64 { return wholeMachines(rate, c) }

// literal reads a rule to the letter: a partly used machine collects together
// with the full ones of its configuration (see plan.ReadingLiteral).
type literal struct{ latencyRule }

func (l literal) partial(c plan.Config, rate float64) time.Duration { return l.full(c, rate) }

// wholeMachines is the least rate, no lower than given, that fills whole
// machines of c.
func wholeMachines(rate float64, c plan.Config) float64 {
	return math.Max(1, math.Ceil(rate/c.Throughput()-plan.RateTolerance)) * c.Throughput()
}
