package experiments

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines/arrivals"
	"github.com/harpagon/harpagon/scheduler/simulate"
)

// TestWhatServesWastesLess: below capacity next to nothing is wasted, and beyond it hardly
// more than that. In bursts at the planned rate and beyond it what serves answers at least a
// tenth more than the rules that only give up what is hopeless, and no less, within two in a
// hundred, than they do with the same admission.
func TestWhatServesWastesLess(t *testing.T) {
	all, err := deep(4, deepQuick)
	require.NoError(t, err)
	require.Len(t, all, 4)
	calm, err := measureDrops(all, arrivals.Process{Kind: "even"}, 0.5, simulate.Options{Eager: true, Admission: true})
	require.NoError(t, err)
	assert.Less(t, calm.wasted, 0.01)
	for _, load := range []float64{1, 1.5, 3} {
		var found []drop
		for _, d := range droppers {
			one, err := measureDrops(all, arrivals.Process{Kind: "gamma", Shape: 0.2}, load, simulate.Options{Eager: true, Admission: d.admission, Dropping: d.dropping})
			require.NoError(t, err)
			found = append(found, one)
			t.Logf("x%g, %s: goodput %.3f, wasted %.3f", load, d.name, one.goodput, one.wasted)
		}
		for i, d := range droppers {
			if d.dropping == simulate.DropHopeless && d.admission {
				assert.Greater(t, found[0].goodput, 0.98*found[i].goodput, d.name)
			} else if i > 0 && d.dropping != simulate.DropBySplit {
				assert.Less(t, found[0].wasted, found[i].wasted, d.name)
			}
			if !d.admission && d.dropping != simulate.DropBySplit {
				assert.Greater(t, found[0].goodput, 1.1*found[i].goodput, d.name)
			}
		}
		assert.Less(t, found[0].wasted, 0.02)
	}
}
