package experiments

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/quantity"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/policies"
)

// Comparison is what several policies make of one pipeline under one cost
// model.
type Comparison struct {
	Pipeline   string
	CostModel  string
	SLO        time.Duration
	Rate       float64 // requests per second at the source
	Best       string  // the policy with the cheapest sound plan, the first of equals; empty when there is none
	Cost       float64 // of that plan, money per hour
	LowerBound float64 // the best that any policy proved for all plans; 0 when none did
	Entries    []Entry
}

// Entry is one policy's plan, and what to know about it.
type Entry struct {
	Plan   plan.Plan
	Ratio  float64       // cost over that of the best sound plan; 0 when there is no plan or no best
	Proven time.Duration // end to end; 0 when a module has no proof
	Note   string        // empty when there is nothing to say
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

// solved is a solve time in milliseconds; zero where nobody looked at a clock.
func solved(ms float64) string {
	if ms == 0 {
		return "0"
	}
	return quantity.Number(ms) + " ms"
}

// MarshalJSON writes the comparison with the field names of a plan's JSON where
// they mean the same: times in milliseconds, cost per hour.
func (c Comparison) MarshalJSON() ([]byte, error) {
	entries := c.Entries
	if entries == nil {
		entries = []Entry{}
	}
	return json.Marshal(struct {
		Pipeline   string  `json:"pipeline"`
		CostModel  string  `json:"cost_model"`
		SLO        float64 `json:"slo_ms"`
		Rate       float64 `json:"rate"`
		Best       string  `json:"best,omitempty"`
		Cost       float64 `json:"cost"`
		LowerBound float64 `json:"lower_bound"`
		Policies   []Entry `json:"policies"`
	}{c.Pipeline, c.CostModel, quantity.Millis(c.SLO), c.Rate, c.Best, c.Cost, c.LowerBound, entries})
}

// MarshalJSON writes what a policy's plan comes to; the plan itself is what
// harpagon plan --policy prints.
func (e Entry) MarshalJSON() ([]byte, error) {
	p := e.Plan
	return json.Marshal(struct {
		Policy     string      `json:"policy"`
		Status     plan.Status `json:"status"`
		Reason     string      `json:"reason,omitempty"`
		Sound      bool        `json:"sound"`
		Proof      string      `json:"proof,omitempty"`
		Cost       float64     `json:"cost"`
		Ratio      float64     `json:"ratio"`
		LowerBound float64     `json:"lower_bound"`
		Restricted string      `json:"restriction,omitempty"`
		Latency    float64     `json:"latency_ms"`
		Proven     float64     `json:"proven_ms"`
		Solve      float64     `json:"solve_ms"`
		Note       string      `json:"note,omitempty"`
	}{p.Policy, p.Status, p.Reason, p.Sound, p.Proof, p.Cost, e.Ratio, p.LowerBound, p.Restriction,
		quantity.Millis(p.Latency), quantity.Millis(e.Proven), quantity.Millis(p.SolveTime), e.Note})
}
