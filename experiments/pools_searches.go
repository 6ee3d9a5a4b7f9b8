package experiments

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/harpagon/harpagon/experiments/published"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/bayes"
	"github.com/harpagon/harpagon/scheduler/pool"
)

const (
	searchQueries  = 5000 // that one evaluation of a search plays
	searchSeeds    = 5
	transientSteps = 20 // evaluations that figure 12 shows
	topEstimates   = 20 // configurations that figure 13 shows

	// The paper names neither mean nor deviation of its Gaussian sizes.
	gaussianMean, gaussianDeviation = 500, 150
)

// searchFigures are those about how a configuration is found.
func searchFigures() []Figure {
	down := Layout{Down: []string{"model", System}, Across: []string{Metric}}
	return []Figure{
		{ID: "kairos/figure11", Title: "Evaluations until a search has what Kairos+ finds (figures 10 and 11)", Seconds: 900, Layout: down, Run: evaluations},
		{
			ID: "kairos/figure12", Title: "Goodput of the configurations evaluated after the sizes of queries have changed (RM2)", Seconds: 300,
			Layout: Layout{Down: []string{"evaluation"}, Across: []string{System}}, Run: transient,
		},
		{
			ID: "kairos/figure13", Title: "Goodput of the configurations of the highest estimates (RM2)", Seconds: 200,
			Layout: Layout{Down: []string{"rank", "instances"}, Across: []string{Metric}}, Run: estimates,
		},
		{
			ID: "kairos/figure15", Title: "Kairos over one kind of instance under another budget, objective and sizes (figures 15 and 16a)", Seconds: 300,
			Layout: Layout{Down: []string{"model"}, Across: []string{"setting", Metric}}, Run: robustness,
		},
	}
}

// poolSearch is one of the searches that the paper compares Kairos+ with (figure 11). All leave out
// what one that was evaluated contains.
type poolSearch struct {
	name string
	run  func(*pool.Search)
}

func searches() []poolSearch {
	return []poolSearch{{"random", randomSearch}, {"genetic", geneticSearch}, {ribbon, ribbonSearch}}
}

// newStudy is a model of the paper at steady arrivals, as its simulator has them.
func newStudy(m published.KairosModel, mix pipelines.Mix, queries int) (*pool.Study, pool.Problem, error) {
	var p pool.Problem
	p.Pool, p.Hardware = m.Pool()
	p.Pool.Arrivals = steady
	if mix != nil {
		p.Pool.Sizes = mix
	}
	s, err := pool.NewStudy(p, pool.Options{Queries: queries})
	return s, p, err
}

func bestOf(all []pool.Evaluated) float64 {
	best := 0.0
	for _, e := range all {
		best = math.Max(best, e.Goodput)
	}
	return best
}

// evaluations counts, for every model, what Kairos+ evaluates in all, and what the other
// searches do until they have something as good, over several seeds. All leave out what
// a configuration contains that was evaluated, as in the paper.
func evaluations(ctx context.Context, e *Env) (Result, error) {
	models, queries, seeds := published.KairosModels(), searchQueries, searchSeeds
	if e.Quick {
		models, queries, seeds = models[1:2], quickQueries/4, 2
	}
	results := make([]Result, len(models))
	err := e.Each(ctx, "Models", len(models), func(i int) error {
		s, _, err := newStudy(models[i], nil, queries)
		if err != nil {
			return err
		}
		at, space := Set("model", models[i].Name), float64(len(s.Configurations()))
		own := s.Evaluate((*pool.Search).KairosPlus, 0, 0)
		enough := bestOf(own) * (1 - s.Search.Tolerance)
		results[i].Add(at, pool.PolicyKairosPlus, "evaluations", "", float64(len(own)))
		results[i].AddWithin(at, pool.PolicyKairosPlus, "of the space", "%", 100*float64(len(own))/space, 0, 1)
		for _, by := range searches() {
			sum := 0
			for seed := range seeds {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				sum += len(s.Evaluate(by.run, uint64(seed), enough))
			}
			mean := float64(sum) / float64(seeds)
			results[i].Add(at, by.name, "evaluations", "", mean)
			results[i].Add(at, by.name, "of the space", "%", 100*mean/space)
		}
		return nil
	})
	var out Result
	for _, r := range results {
		out.Rows = append(out.Rows, r.Rows...)
	}
	out.Note("The paper says that Kairos+ evaluates less than 1 %% of the space; the other numbers stand in a chart. Other searches end when they have what Kairos+ found.")
	return out, err
}

// Numbers of the searches.
const (
	parents     = 10  // of a generation of the genetic search
	mutation    = 0.2 // chance that a count is off by one
	barren      = 200 // children in a row that have all been looked at already
	firstPoints = 3   // that Bayesian optimisation draws before it has a model
	hangsOver   = 0.3 // how far goodputs hang together, relative to the greatest counts
)

// randomSearch evaluates in any order.
func randomSearch(h *pool.Search) {
	for !h.Done() {
		h.Evaluate(h.Rand.IntN(len(h.Left())))
	}
}

