package experiments

import (
	"context"
	"fmt"
	"strings"

	"github.com/harpagon/harpagon/experiments/published"
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/dispatch/factory"
	"github.com/harpagon/harpagon/scheduler/pool"
)

const (
	// quickQueries is how many a run of a quick look has.
	quickQueries = 2000
	// leastOfBound is the share of its bound below which a configuration is
	// not of interest to a baseline.
	leastOfBound = 0.05
	// aboveBound ends a search for goodput: what is searched cannot lie above.
	aboveBound = 1.01
	// thresholds of DeepRecSys that are tried.
	thresholds = 50

	steady  = "gamma:10.5" // gaps as the paper's simulator has them
	overIt  = "kairos over it"
	oneKind = "homogeneous, scaled to the budget"
)

// poolFigures are those about pools.
func poolFigures() []Figure {
	return append([]Figure{{
		ID: "kairos/goodput", Title: "The five models of the Kairos paper under its budget of 2.5 an hour", Seconds: 1500,
		Layout: Layout{Down: []string{"model", System, "instances"}, Across: []string{Metric}}, Run: runPools,
	}}, append(append(searchFigures(), divisionFigure()), motivationFigures()...)...)
}

func runPools(ctx context.Context, e *Env) (Result, error) {
	type piece struct {
		model    published.KairosModel
		arrivals string
		row      row
	}
	var all []piece
	models, queries := published.KairosModels(), pool.DefaultQueries
	arrivals := []string{"even", steady, "poisson"}
	if e.Quick {
		models, queries, arrivals = models[1:2], quickQueries, arrivals[1:2]
	}
	for _, how := range arrivals {
		for _, m := range models {
			all = append(all, piece{model: m, arrivals: how})
		}
	}
	var out Result
	err := e.Each(ctx, "Pools", len(all), func(i int) (err error) {
		all[i].row, err = measurePool(ctx, all[i].model, all[i].arrivals, queries)
		return err
	})
	for _, one := range all {
		one.row.addTo(&out, Set("arrivals", one.arrivals, "model", one.model.Name))
	}
	out.Note("A baseline is measured on the configuration that is best for it of all within the budget. The paper prints that Kairos is about 1.5 times as fast as Ribbon, up to 1.44 times as DeepRecSys and Clockwork, twice as one kind of instance for RM2 and 1.25 times at least for all.")
	out.Note("The oracle serves every query, the others 99 %% of them, and its order need not be the best: it is no bound, and may be beaten.")
	return out, err
}

// row is one model of the table, with goodputs in queries per second.
type row struct {
	homogeneous        float64 // scaled up to the budget, as the paper does
	kairos, exact      pool.Plan
	chosen             []int
	oracle, bestOracle float64 // on the configuration of kairos, and the best of all
	bestConfiguration  []int
	baseline           map[string]float64 // each on the configuration that is best for it
	on                 map[string][]int
	plain              float64 // matching with the coefficients of the paper, on the configuration of kairos
}

// distributors are the baselines; each gives the policies that its tuning may
// choose from on a pool.
func distributors(largest int) map[string]func(pool.TrialPool) []func() dispatch.Policy {
	return map[string]func(pool.TrialPool) []func() dispatch.Policy{
		ribbon: func(p pool.TrialPool) []func() dispatch.Policy {
			return []func() dispatch.Policy{func() dispatch.Policy { return distributor(ribbon, p, largest, 0) }}
		},
		clockwork: func(p pool.TrialPool) []func() dispatch.Policy {
			return []func() dispatch.Policy{func() dispatch.Policy { return distributor(clockwork, p, largest, 0) }}
		},
		deeprecsys: func(p pool.TrialPool) (all []func() dispatch.Policy) {
			for threshold := 0; threshold <= largest; threshold += largest / thresholds {
				all = append(all, func() dispatch.Policy { return distributor(deeprecsys, p, largest, threshold) })
			}
			return all
		},
	}
}

