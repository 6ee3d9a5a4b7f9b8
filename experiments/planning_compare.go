package experiments

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/quantity"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/paper"
	"github.com/harpagon/harpagon/scheduler/plan/policies"
)

// Comparison is what several policies make of one pipeline under one cost
// model.
type Comparison struct {
	Pipeline   string        `json:"pipeline"`
	CostModel  string        `json:"cost_model"`
	SLO        time.Duration `json:"slo_ms"`
	Rate       float64       `json:"rate"`           // requests per second at the source
	Best       string        `json:"best,omitempty"` // the policy with the cheapest sound plan, the first of equals; empty when there is none
	Cost       float64       `json:"cost"`           // of that plan, money per hour
	LowerBound float64       `json:"lower_bound"`    // the best that any policy proved for all plans; 0 when none did
	Entries    []Entry       `json:"policies"`
}

// Entry is one policy's plan, with notes on it.
type Entry struct {
	Plan   plan.Plan
	Ratio  float64       // cost over that of the best sound plan; 0 when there is no plan or no best
	Proven time.Duration // end to end; 0 when a module has no proof
	Note   string        // empty without any
}

// Compare plans the problem with all variants. The clock and the limit are as
// in Measure.
func Compare(p plan.Problem, variants []Variant, clock func() time.Duration, limit time.Duration) Comparison {
	c := Comparison{Pipeline: p.Pipeline.Name, SLO: p.Pipeline.SLO, Rate: p.Pipeline.Rate}
	for _, v := range variants {
		o := v.Options
		o.Clock, o.TimeLimit = clock, limit
		found := policies.Solve(p, o)
		c.CostModel = found.CostModel
		c.Entries = append(c.Entries, Entry{Plan: found, Proven: proven(&p.Pipeline, &found)})
	}
	c.rank(&p.Pipeline)
	return c
}

// rank finds the best plan and judges the others by it.
func (c *Comparison) rank(pipe *pipelines.Pipeline) {
	c.Cost = math.Inf(1)
	for _, e := range c.Entries {
		if feasible(e.Plan) && e.Plan.Sound && e.Plan.Cost < c.Cost*(1-Tolerance) {
			c.Best, c.Cost = e.Plan.Policy, e.Plan.Cost
		}
		if e.Plan.Restriction == "" {
			c.LowerBound = max(c.LowerBound, e.Plan.LowerBound)
		}
	}
	if c.Best == "" {
		c.Cost = 0
	}
	for i := range c.Entries {
		e := &c.Entries[i]
		if feasible(e.Plan) && c.Best != "" {
			e.Ratio = 1
			if c.Cost > 0 {
				e.Ratio = e.Plan.Cost / c.Cost
			}
		}
		e.Note = c.note(pipe, e)
	}
}

// note explains a plan that cannot be kept, and one that there is none of.
func (c *Comparison) note(pipe *pipelines.Pipeline, e *Entry) string {
	switch {
	case !feasible(e.Plan):
		return e.Plan.Reason
	case e.Plan.Sound:
		return ""
	}
	why := broken(e.Plan)
	if e.Ratio > 0 && e.Ratio < 1-Tolerance {
		return fmt.Sprintf("looks %.3g %% cheaper than %s, but its promise cannot be kept: %s", 100*(1-e.Ratio), c.Best, why)
	}
	return "its promise cannot be kept: " + why
}

// broken names the module that misses its budget by most.
func broken(p plan.Plan) string {
	worst, by := "", time.Duration(math.MinInt64)
	for _, m := range p.Modules {
		if m.Proven == 0 && m.Rate > 0 {
			return fmt.Sprintf("no latency can be proven for module %s; its groups need more requests than come", m.Name)
		}
		if over := m.Proven - m.Budget; over > by {
			worst, by = fmt.Sprintf("module %s can need %s of its %s", m.Name, quantity.Duration(m.Proven), quantity.Duration(m.Budget)), over
		}
	}
	return worst
}

func feasible(p plan.Plan) bool { return p.Status == plan.Optimal || p.Status == plan.Feasible }

// Describe writes the comparison for people.
func (c Comparison) Describe() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s at %.4g requests per second within %s, cost model %s\n", c.Pipeline, c.Rate, quantity.Duration(c.SLO), c.CostModel)
	g := Grid{Header: []string{"policy", "cost", "ratio", "bound", "claimed", "proven", "sound", "solve"}}
	var notes []string
	for _, e := range c.Entries {
		g.Rows = append(g.Rows, e.cells())
		if e.Plan.Restriction != "" && feasible(e.Plan) {
			notes = append(notes, fmt.Sprintf("  * %s: this bound holds only among %s.\n", e.Plan.Policy, e.Plan.Restriction))
		}
		if e.Note != "" {
			notes = append(notes, fmt.Sprintf("  %s: %s.\n", e.Plan.Policy, strings.TrimSuffix(e.Note, ".")))
		}
	}
	b.WriteString(g.Text())
	if c.Best == "" {
		notes = append(notes, "  No policy found a plan whose promise can be kept; raise the SLO, or profile faster hardware.\n")
	}
	b.WriteString(strings.Join(notes, ""))
	return b.String()
}

