package cluster

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// draw makes models as the paper does (appendix A.2): rates of an exponential
// distribution, sizes of its table 1.
func draw(rng *rand.Rand, n int, total float64) []PartitionModel {
	static := []float64{99, 88, 230, 84, 170, 822}
	dynamic := []float64{2172, 1519, 3386, 2653, 2798, 6200}
	models := make([]PartitionModel, n)
	sum := 0.0
	for i := range models {
		k := rng.IntN(len(static))
		models[i] = PartitionModel{Name: fmt.Sprint(i), Rate: rng.ExpFloat64(), Static: static[k] * (1 << 20), Dynamic: dynamic[k] * (1 << 20)}
		sum += models[i].Rate
	}
	for i := range models {
		models[i].Rate *= total / sum
	}
	return models
}

// judge recomputes what a result claims.
func judge(t require.TestingT, p PartitionProblem, r PartitionResult) {
	rates, memory, dynamic := make([]float64, p.SubClusters), make([]float64, p.SubClusters), make([]float64, p.SubClusters)
	var allRate, allMemory, cost float64
	for i, m := range p.Models {
		j := r.Of[i]
		rates[j], memory[j], dynamic[j] = rates[j]+m.Rate, memory[j]+m.Static, max(dynamic[j], m.Dynamic)
		allRate, allMemory = allRate+m.Rate, allMemory+m.Static
		if p.Current != nil && p.Current[i] >= 0 && p.Current[i] != j {
			cost += max(m.Move, 1)
		}
	}
	var rate, mem float64
	for j := range rates {
		rate = max(rate, math.Abs(rates[j]*float64(p.SubClusters)/allRate-1))
		mem = max(mem, math.Abs(memory[j]*float64(p.SubClusters)/allMemory-1))
		if p.MostRate > 0 {
			require.LessOrEqual(t, rates[j], p.MostRate*(1+1e-6))
		}
		if p.MostMemory > 0 {
			require.LessOrEqual(t, memory[j]+dynamic[j], p.MostMemory*(1+1e-6))
		}
	}
	if p.Current != nil {
		require.LessOrEqual(t, cost, p.Moves+1e-6)
		require.InDelta(t, cost, r.Cost, 1e-6)
	}
	require.InDelta(t, rate, r.Rate, 1e-6)
	require.InDelta(t, mem, r.Memory, 1e-6)
	require.LessOrEqual(t, r.Bound, r.Objective+1e-9)
}

// TestTheSettingOfFigure15: 800 models on 20 sub-clusters, from 1,000 requests
// per second to a million, within 2 % of the average sub-cluster from the best,
// again and from an assignment whose rates have changed, with few models moved.
func TestTheSettingOfFigure15(t *testing.T) {
	for _, total := range []float64{1e3, 1e6} {
		rng := rand.New(rand.NewPCG(uint64(total), 15))
		p := PartitionProblem{Models: draw(rng, 800, total), SubClusters: 20, MostMemory: 24 << 30, MostRate: total / 10}
		r, err := Partition(p)
		require.NoError(t, err)
		judge(t, p, r)
		assert.LessOrEqual(t, r.Gap, 0.02, r.Describe())
		for i := range p.Models {
			p.Models[i].Rate *= math.Exp(rng.NormFloat64() / 2)
		}
		p.Current = r.Of
		for _, moves := range []float64{0, 20, 80} {
			p.Moves = moves
			next, err := Partition(p)
			require.NoError(t, err)
			judge(t, p, next)
			assert.LessOrEqual(t, next.Moved, int(moves))
			t.Logf("%g requests/s, %g moves: %s; objective %.4f, bound %.4f", total, moves, next.Describe(), next.Objective, next.Bound)
			assert.LessOrEqual(t, next.Gap, 0.02, "%g moves: %s", moves, next.Describe())
		}
	}
}

// brute looks at every assignment.
func brute(p PartitionProblem) (best float64, ok bool) {
	best = math.Inf(1)
	n, of := len(p.Models), make([]int, len(p.Models))
	for {
		s := newState(&p)
		for i, j := range of {
			s.put(i, j)
		}
		allowed := p.Current == nil || s.spent <= p.Moves+1e-9
		for j := range s.in {
			allowed = allowed && (len(s.in[j]) == 0 || s.fits(s.in[j][0], j, s.in[j][0]))
		}
		if objective, _, _ := s.worth(); allowed && objective < best {
			best, ok = objective, true
		}
		i := 0
		for ; i < n; i++ {
			if of[i]++; of[i] < p.SubClusters {
				break
			}
			of[i] = 0
		}
		if i == n {
			return best, ok
		}
	}
}

// TestBruteForceTwin: what is enumerated is the best, the bound is below it, and
// the search that takes over for many models stays above it and near.
func TestBruteForceTwin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, l := rapid.IntRange(1, 5).Draw(t, "models"), rapid.IntRange(1, 3).Draw(t, "sub-clusters")
		p := PartitionProblem{SubClusters: l}
		for i := range n {
			p.Models = append(p.Models, PartitionModel{
				Name: fmt.Sprint(i), Rate: float64(rapid.IntRange(1, 20).Draw(t, "rate")), Static: float64(rapid.IntRange(1, 20).Draw(t, "static")),
				Dynamic: float64(rapid.IntRange(0, 20).Draw(t, "dynamic")),
			})
		}
		if rapid.Bool().Draw(t, "bounded") {
			p.MostRate, p.MostMemory = float64(rapid.IntRange(20, 80).Draw(t, "most rate")), float64(rapid.IntRange(40, 100).Draw(t, "most memory"))
		}
		if rapid.Bool().Draw(t, "runs") {
			p.Moves = float64(rapid.IntRange(0, n).Draw(t, "moves"))
			for range n {
				p.Current = append(p.Current, rapid.IntRange(-1, l-1).Draw(t, "current"))
			}
		}
		want, ok := brute(p)
		r, err := Partition(p)
		require.Equal(t, ok, err == nil, "%v", err)
		if !ok {
			return
		}
		judge(t, p, r)
		require.InDelta(t, want, r.Objective, 1e-6)
		s := newState(&p)
		require.LessOrEqual(t, s.bound(), want+1e-6)
		if s.begin() == nil {
			s.improve()
			found := s.result()
			judge(t, p, found)
			require.GreaterOrEqual(t, found.Objective, want-1e-6)
		}
	})
}

func TestWhatCannotBeDivided(t *testing.T) {
	for want, p := range map[string]PartitionProblem{
		"at least one model":   {SubClusters: 1},
		"fits on no device":    {Models: []PartitionModel{{Name: "a", Static: 2 << 20}}, SubClusters: 1, MostMemory: 1 << 20},
		"a dispatcher decides": {Models: []PartitionModel{{Name: "a", Rate: 2}}, SubClusters: 1, MostRate: 1},
		"below zero":           {Models: []PartitionModel{{Name: "a", Rate: -1}}, SubClusters: 1},
		"sub-cluster 3 of 2":   {Models: []PartitionModel{{Name: "a"}}, SubClusters: 2, Current: []int{3}},
		"keeps within rate":    {Models: []PartitionModel{{Name: "a", Rate: 2}, {Name: "b", Rate: 2}}, SubClusters: 1, MostRate: 3},
		"current lists 2":      {Models: []PartitionModel{{Name: "a"}}, SubClusters: 1, Current: []int{0, 0}},
	} {
		_, err := Partition(p)
		assert.ErrorContains(t, err, want)
	}
}
