package paper

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/harpagon/harpagon/scheduler/plan"
)

// splitting is a parsed Options.Split.
type splitting struct {
	kind string // "lc", "throughput", "quantized" or "even"
	step time.Duration
}

func parseSplit(s string) (splitting, error) {
	switch s {
	case "", "lc":
		return splitting{kind: "lc"}, nil
	case "throughput", "even":
		return splitting{kind: s}, nil
	}
	if text, ok := strings.CutPrefix(s, "quantized:"); ok {
		step, err := time.ParseDuration(text)
		if err == nil && step >= time.Millisecond {
			return splitting{kind: "quantized", step: step}, nil
		}
		return splitting{}, fmt.Errorf("plan: split %q: the step must be a duration of 1ms or more, as in quantized:10ms", s)
	}
	return splitting{}, fmt.Errorf("plan: there is no split %q; there is lc, throughput, even and quantized:10ms with any step", s)
}

// even gives every module an equal share: the SLO over the number of modules
// on the longest path, counted in modules, that passes through it.
func (p *search) even() []time.Duration {
	ones := make([]time.Duration, len(p.Modules))
	for i := range ones {
		ones[i] = 1
	}
	budgets := make([]time.Duration, len(p.Modules))
	for i, others := range p.DAG.Around(ones) {
		budgets[i] = p.Pipeline.SLO / (others + 1)
	}
	return budgets
}

// maxNodes bounds the quantized search. Small pipelines need far fewer; where
// it is reached, the best split found by then is taken.
const maxNodes = 100_000

// maxSteps bounds the number of budgets that are tried for a module.
const maxSteps = 10_000

// choice is a budget with the cost that a module has under it.
type choice struct {
	budget time.Duration
	weight float64
}

// quantizer searches all budgets that are whole multiples of a step for the
// least cost, as quantized splitting does: depth first over the modules, with
// a bound that gives every module still open the cheapest choice which the
// modules decided so far leave room for.
type quantizer struct {
	p       *search
	choices [][]choice // by module; budgets rise, costs fall
	budgets []time.Duration
	best    float64
	found   []time.Duration
	nodes   int
}

// quantized splits in multiples of the step; ok is false when none fits.
func (p *search) quantized(step time.Duration) ([]time.Duration, bool) {
	q := quantizer{p: p, best: math.Inf(1)}
	for i := range p.Modules {
		list := p.choices(i, step)
		if len(list) == 0 {
			return nil, false
		}
		q.choices = append(q.choices, list)
		q.budgets = append(q.budgets, list[0].budget)
	}
	q.search(0, 0)
	return q.found, q.found != nil
}

// choices lists the budgets of a module at which its cost falls.
func (p *search) choices(i int, step time.Duration) []choice {
	var list []choice
	for budget := step; budget <= p.Pipeline.SLO; budget += step {
		set, ok := p.solveFilled(i, budget)
		if ok && (len(list) == 0 || plan.Cheaper(set.Weight, list[len(list)-1].weight)) {
			list = append(list, choice{budget, set.Weight})
		}
	}
	return list
}

// search decides module i; budgets of later modules stand at their least.
func (q *quantizer) search(i int, weight float64) {
	if q.nodes++; q.nodes > maxNodes && q.found != nil {
		return
	}
	if q.bound(i, weight) >= q.best {
		return
	}
	if i == len(q.choices) {
		q.best, q.found = weight, slices.Clone(q.budgets)
		return
	}
	for _, c := range slices.Backward(q.choices[i]) {
		q.budgets[i] = c.budget
		q.search(i+1, weight+c.weight)
	}
	q.budgets[i] = q.choices[i][0].budget
}

// bound is a cost that no completion undercuts, +Inf where there is none.
func (q *quantizer) bound(i int, weight float64) float64 {
	around := q.p.DAG.Around(q.budgets)
	for j := range q.choices {
		room := q.p.Pipeline.SLO - around[j]
		if q.budgets[j] > room {
			return math.Inf(1)
		}
		if j >= i {
			weight += cheapestWithin(q.choices[j], room)
		}
	}
	return weight
}

// cheapestWithin is the cost of the longest budget that fits.
func cheapestWithin(list []choice, room time.Duration) float64 {
	n, exact := slices.BinarySearchFunc(list, room, func(c choice, room time.Duration) int {
		return cmp.Compare(c.budget, room)
	})
	if exact {
		n++
	}
	return list[max(0, n-1)].weight
}
