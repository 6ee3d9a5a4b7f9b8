package pool

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/dispatch/matching"
	"github.com/harpagon/harpagon/scheduler/pool/trial"
)

// What the table must show.
const (
	ofOracle = 0.95 // least goodput of matching, relative to the oracle
)

// row is one model of the table, with goodputs in queries per second.
type row struct {
	homogeneous        float64 // scaled up to the budget, as the paper does
	kairos, exact      Plan
	oracle, bestOracle float64 // on the configuration of kairos, and the best of all
	bestConfiguration  []int
	baseline           map[string]float64 // each on the configuration that is best for it
	on                 map[string][]int
	plain              float64 // matching with the coefficients of the paper, on the configuration of kairos
}

func measure(t *testing.T, m paperModel, arrivals string, queries int, full bool) row {
	t.Helper()
	p := m.problem()
	p.Pool.Arrivals = arrivals
	o := Options{Queries: queries}
	solve := func(policy string) Plan {
		o := o
		o.Policy = policy
		plan := Solve(p, o)
		require.NotEqual(t, Infeasible, plan.Status, plan.Reason)
		return plan
	}
	alone := solve(PolicyHomogeneous)
	r := row{homogeneous: alone.Goodput * alone.Budget / alone.Cost, kairos: solve(PolicyKairos), exact: solve(PolicyExact)}

	s, err := newSolver(p, o.complete())
	require.NoError(t, err)
	all, err := s.configurations()
	require.NoError(t, err)
	chosen := s.kairosChoice(all).counts
	s.draw(all[0].rate)
	for _, c := range all {
		if rate := trial.Oracle(s.trial(c.counts), s.load); rate > r.bestOracle {
			r.bestOracle, r.bestConfiguration = rate, c.counts
		}
	}
	r.oracle = trial.Oracle(s.trial(chosen), s.load)
	if full {
		for i := range all {
			all[i].rate = s.bound(all[i].counts, s.load)
		}
		s.rank(all)
	} else {
		all = []configuration{{counts: chosen}, {counts: r.bestConfiguration}}
	}
	r.baseline, r.on = map[string]float64{}, map[string][]int{}
	for name := range s.distributors() {
		r.baseline[name], r.on[name] = s.baseline(t, name, all)
	}
	o2 := matching.Options{Base: int32(s.base), SLO: s.slo, Largest: 1000}
	for _, k := range s.kinds {
		o2.Types = append(o2.Types, matching.InstanceType{Name: k.name, Latency: k.latency})
	}
	r.plain, err = s.search.Goodput(s.trial(chosen), func() dispatch.Policy {
		d, err := matching.New(o2)
		require.NoError(t, err)
		return d
	}, s.load, s.bound(chosen, s.load)*1.01)
	require.NoError(t, err)
	return r
}

// distributors are the baselines; each gives the policies that its tuning may
// choose from on a pool.
func (s *solver) distributors() map[string]func(trial.Pool) []func() dispatch.Policy {
	largest := s.sizes[len(s.sizes)-1]
	return map[string]func(trial.Pool) []func() dispatch.Policy{
		"ribbon": func(p trial.Pool) []func() dispatch.Policy {
			return []func() dispatch.Policy{func() dispatch.Policy { return trial.NewRibbon(p, largest) }}
		},
		"clockwork": func(p trial.Pool) []func() dispatch.Policy {
			return []func() dispatch.Policy{func() dispatch.Policy { return trial.NewClockwork(p, largest) }}
		},
		"deeprecsys": func(p trial.Pool) (all []func() dispatch.Policy) {
			for threshold := 0; threshold <= largest; threshold += largest / 50 {
				all = append(all, func() dispatch.Policy { return trial.NewThreshold(p, largest, threshold) })
			}
			return all
		},
	}
}

