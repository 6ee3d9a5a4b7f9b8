package experiments

import (
	"context"
	"fmt"
	"slices"

	"github.com/harpagon/harpagon/experiments/published"
	"github.com/harpagon/harpagon/scheduler/pool"
)

// largerBudget is how many times the budget of figure 8 figure 15a has.
const largerBudget = 4

// variant is one change of the setting of figure 8 (section 8.6).
type variant struct {
	name   string
	change func(*pool.Problem)
}

// variants are figure 8, both parts of figure 15, and the first of figure 16.
func variants() []variant {
	return []variant{
		{"figure 8", func(*pool.Problem) {}},
		{"figure 15a, budget x 4", func(p *pool.Problem) { p.Pool.Budget *= largerBudget }},
		{"figure 15b, objective + 20 %", func(p *pool.Problem) { p.Pool.SLO = p.Pool.SLO + p.Pool.SLO/5 }},
		{"figure 16a, Gaussian sizes", func(p *pool.Problem) { p.Pool.Sizes = gaussian() }},
	}
}

// robustness measures what kairos reaches over the base alone in each variant.
func robustness(ctx context.Context, e *Env) (out Result, err error) {
	all := variants()
	models, queries := published.KairosModels(), searchQueries
	if e.Quick {
		models, queries, all = models[1:2], quickQueries/4, slices.Delete(all, 1, 2) // the large budget takes long
	}
	results := make([]Result, len(models)*len(all))
	err = e.Each(ctx, "Settings", len(results), func(i int) error {
		m, v := models[i/len(all)], all[i%len(all)]
		var p pool.Problem
		p.Pool, p.Hardware = m.Pool()
		p.Pool.Arrivals = "gamma:10.5"
		v.change(&p)
		at := Set("model", m.Name, "setting", v.name)
		chosen := pool.Solve(p, pool.Options{Queries: queries, Policy: pool.PolicyKairos})
		best := pool.Solve(p, pool.Options{Queries: queries, Policy: pool.PolicyHomogeneous})
		p.Pool.Hardware = []string{p.Pool.Base}
		base := pool.Solve(p, pool.Options{Queries: queries, Policy: pool.PolicyHomogeneous})
		for _, plan := range []pool.Plan{chosen, best, base} {
			if plan.Status == pool.Infeasible {
				return fmt.Errorf("model %s, %s: no plan by %s: %s", m.Name, v.name, plan.Policy, plan.Reason)
			}
		}
		scaled := func(p pool.Plan) float64 { return p.Goodput * p.Budget / p.Cost }
		results[i].Add(at, pool.PolicyKairos, "goodput", "1/s", chosen.Goodput)
		results[i].Add(at, pool.PolicyKairos, "over the base alone", "", chosen.Goodput/scaled(base))
		results[i].Add(at, pool.PolicyKairos, "over the best kind alone", "", chosen.Goodput/scaled(best))
		return nil
	})
	for _, r := range results {
		out.Rows = append(out.Rows, r.Rows...)
	}
	out.Note("Pools of one kind are scaled up to the budget as the paper does; its homogeneous pool is the base. Where another kind serves all sizes within the objective, it may do better alone than what the paper's rule chooses. Gaussian sizes have %d items on average with a deviation of %d: the paper does not say its own.", gaussianMean, gaussianDeviation)
	return out, err
}
