package plan

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// split is a parsed Options.Split.
type split struct {
	kind string // "lc", "throughput", "quantized" or "even"
	step time.Duration
}

func parseSplit(s string) (split, error) {
	switch s {
	case "", "lc":
		return split{kind: "lc"}, nil
	case "throughput", "even":
		return split{kind: s}, nil
	}
	if text, ok := strings.CutPrefix(s, "quantized:"); ok {
		step, err := time.ParseDuration(text)
		if err == nil && step >= time.Millisecond {
			return split{kind: "quantized", step: step}, nil
		}
		return split{}, fmt.Errorf("plan: split %q: the step must be a duration of 1ms or more, as in quantized:10ms", s)
	}
	return split{}, fmt.Errorf("plan: there is no split %q; there is lc, throughput, even and quantized:10ms with any step", s)
}

// even gives every module an equal share: the SLO over the number of modules
// on the longest path, counted in modules, that passes through it.
func (p *planner) even() []time.Duration {
	ones := make([]time.Duration, len(p.modules))
	for i := range ones {
		ones[i] = 1
	}
	budgets := make([]time.Duration, len(p.modules))
	for i, others := range p.dag.around(ones) {
		budgets[i] = p.pipe.SLO / (others + 1)
	}
	return budgets
}

// choice is a budget with the cost that a module has under it.
type choice struct {
	budget time.Duration
	weight float64
}

// quantized searches all budgets that are whole multiples of the step for the
// least cost, by depth-first branch and bound; cost is what solve gives. Only
// budgets at which a module's cost falls are branched on.
func (p *planner) quantized(step time.Duration) ([]time.Duration, bool) {
	q := quantizer{p: p, best: math.Inf(1), budgets: make([]time.Duration, len(p.modules))}
	for i := range p.modules {
		q.choices = append(q.choices, p.choices(i, step))
	}
	q.rest = make([]float64, len(p.modules)+1)
	for i := len(p.modules) - 1; i >= 0; i-- {
		if len(q.choices[i]) == 0 {
			return nil, false
		}
		q.rest[i] = q.rest[i+1] + q.choices[i][len(q.choices[i])-1].weight
	}
	for i := range p.modules {
		q.budgets[i] = q.choices[i][0].budget
	}
	if p.dag.longest(q.budgets) > p.pipe.SLO {
		return nil, false
	}
	q.search(0, 0)
	return q.found, q.found != nil
}

// choices lists the budgets of a module, rising, with costs, falling.
func (p *planner) choices(i int, step time.Duration) []choice {
	var list []choice
	for budget := step; budget <= p.pipe.SLO; budget += step {
		set, ok := p.modules[i].solve(budget)
		if ok && (len(list) == 0 || cheaper(set.weight, list[len(list)-1].weight)) {
			list = append(list, choice{budget, set.weight})
		}
	}
	return list
}

type quantizer struct {
	p       *planner
	choices [][]choice
	rest    []float64 // least cost of the modules from i on
	budgets []time.Duration
	best    float64
	found   []time.Duration
}

func (q *quantizer) search(i int, weight float64) {
	if weight+q.rest[i] >= q.best {
		return
	}
	if i == len(q.choices) {
		q.best, q.found = weight, append([]time.Duration(nil), q.budgets...)
		return
	}
	for k := len(q.choices[i]) - 1; k >= 0; k-- {
		q.budgets[i] = q.choices[i][k].budget
		if q.p.dag.longest(q.budgets) <= q.p.pipe.SLO {
			q.search(i+1, weight+q.choices[i][k].weight)
		}
	}
	q.budgets[i] = q.choices[i][0].budget
}