// geneticSearch breeds configurations: a child has each count of one of two parents, which are
// the better ones of two drawn each from the best evaluated, now and then off by one. A
// child that is not left to evaluate dies; when too many do, chance takes over.
func geneticSearch(h *pool.Search) {
	for len(h.Tried()) < parents && !h.Done() {
		h.Evaluate(h.Rand.IntN(len(h.Left())))
	}
	dead := 0
	for !h.Done() {
		one := child(h)
		i := slices.IndexFunc(h.Left(), func(c []int) bool { return slices.Equal(c, one) })
		if i < 0 && dead < barren {
			dead++
			continue
		}
		if i < 0 {
			i = h.Rand.IntN(len(h.Left()))
		}
		h.Evaluate(i)
		dead = 0
	}
}

func child(h *pool.Search) []int {
	fittest := h.Tried()
	slices.SortStableFunc(fittest, func(a, b pool.Evaluated) int { return cmp.Compare(b.Goodput, a.Goodput) })
	fittest = fittest[:min(parents, len(fittest))]
	parent := func() []int { return fittest[min(h.Rand.IntN(len(fittest)), h.Rand.IntN(len(fittest)))].Counts }
	a, b := parent(), parent()
	child := slices.Clone(a)
	for g := range child {
		if h.Rand.IntN(2) == 0 {
			child[g] = b[g]
		}
		if h.Rand.Float64() < mutation {
			child[g] = max(0, child[g]+2*h.Rand.IntN(2)-1)
		}
	}
	return child
}

// ribbonSearch is Bayesian optimisation, the search of Ribbon: of what is left the
// configuration with the greatest expected improvement is next.
func ribbonSearch(h *pool.Search) {
	left := h.Left()
	greatest := make([]float64, len(left[0]))
	for _, counts := range left {
		for g, n := range counts {
			greatest[g] = max(greatest[g], float64(n), 1)
		}
	}
	at := func(counts []int) []float64 {
		p := make([]float64, len(counts))
		for g, n := range counts {
			p[g] = float64(n) / greatest[g]
		}
		return p
	}
	for len(h.Tried()) < firstPoints && !h.Done() {
		h.Evaluate(h.Rand.IntN(len(h.Left())))
	}
	for !h.Done() {
		var tried []bayes.Tried
		for _, c := range h.Tried() {
			tried = append(tried, bayes.Tried{At: at(c.Counts), Value: c.Goodput})
		}
		var candidates [][]float64
		for _, counts := range h.Left() {
			candidates = append(candidates, at(counts))
		}
		h.Evaluate(bayes.Next(tried, candidates, hangsOver))
	}
}

// transient lets the sizes of RM2 change from the published sampler to Gaussian ones, on
// which every search starts again. Kairos evaluates nothing.
func transient(ctx context.Context, e *Env) (out Result, err error) {
	queries := searchQueries
	if e.Quick {
		queries = quickQueries
	}
	s, p, err := newStudy(published.KairosModels()[1], gaussian(), queries)
	if err != nil {
		return out, err
	}
	chosen := pool.Solve(p, pool.Options{Queries: queries, Policy: pool.PolicyKairos})
	for _, by := range append([]poolSearch{{pool.PolicyKairosPlus, (*pool.Search).KairosPlus}}, searches()...) {
		if ctx.Err() != nil {
			return out, ctx.Err()
		}
		all := s.Evaluate(by.run, 1, 0)
		for i, one := range all[:min(transientSteps, len(all))] {
			out.Add(Set("evaluation", strconv.Itoa(i+1)), by.name, "goodput", "1/s", one.Goodput)
		}
		if by.name == pool.PolicyKairosPlus {
			out.Note("Kairos+ is done after %d evaluations; the paper's after 8.", len(all))
		}
	}
	out.Add(Set("evaluation", "1"), pool.PolicyKairos, "goodput", "1/s", chosen.Goodput)
	out.Note("Sizes are Gaussian, %d on average with a deviation of %d: the paper does not say its own. Searches try configurations with policy matching, not with the distributors of their papers.", gaussianMean, gaussianDeviation)
	return out, nil
}

// gaussian are sizes in steps of ten, kept to those that were measured.
func gaussian() (m pipelines.Mix) {
	for size := 10; size <= 1000; size += 10 {
		z := float64(size-gaussianMean) / gaussianDeviation
		m = append(m, pipelines.Size{Size: size, Weight: math.Exp(-z * z / 2)})
	}
	return m
}

// estimates evaluates the configurations of RM2 with the highest estimates.
func estimates(ctx context.Context, e *Env) (out Result, err error) {
	queries, top := searchQueries, topEstimates
	if e.Quick {
		queries, top = quickQueries, 3
	}
	s, _, err := newStudy(published.KairosModels()[1], nil, queries)
	if err != nil {
		return out, err
	}
	for i, one := range s.Top(top) {
		at := Set("rank", strconv.Itoa(i+1), "instances", short(one.Counts))
		out.Add(at, pool.PolicyKairos, "estimate", "1/s", one.Estimate)
		out.Add(at, pool.PolicyKairos, "goodput", "1/s", one.Goodput)
	}
	out.Note("Kairos picks %s.", short(s.Choice()))
	return out, ctx.Err()
}

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
		p.Pool.Arrivals = steady
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
