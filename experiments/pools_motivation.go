package experiments

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"

	"github.com/harpagon/harpagon/experiments/published"
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/dispatch/factory"
	"github.com/harpagon/harpagon/scheduler/pool"
)

// Names of who distributes queries.
const (
	ribbon     = "ribbon"
	deeprecsys = "deeprecsys"
	clockwork  = "clockwork"
	oracle     = "oracle"
)

const (
	explored      = 200 // configurations that figure 2 draws
	leastExplored = 20  // queries per second: less is not explored (section 4)
	swapped       = 10  // configurations of figure 14
	noise         = 0.05
)

// motivationFigures are those that show why a pool of several kinds is hard to choose
// (section 4), and what becomes of Kairos' choice by other distributors and by noise.
func motivationFigures() []Figure {
	down := Layout{Down: []string{"instances"}, Across: []string{System}}
	return []Figure{
		{ID: "kairos/figure1", Title: "Configurations of RM2 over one kind of instance, by Ribbon's distributor and by others (figures 1 and 3)", Seconds: 60, Layout: down, Run: configurations},
		{ID: "kairos/figure2", Title: "Explored configurations of RM2 below one kind of instance (figure 2)", Seconds: 120,
			Layout: Layout{Down: []string{System}, Across: []string{Metric}}, Run: exploration},
		{ID: "kairos/figure14", Title: "The configurations of the highest estimates of RM2, by other distributors (figure 14)", Seconds: 300, Layout: down, Run: distributed},
		{ID: "kairos/figure16", Title: "Kairos over one kind of instance where latencies vary by 5 % (figure 16b)", Seconds: 120,
			Layout: Layout{Down: []string{"model"}, Across: []string{Metric}}, Run: noisy},
	}
}

// rm2 is the model of the paper's examples.
func rm2(e *Env) (*pool.Study, error) {
	queries := searchQueries
	if e.Quick {
		queries = quickQueries / 2
	}
	s, _, err := newStudy(published.KairosModels()[1], nil, queries)
	return s, err
}

// reached is the goodput of a distributor on a configuration, with DeepRecSys' threshold
// found as it finds it.
func reached(s *pool.Study, by string, counts []int) (float64, error) {
	p, largest, above := s.Trial(counts), int(s.Matching.Largest), s.Bound(counts)*aboveBound
	switch by {
	case oracle:
		return bestThroughput(p, s.Load), nil
	case deeprecsys:
		_, rate, err := hillClimb(s.Search, p, s.Load, largest, above)
		return rate, err
	}
	return s.Search.Goodput(p, func() dispatch.Policy { return distributor(by, p, largest, 0) }, s.Load, above)
}

// alone is the goodput of so many of the base as the budget pays, scaled up to it.
func alone(s *pool.Study) (float64, error) {
	n := int(published.KairosBudget / published.KairosPrices()[0])
	rate, err := reached(s, ribbon, []int{n, 0, 0, 0})
	return rate * published.KairosBudget / (float64(n) * published.KairosPrices()[0]), err
}

// configurations looks at those of figure 1.
func configurations(ctx context.Context, e *Env) (out Result, err error) {
	s, err := rm2(e)
	if err != nil {
		return out, err
	}
	base, err := alone(s)
	if err != nil {
		return out, err
	}
	printed := map[string]float64{"(3,1,3,0)": 1.15}
	for _, counts := range [][]int{{4, 0, 0, 0}, {3, 1, 3, 0}, {2, 0, 9, 0}, {1, 4, 2, 0}} {
		at := Set("instances", short(counts))
		for _, by := range []string{ribbon, deeprecsys, clockwork, oracle} {
			rate, err := reached(s, by, counts)
			if err != nil || ctx.Err() != nil {
				return out, cmp.Or(err, ctx.Err())
			}
			out.Add(at, by, "goodput", "1/s", rate)
			paper := 0.0
			if by == ribbon {
				paper = printed[short(counts)]
			}
			out.AddPrinted(at, by, "over one kind", "", rate/base, paper)
		}
	}
	out.Note("Instances are those of %v, in the order of the paper's table 4. One kind is (4,0,0,0) by Ribbon's distributor, scaled up to the budget.", published.KairosTypes())
	return out, nil
}

