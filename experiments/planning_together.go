package experiments

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/harpagon/harpagon/pipelines/quantity"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/policies"
)

// Together is what several policies make of several pipelines that are planned
// together, as harpagon plan does: under cost model shared, pipelines may then
// use the same devices.
type Together struct {
	CostModel string  `json:"cost_model"`
	Pipelines int     `json:"pipelines"`
	Totals    []Total `json:"policies"`
}

// Total is one policy's plans for all pipelines.
type Total struct {
	Policy     string  `json:"policy"`
	Infeasible int     `json:"infeasible"` // pipelines without a plan
	Unsound    int     `json:"unsound"`    // pipelines whose plan cannot be kept
	Cost       float64 `json:"cost"`       // of those that have a plan
	LowerBound float64 `json:"lower_bound"`
	Ratio      float64 `json:"ratio"` // over the best whose plans can all be kept; 0 when some pipeline has no plan
	Solve      float64 `json:"solve_ms"`
}

// PlanTogether plans all problems with all variants. The clock and the limit
// are as in Measure.
func PlanTogether(problems []plan.Problem, variants []Variant, clock func() time.Duration, limit time.Duration) Together {
	t := Together{Pipelines: len(problems)}
	best := math.Inf(1)
	for _, v := range variants {
		o := v.Options
		o.Clock, o.TimeLimit = clock, limit
		var start time.Duration
		if clock != nil {
			start = clock()
		}
		total := Total{Policy: v.Name}
		for _, p := range policies.SolveAll(problems, o) {
			t.CostModel = p.CostModel
			total.add(p)
		}
		if clock != nil {
			total.Solve = quantity.Millis(clock() - start)
		}
		if total.Infeasible+total.Unsound == 0 {
			best = min(best, total.Cost)
		}
		t.Totals = append(t.Totals, total)
	}
	for i := range t.Totals {
		if at := &t.Totals[i]; at.Infeasible == 0 && best > 0 && !math.IsInf(best, 1) {
			at.Ratio = at.Cost / best
		}
	}
	return t
}

func (t *Total) add(p plan.Plan) {
	if !feasible(p) {
		t.Infeasible++
		return
	}
	if !p.Sound {
		t.Unsound++
	}
	t.Cost += p.Cost
	t.LowerBound += p.LowerBound
}

// Describe writes the totals for people.
func (t Together) Describe() string {
	g := Grid{Header: []string{"policy", "cost", "ratio", "bound", "no plan", "cannot be kept", "solve"}}
	for _, at := range t.Totals {
		bound := "-"
		if at.LowerBound > 0 {
			bound = quantity.Number(at.LowerBound)
		}
		g.Rows = append(g.Rows, []string{at.Policy, quantity.Number(at.Cost), ratio(at.Ratio), bound, fmt.Sprint(at.Infeasible), fmt.Sprint(at.Unsound), solved(at.Solve)})
	}
	var b strings.Builder
	fmt.Fprintf(&b, "All %d pipelines planned together, cost model %s\n", t.Pipelines, t.CostModel)
	b.WriteString(g.Text())
	return b.String()
}