// measurePool tries a model; the baselines look at all configurations for the best one.
func measurePool(ctx context.Context, m published.KairosModel, arrivals string, queries int) (row, error) {
	var p pool.Problem
	p.Pool, p.Hardware = m.Pool()
	p.Pool.Arrivals = arrivals
	solve := func(policy string) pool.Plan { return pool.Solve(p, pool.Options{Queries: queries, Policy: policy}) }
	alone := solve(pool.PolicyHomogeneous)
	r := row{kairos: solve(pool.PolicyKairos), exact: solve(pool.PolicyExact), baseline: map[string]float64{}, on: map[string][]int{}}
	for _, plan := range []pool.Plan{alone, r.kairos, r.exact} {
		if plan.Status == pool.Infeasible {
			return r, fmt.Errorf("model %s has no plan by %s: %s", m.Name, plan.Policy, plan.Reason)
		}
	}
	r.homogeneous = alone.Goodput * alone.Budget / alone.Cost
	s, err := pool.NewStudy(p, pool.Options{Queries: queries})
	if err != nil {
		return r, err
	}
	all := s.Configurations()
	for _, c := range all {
		if rate := bestThroughput(s.Trial(c), s.Load); rate > r.bestOracle {
			r.bestOracle, r.bestConfiguration = rate, c
		}
	}
	r.chosen = s.Choice()
	r.oracle = bestThroughput(s.Trial(r.chosen), s.Load)
	for name, policies := range distributors(int(s.Matching.Largest)) {
		if ctx.Err() != nil {
			return r, ctx.Err()
		}
		if r.baseline[name], r.on[name], err = baseline(s, policies, all); err != nil {
			return r, err
		}
	}
	var wrong error
	r.plain, err = s.Search.Goodput(s.Trial(r.chosen), func() dispatch.Policy {
		d, err := factory.New(factory.Spec{Matching: &s.Matching})
		if err != nil {
			wrong = err
		}
		return d
	}, s.Load, s.Bound(r.chosen)*aboveBound)
	if wrong != nil {
		err = wrong
	}
	return r, err
}

// baseline is the goodput of a distributor with the best of its tunings on the
// best of the configurations for it.
func baseline(s *pool.Study, policies func(pool.TrialPool) []func() dispatch.Policy, all [][]int) (best float64, on []int, err error) {
	for _, c := range all {
		p, bound := s.Trial(c), s.Bound(c)
		for _, policy := range policies(p) {
			worthwhile := best * (1 + s.Search.Tolerance)
			if bound <= worthwhile {
				continue
			}
			ok, err := s.Search.Sustains(p, policy(), s.Load, max(worthwhile, bound*leastOfBound))
			if err != nil {
				return best, on, err
			}
			if !ok {
				continue
			}
			if best, err = s.Search.GoodputBetween(p, policy, s.Load, worthwhile, bound*aboveBound); err != nil {
				return best, on, err
			}
			on = c
		}
	}
	return best, on, nil
}

// addTo appends what was reached, by whom and on which instances.
func (r row) addTo(out *Result, s Setting) {
	add := func(system string, on []int, rate float64) {
		at := s.With("instances", short(on))
		out.Add(at, system, "goodput", "1/s", rate)
		out.Add(at, system, "of the best oracle", "", rate/r.bestOracle)
		over, printed := r.kairos.Goodput/rate, s.Text("arrivals") == steady
		switch {
		case printed && system == ribbon:
			out.AddPrinted(at, system, overIt, "", over, 1.5)
		case printed && (system == deeprecsys || system == clockwork):
			out.AddWithin(at, system, overIt, "", over, 1, 1.44)
		case printed && system == oneKind && s.Text("model") == "rm2":
			out.AddPrinted(at, system, overIt, "", over, 2)
		case printed && system == oneKind:
			out.AddWithin(at, system, overIt, "", over, 1.25, 2)
		default:
			out.Add(at, system, overIt, "", over)
		}
	}
	add("kairos", r.chosen, r.kairos.Goodput)
	add("kairos, the paper's coefficients", r.chosen, r.plain)
	add("exact", counts(r.exact), r.exact.Goodput)
	add("oracle there", r.chosen, r.oracle)
	add("best oracle", r.bestConfiguration, r.bestOracle)
	add(oneKind, nil, r.homogeneous)
	for _, name := range []string{ribbon, deeprecsys, clockwork} {
		add(name, r.on[name], r.baseline[name])
	}
	out.Add(s.With("instances", short(counts(r.exact))), "exact", "gap", "%", 100*r.exact.Gap())
}

func counts(p pool.Plan) (n []int) {
	for _, name := range published.KairosTypes() {
		n = append(n, p.Instances[name])
	}
	return n
}

// short is a configuration as the paper writes it.
func short(counts []int) string {
	return "(" + strings.Trim(strings.ReplaceAll(fmt.Sprint(counts), " ", ","), "[]") + ")"
}
