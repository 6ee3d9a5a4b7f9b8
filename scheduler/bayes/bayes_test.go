package bayes

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestNextFindsTheTopOfAHillInFewTrials(t *testing.T) {
	var grid [][]float64
	for x := range 21 {
		for y := range 21 {
			grid = append(grid, []float64{float64(x) / 20, float64(y) / 20})
		}
	}
	hill := func(at []float64) float64 { return -math.Hypot(at[0]-0.7, at[1]-0.25) }
	tried := []Tried{{grid[0], hill(grid[0])}}
	left := grid[1:]
	trials := 1
	for ; trials < 60 && tried[len(tried)-1].Value < -1e-9; trials++ {
		i := Next(tried, left, 0.3)
		tried = append(tried, Tried{left[i], hill(left[i])})
		left = append(append([][]float64{}, left[:i]...), left[i+1:]...)
	}
	assert.Less(t, trials, 30, "of 441 candidates")
}

func TestNextWithNothingToTellApart(t *testing.T) {
	assert.Equal(t, -1, Next(nil, nil, 1))
	assert.Equal(t, 0, Next(nil, [][]float64{{0}, {1}}, 1))
	assert.Equal(t, 1, Next([]Tried{{[]float64{0}, 3}}, [][]float64{{0}, {1}}, 0.2), "what is far away may be better")
}

func TestImprovement(t *testing.T) {
	assert.InDelta(t, 1/math.Sqrt(2*math.Pi), improvement(0, 1, 0), 1e-12)
	assert.InDelta(t, 2, improvement(2, 0, 0), 0)
	assert.Zero(t, improvement(-2, 0, 0))
	assert.InDelta(t, 10, improvement(10, 0.01, 0), 1e-6)
}
