package functions

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What a call takes besides the profile shortens every timeout, is not billed, and may
// make an objective impossible.
func TestPlansKnowTheOverheadOfCalls(t *testing.T) {
	p := ask(0.5, 5, 0.8, 10, 1.0, 20)
	before, err := Solve(p, Options{})
	require.NoError(t, err)
	p.Provider.Overhead = 30 * time.Millisecond
	after, err := Solve(p, Options{})
	require.NoError(t, err)
	assert.True(t, after.Sound)
	assert.GreaterOrEqual(t, after.CostPerRequest, before.CostPerRequest*(1-costTolerance))
	for _, g := range after.Groups {
		for _, o := range Offers(p) {
			if o == g.Offer {
				bare := p
				bare.Provider.Overhead = 0
				assert.InDelta(t, 0.03, o.Max-find(t, bare, o).Max, 1e-9)
				assert.Equal(t, find(t, bare, o).Cost, o.Cost, "the way is not billed")
			}
		}
		for _, a := range g.Applications {
			assert.LessOrEqual(t, a.Timeout+g.LatencyMax, a.SLO)
		}
	}
	p.Provider.Overhead = time.Second
	late, err := Solve(p, Options{})
	require.NoError(t, err)
	assert.Equal(t, Infeasible, late.Status)
}

// find is the offer of the same function and batch.
func find(t *testing.T, p Problem, like Offer) Offer {
	t.Helper()
	for _, o := range Offers(p) {
		if o.Platform == like.Platform && o.VCPU == like.VCPU && o.GPUMemory == like.GPUMemory && o.Batch == like.Batch {
			return o
		}
	}
	t.Fatalf("no offer like %v", like)
	return Offer{}
}