func (e Entry) cells() []string {
	p := e.Plan
	if !feasible(p) {
		return []string{p.Policy, "infeasible", "", "", "", "", "", solved(quantity.Millis(p.SolveTime))}
	}
	bound, proof, sound := "-", "none", "yes"
	if p.LowerBound > 0 {
		bound = quantity.Number(p.LowerBound)
		if p.Restriction != "" {
			bound += "*"
		}
	}
	if e.Proven > 0 {
		proof = quantity.Duration(e.Proven)
	}
	if !p.Sound {
		sound = "NO"
	}
	return []string{p.Policy, quantity.Number(p.Cost), ratio(e.Ratio), bound, quantity.Duration(p.Latency), proof, sound, solved(quantity.Millis(p.SolveTime))}
}

// ratio is a factor with three digits behind the point; none where nothing was
// compared.
func ratio(x float64) string {
	if x == 0 {
		return "-"
	}
	return fmt.Sprintf("%.3f", x)
}

// solved is a solve time in milliseconds; zero where it was not measured.
func solved(ms float64) string {
	if ms == 0 {
		return "0"
	}
	return quantity.Number(ms) + " ms"
}

// MarshalJSON writes the comparison with the field names of a plan's JSON where
// they mean the same: times in milliseconds, cost per hour.
func (c Comparison) MarshalJSON() ([]byte, error) { return quantity.Marshal(c) }

// MarshalJSON writes what a policy's plan comes to; the plan itself is what
// harpagon plan --policy prints.
func (e Entry) MarshalJSON() ([]byte, error) {
	p := e.Plan
	return quantity.Marshal(struct {
		Policy     string        `json:"policy"`
		Status     plan.Status   `json:"status"`
		Reason     string        `json:"reason,omitempty"`
		Sound      bool          `json:"sound"`
		Proof      string        `json:"proof,omitempty"`
		Cost       float64       `json:"cost"`
		Ratio      float64       `json:"ratio"`
		LowerBound float64       `json:"lower_bound"`
		Restricted string        `json:"restriction,omitempty"`
		Latency    time.Duration `json:"latency_ms"`
		Proven     time.Duration `json:"proven_ms"`
		Solve      time.Duration `json:"solve_ms"`
		Note       string        `json:"note,omitempty"`
	}{
		Policy: p.Policy, Status: p.Status, Reason: p.Reason, Sound: p.Sound, Proof: p.Proof, Cost: p.Cost, Ratio: e.Ratio,
		LowerBound: p.LowerBound, Restricted: p.Restriction, Latency: p.Latency, Proven: e.Proven, Solve: p.SolveTime, Note: e.Note,
	})
}

// Variant is a way to plan that is judged.
type Variant struct {
	Name    string
	Options plan.Options
	What    string  // for an ablation: what is switched off
	Printed float64 // average normalized cost that the Harpagon paper prints; 0 when it prints none
	Every   int     // solve only every so many workloads, for what is slow; 0 means all
}

// sampled is how many workloads there are for each one that a slow policy is
// runPublished on. Applications come in turn, five of them, so neither is a multiple of five.
func sampled(policy, costModel string) int {
	switch {
	case policy != plan.PolicyBrute:
		return 0
	case costModel == plan.CostProportional:
		return 6 // what it was made for
	}
	return 24
}

// PlanningPolicies are all policies that have the cost model, in the order of
// policies.Names.
func PlanningPolicies(costModel string) []Variant {
	var list []Variant
	for _, name := range policies.Names() {
		o := plan.Options{Policy: name, CostModel: costModel}
		if policies.Check(o) == nil {
			list = append(list, Variant{Name: name, Options: o, Every: sampled(name, costModel)})
		}
	}
	return list
}

// Ablations are the variants that a paper ("Harpagon" or "Piccolo") compares
// its policy with, the whole policy first. Printed are the averages that its
// text gives.
func Ablations(name string) []Variant {
	var list []Variant
	for _, a := range paper.Ablations() {
		if a.Paper != name {
			continue
		}
		if list == nil {
			whole := plan.Options{Policy: a.Options.Policy, CostModel: a.Options.CostModel}
			list = append(list, Variant{Name: name, What: "the whole policy", Printed: 1, Options: whole})
		}
		list = append(list, Variant{Name: a.Name, What: a.What, Printed: 1 + a.Extra, Options: a.Options})
	}
	return list
}

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
	Declared  float64     `json:"declared"` // in the files
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
