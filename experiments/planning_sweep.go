package experiments

import (
	"math"
	"time"

	"github.com/harpagon/harpagon/pipelines/quantity"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/policies"
)

// What a sweep changes.
const (
	OverSLO  = "slo"
	OverRate = "rate"
)

// Sweep is the cost of policies while the SLO or the rate of a pipeline
// changes.
type Sweep struct {
	Pipeline  string      `json:"pipeline"`
	CostModel string      `json:"cost_model"`
	Over      string      `json:"over"`     // OverSLO (milliseconds) or OverRate (requests per second)
	Declared  float64     `json:"declared"` // what the files say
	X         []float64   `json:"x"`
	Curves    []SweepLine `json:"curves"`
}

// SweepLine is one policy's costs along the sweep.
type SweepLine struct {
	Policy string       `json:"policy"`
	Points []SweepPoint `json:"points"` // one for each X
}

// SweepPoint is one plan of a sweep.
type SweepPoint struct {
	Feasible bool    `json:"feasible"`
	Sound    bool    `json:"sound"`
	Cost     float64 `json:"cost"`
}

// Along lists n values that are worth looking at: SLOs in milliseconds from just
// below the fastest path to where more time hardly helps, or rates from a
// twentieth of the declared one to twice as much.
func Along(p plan.Problem, over string, n int) []float64 {
	low, high := p.Pipeline.Rate/20, 2*p.Pipeline.Rate
	if over == OverSLO {
		_, fastest, err := p.Pipeline.FastestPath(p.Hardware)
		if err != nil {
			return nil
		}
		low = 0.9 * quantity.Millis(fastest)
		high = max(1.8*quantity.Millis(p.Pipeline.SLO), 3*quantity.Millis(fastest))
	}
	if n < 2 || high <= low {
		return nil
	}
	list := make([]float64, n)
	for i := range list {
		list[i] = low + (high-low)*float64(i)/float64(n-1)
	}
	return list
}

// NewSweep starts a sweep that has no points yet.
func NewSweep(p plan.Problem, over string, x []float64, variants []Variant) Sweep {
	s := Sweep{Pipeline: p.Pipeline.Name, Over: over, X: x, Declared: p.Pipeline.Rate}
	if over == OverSLO {
		s.Declared = quantity.Millis(p.Pipeline.SLO)
	}
	for _, v := range variants {
		s.CostModel = v.Options.CostModel
		s.Curves = append(s.Curves, SweepLine{Policy: v.Name, Points: make([]SweepPoint, len(x))})
	}
	return s
}

// Point plans the problem with the variant at x. The limit bounds searches
// that can be cut short, by the clock.
func (v Variant) Point(p plan.Problem, over string, x float64, clock func() time.Duration, limit time.Duration) SweepPoint {
	if over == OverSLO {
		p.Pipeline.SLO = time.Duration(math.Round(x * float64(time.Millisecond)))
	} else {
		p.Pipeline.Rate = x
	}
	o := v.Options
	o.Clock, o.TimeLimit = clock, limit
	found := policies.Solve(p, o)
	return SweepPoint{Feasible: feasible(found), Sound: found.Sound, Cost: found.Cost}
}