// baseline is the goodput of a distributor with the best of its tunings on the
// best of the configurations for it.
func (s *solver) baseline(t *testing.T, name string, all []configuration) (best float64, on []int) {
	t.Helper()
	for _, c := range all {
		p, bound := s.trial(c.counts), s.bound(c.counts, s.load)
		for _, policy := range s.distributors()[name](p) {
			worthwhile := best * (1 + s.search.Tolerance)
			if bound <= worthwhile {
				continue
			}
			ok, err := s.search.Sustains(p, policy(), s.load, max(worthwhile, bound*leastOfBound))
			require.NoError(t, err)
			if !ok {
				continue
			}
			best, err = s.search.GoodputBetween(p, policy, s.load, worthwhile, bound*1.01)
			require.NoError(t, err)
			on = c.counts
		}
	}
	return best, on
}

// leastOfBound is the share of its bound below which a configuration is not of
// interest to a baseline.
const leastOfBound = 0.05

// mustReach holds what the table is to show for every model. Poisson arrivals
// are beyond what 2 base instances with a slack of one query can absorb, so the
// oracle, which has no arrivals, is no yardstick there.
func (r row) mustReach(t *testing.T, arrivals string) {
	t.Helper()
	if arrivals != "poisson" {
		assert.GreaterOrEqual(t, r.kairos.Goodput, ofOracle*r.oracle)
		assert.GreaterOrEqual(t, r.exact.Goodput, ofOracle*r.bestOracle)
	}
	assert.Greater(t, r.kairos.Goodput, r.homogeneous)
	for name, other := range r.baseline {
		assert.Greater(t, r.kairos.Goodput, other, name)
	}
	assert.GreaterOrEqual(t, r.exact.Goodput, r.kairos.Goodput)
	assert.LessOrEqual(t, r.exact.Goodput, r.exact.ProvenBound)
	assert.LessOrEqual(t, r.exact.ProvenBound, r.exact.BestBound)
}

// TestPaperTable regenerates the tables of docs/pools.md, with
// HARPAGON_POOL_TABLE=1 and -v. Without, it holds what they must show for one
// model and fewer queries.
func TestPaperTable(t *testing.T) {
	if os.Getenv("HARPAGON_POOL_TABLE") == "" {
		for _, m := range paperModels()[1:2] {
			r := measure(t, m, "gamma:10.5", 2000, false)
			r.mustReach(t, "gamma:10.5")
		}
		return
	}
	for _, arrivals := range []string{"even", "gamma:10.5", "poisson"} {
		fmt.Printf("\n### Arrivals: %s\n\n", arrivals)
		fmt.Println("| model | kairos chooses | matching | of the oracle there | of the best oracle | paper's coefficients | over homogeneous | over Ribbon | over DeepRecSys | over Clockwork | exact chooses | exact | of the best oracle | gap |")
		fmt.Println("|---|---|---|---|---|---|---|---|---|---|---|---|---|---|")
		for _, m := range paperModels() {
			r := measure(t, m, arrivals, DefaultQueries, true)
			k := r.kairos.Goodput
			over := func(name string) string { return fmt.Sprintf("%.2f %s", k/r.baseline[name], short(r.on[name])) }
			fmt.Printf("| %s | %s | %.4g | %.3f | %.3f | %.3f | %.2f | %s | %s | %s | %s | %.4g | %.3f | %.1f %% |\n",
				m.name, short(counts(r.kairos)), k, k/r.oracle, k/r.bestOracle, r.plain/r.oracle, k/r.homogeneous,
				over("ribbon"), over("deeprecsys"), over("clockwork"),
				short(counts(r.exact)), r.exact.Goodput, r.exact.Goodput/r.bestOracle, 100*r.exact.Gap())
			r.mustReach(t, arrivals)
		}
	}
}

func counts(p Plan) (n []int) {
	for _, name := range paperTypes() {
		n = append(n, p.Instances[name])
	}
	return n
}

// short is a configuration as the paper writes it.
func short(counts []int) string {
	return "(" + strings.Trim(strings.ReplaceAll(fmt.Sprint(counts), " ", ","), "[]") + ")"
}
