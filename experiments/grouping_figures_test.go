package experiments

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/scheduler/functions"
)

// TestDrawn: the best partition never costs more than the paper's, and never
// less than the bound; a defect would be noted.
func TestDrawn(t *testing.T) {
	r, err := drawn(t.Context(), &Env{Quick: true})
	require.NoError(t, err)
	assert.Empty(t, r.Notes)
}

// TestTraces: exact never spends more than harmonybatch, which saves more than
// half of what batch spends, or a quarter where GPUs alone are billed by the second; only
// batch misses objectives.
func TestTraces(t *testing.T) {
	for _, s := range settings() {
		sums, err := s.follow(t.Context(), rates(1)[:6])
		require.NoError(t, err)
		exact, paper, batch := sums[functions.PolicyExact], sums[functions.PolicyHarmonyBatch], sums[functions.PolicyBatch]
		assert.LessOrEqual(t, exact.money, paper.money*(1+1e-9))
		part := 0.5
		if s.gpu > 0 {
			part = 0.75
		}
		assert.Less(t, paper.money, part*batch.money, s.model)
		assert.Zero(t, exact.missed+paper.missed)
		assert.Positive(t, batch.missed)
	}
}