// exploration tries configurations at random, as a search does without any model.
func exploration(ctx context.Context, e *Env) (out Result, err error) {
	s, err := rm2(e)
	if err != nil {
		return out, err
	}
	base, err := alone(s)
	if err != nil {
		return out, err
	}
	n := explored
	if e.Quick {
		n /= 10
	}
	all, rng := s.Configurations(), rand.New(rand.NewPCG(2, 0))
	rates := make([]float64, n)
	drawn := rng.Perm(len(all))
	err = e.Each(ctx, "Configurations", n, func(i int) (err error) {
		rates[i], err = reached(s, ribbon, all[drawn[i]])
		return err
	})
	tried, below, best := 0, 0, 0.0
	for _, rate := range rates {
		if rate < leastExplored {
			continue
		}
		tried, best = tried+1, max(best, rate)
		if rate < base {
			below++
		}
	}
	at := Set("drawn", strconv.Itoa(n))
	out.AddPrinted(at, ribbon, "below one kind", "%", 100*float64(below)/float64(max(1, tried)), 70)
	out.Add(at, ribbon, "best over one kind", "", best/base)
	out.Note("Of %d configurations within the budget, drawn at random, %d reach %d queries per second by Ribbon's distributor and count. The paper walks through them by simulated annealing.", n, tried, leastExplored)
	return out, err
}

// distributed gives the configurations with the highest estimates to other distributors.
func distributed(ctx context.Context, e *Env) (out Result, err error) {
	s, err := rm2(e)
	if err != nil {
		return out, err
	}
	top := swapped
	if e.Quick {
		top = 2
	}
	for _, one := range s.Top(top) {
		at := Set("instances", short(one.Counts))
		out.Add(at, "estimate", "goodput", "1/s", one.Estimate)
		out.Add(at, pool.PolicyKairos, "goodput", "1/s", one.Goodput)
		for _, by := range []string{ribbon, deeprecsys, clockwork, oracle} {
			rate, err := reached(s, by, one.Counts)
			if err != nil || ctx.Err() != nil {
				return out, cmp.Or(err, ctx.Err())
			}
			out.Add(at, by, "goodput", "1/s", rate)
		}
	}
	out.Note("The paper's chart prints no numbers: by Kairos all come near the estimate and the oracle, by the others they stay far below.")
	return out, nil
}

// noisy measures Kairos' choice and one kind of instance with latencies that vary, which
// no distributor foresees.
func noisy(ctx context.Context, e *Env) (out Result, err error) {
	models, queries := published.KairosModels(), searchQueries
	if e.Quick {
		models, queries = models[1:2], quickQueries/2
	}
	results := make([]Result, len(models))
	err = e.Each(ctx, "Models", len(models), func(i int) error {
		s, _, err := newStudy(models[i], nil, queries)
		if err != nil {
			return err
		}
		goodput := func(counts []int, noise float64) (float64, error) {
			p := s.Trial(counts)
			p.Noise = noise
			var wrong error
			rate, err := s.Search.Goodput(p, func() dispatch.Policy {
				d, err := factory.New(factory.Spec{Matching: &s.Matching})
				wrong = cmp.Or(wrong, err)
				return d
			}, s.Load, s.Bound(counts)*aboveBound)
			return rate, cmp.Or(wrong, err)
		}
		n := int(published.KairosBudget / published.KairosPrices()[0])
		scale := published.KairosBudget / (float64(n) * published.KairosPrices()[0])
		for _, share := range []float64{0, noise} {
			chosen, err := goodput(s.Choice(), share)
			if err != nil {
				return err
			}
			base, err := goodput([]int{n, 0, 0, 0}, share)
			if err != nil || base == 0 {
				return cmp.Or(err, fmt.Errorf("model %s serves nothing by its base alone", models[i].Name))
			}
			name := "over one kind"
			if share > 0 {
				name += ", noise"
			}
			results[i].Add(Set("model", models[i].Name), pool.PolicyKairos, name, "", chosen/(base*scale))
		}
		return ctx.Err()
	})
	for _, r := range results {
		out.Rows = append(out.Rows, r.Rows...)
	}
	out.Note("Noise is Gaussian, with a deviation of 5 %% of each latency; the matching has the paper's coefficients. The paper's chart prints no numbers: its gains stay as they are without noise.")
	return out, err
}
