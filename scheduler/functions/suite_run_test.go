package functions

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// full reports whether to run the whole test whose figures docs/results/functions.md
// quotes, not only a part.
func full() bool { return os.Getenv("HARPAGON_FUNCTIONS_SUITE") == "full" }

func BenchmarkExact1000(b *testing.B) { benchmark(b, PolicyExact, 1000) }

func BenchmarkHarmonyBatch1000(b *testing.B) { benchmark(b, PolicyHarmonyBatch, 1000) }

func BenchmarkMBS1000(b *testing.B) { benchmark(b, PolicyMBSOptimal, 1000) }

func BenchmarkExact12(b *testing.B) { benchmark(b, PolicyExact, 12) }

func benchmark(b *testing.B, policy string, n int) {
	var pairs []float64
	for i := range n {
		pairs = append(pairs, 0.3+0.7*float64(i*7919%n)/float64(n), 0.1+5*float64(i*104729%n)/float64(n))
	}
	p := ask(pairs...)
	b.ReportAllocs()
	for b.Loop() {
		plan, err := Solve(p, Options{Policy: policy})
		if err != nil || plan.Status == Infeasible {
			b.Fatal(plan.Reason, err)
		}
	}
}

// TestNeighboursAgainstAllPartitions: groups that are neighbours in the order of
// objectives are not always best, moving applications wins most of that back, no
// partition is cheaper than the best of all, and that keeps the bound.
func TestNeighboursAgainstAllPartitions(t *testing.T) {
	inputs := 60
	if full() {
		inputs = 500
	}
	var lost, left, worst, worstLeft, gap float64
	beaten := 0
	for i := range inputs {
		s := newPlanner(drawn(9, i, 11))
		least := total(s.subsets())
		near := s.contiguous()
		moved := s.polish(near)
		bound := max(s.bound(), s.relaxed())
		require.LessOrEqual(t, bound, least*(1+1e-9), "input %d: no partition undercuts the bound", i)
		require.LessOrEqual(t, least, total(moved)*(1+1e-9), "input %d: all partitions hold this one", i)
		require.LessOrEqual(t, total(moved), total(near)*(1+1e-9), "input %d: moves only save", i)
		a, b := total(near)/least-1, total(moved)/least-1
		lost, left, worst, worstLeft = lost+a, left+b, max(worst, a), max(worstLeft, b)
		gap += least/bound - 1
		if a > 1e-6 {
			beaten++
		}
	}
	t.Logf("neighbours cost more on %d of %d inputs: %.2f %% on average, %.1f %% at most; after moves %.3f %% and %.1f %%; the bound lies %.1f %% below the least cost",
		beaten, inputs, 100*lost/float64(inputs), 100*worst, 100*left/float64(inputs), 100*worstLeft, 100*gap/float64(inputs))
	assert.NotZero(t, beaten, "some inputs need groups that are no neighbours")
	assert.Less(t, worst, 0.1)
	assert.Less(t, left, lost, "moves win some of it back")
	assert.Less(t, gap/float64(inputs), 0.05)
}
