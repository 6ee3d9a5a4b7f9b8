package matching

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func total(cost []int64, cols int, got []int32) int64 {
	sum := int64(0)
	for i, j := range got {
		if j >= 0 {
			sum += cost[i*cols+int(j)]
		}
	}
	return sum
}

// valid checks that as many pairs were made as there can be, each column once.
func valid(t require.TestingT, got []int32, rows, cols int) {
	require.Len(t, got, rows)
	seen := map[int32]bool{}
	for _, j := range got {
		if j < 0 {
			continue
		}
		require.Less(t, j, int32(cols))
		require.False(t, seen[j], "column %d is taken twice", j)
		seen[j] = true
	}
	require.Len(t, seen, min(rows, cols))
}

// brute tries all pairings, row by row over sets of columns.
func brute(cost []int64, rows, cols int) int64 {
	spare := max(0, rows-cols)
	memo := map[[3]int]int64{}
	var from func(i, used, idle int) int64
	from = func(i, used, idle int) int64 {
		if i == rows {
			return 0
		}
		key := [3]int{i, used, idle}
		if c, ok := memo[key]; ok {
			return c
		}
		best := int64(math.MaxInt64)
		if idle > 0 {
			best = from(i+1, used, idle-1)
		}
		for j := range cols {
			if used&(1<<j) == 0 {
				if rest := from(i+1, used|1<<j, idle); rest != math.MaxInt64 {
					best = min(best, cost[i*cols+j]+rest)
				}
			}
		}
		memo[key] = best
		return best
	}
	return from(0, 0, spare)
}

func TestSolveByHand(t *testing.T) {
	var s Assignment
	for _, c := range []struct {
		name       string
		cost       []int64
		rows, cols int
		want       []int32
	}{
		{"no column", nil, 2, 0, []int32{-1, -1}},
		{"one", []int64{7}, 1, 1, []int32{0}},
		{"crossed", []int64{1, 2, 1, 9}, 2, 2, []int32{1, 0}},
		{"wide", []int64{5, 4, 3, 5, 9, 1}, 2, 3, []int32{1, 2}},
		{"tall", []int64{5, 5, 4, 9, 3, 1}, 3, 2, []int32{-1, 0, 1}},
		{"below zero", []int64{-1, -5, -2, -7}, 2, 2, []int32{0, 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			assert.Equal(t, c.want, s.Solve(c.cost, c.rows, c.cols))
		})
	}
}

func matrices(t *rapid.T) (cost []int64, rows, cols int) {
	rows, cols = rapid.IntRange(0, 7).Draw(t, "rows"), rapid.IntRange(0, 7).Draw(t, "cols")
	most := rapid.SampledFrom([]int64{1, 3, 20, 1e6}).Draw(t, "most") // small numbers tie often
	cost = rapid.SliceOfN(rapid.Int64Range(-1, most), rows*cols, rows*cols).Draw(t, "cost")
	return cost, rows, cols
}

func TestSolveIsAsCheapAsTryingAll(t *testing.T) {
	var s Assignment // shared, so that what one problem leaves behind would show
	rapid.Check(t, func(t *rapid.T) {
		cost, rows, cols := matrices(t)
		got := s.Solve(cost, rows, cols)
		valid(t, got, rows, cols)
		require.Equal(t, brute(cost, rows, cols), total(cost, cols, got))
		proven(t, &s, cost, rows, cols, got)
	})
}

// proven checks the prices: they bound every assignment from below, and meet
// this one.
func proven(t require.TestingT, s *Assignment, cost []int64, rows, cols int, got []int32) {
	u, v := s.Prices()
	sum := int64(0)
	for i := range rows {
		for j := range cols {
			reduced := cost[i*cols+j] - u[i] - v[j]
			require.GreaterOrEqual(t, reduced, int64(0))
			if got[i] == int32(j) {
				require.Zero(t, reduced)
			}
		}
	}
	if rows == 0 || cols == 0 {
		return
	}
	for _, x := range u {
		sum += x
	}
	for _, x := range v {
		sum += x
	}
	require.Equal(t, total(cost, cols, got), sum)
}

func TestSolveReusesItsMemory(t *testing.T) {
	var s Assignment
	cost := random(20, 60, 1)
	s.Solve(cost, 20, 60)
	s.Solve(cost, 60, 20)
	assert.Zero(t, testing.AllocsPerRun(10, func() {
		s.Solve(cost, 20, 60)
		s.Solve(cost, 60, 20)
	}))
}

func random(rows, cols int, seed uint64) []int64 {
	rng := rand.New(rand.NewPCG(seed, 0))
	cost := make([]int64, rows*cols)
	for i := range cost {
		cost[i] = rng.Int64N(1e9)
	}
	return cost
}

// pooled is a matrix as policy matching has it: few kinds of rows, costs that
// rise with the size of the column.
func pooled(rows, cols int, seed uint64) []int64 {
	rng := rand.New(rand.NewPCG(seed, 1))
	sizes := make([]int64, cols)
	for j := range sizes {
		sizes[j] = 1 + rng.Int64N(100)
	}
	cost := make([]int64, 0, rows*cols)
	for i := range rows {
		slope, rest := int64(2+i%4), rng.Int64N(300)*int64(i%2)
		for _, size := range sizes {
			c := slope*size + rest
			if c > 400 {
				c = 5000
			}
			cost = append(cost, c)
		}
	}
	return cost
}

func BenchmarkSolve(b *testing.B) {
	for _, shape := range [][2]int{{10, 50}, {100, 200}, {100, 1000}} {
		for name, make := range map[string]func(int, int, uint64) []int64{"random": random, "pool": pooled} {
			b.Run(fmt.Sprintf("%s/%dx%d", name, shape[0], shape[1]), func(b *testing.B) {
				cost := make(shape[0], shape[1], 1)
				var s Assignment
				b.ReportAllocs()
				for b.Loop() {
					s.Solve(cost, shape[0], shape[1])
				}
			})
		}
	}
}

func ExampleAssignment_Solve() {
	var s Assignment
	fmt.Println(s.Solve([]int64{
		4, 1, 5,
		2, 0, 9,
	}, 2, 3))
	// Output: [1 0]
}
