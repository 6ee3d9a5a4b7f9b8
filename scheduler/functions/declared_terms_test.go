package functions

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
)

// TestDeclaredTerms: the terms of the authors' program can be declared, and give the
// plan of Table I that TestTableI finds with its own prices: two groups.
func TestDeclaredTerms(t *testing.T) {
	p := ask(0.5, 5, 0.8, 10, 1.0, 20)
	want := authors(p).solve(PolicyHarmonyBatch)
	k := &p.Provider
	k.VCPUSecond, k.GPUGBSecond, k.Invocation = yuanVCPU, yuanGPU, yuanInvocation
	k.MemoryGBSecond, k.MemoryPerVCPU = yuanHost, pipelines.Grid{Min: 1, Max: 4, Step: 1.0 / 16}
	k.GPUBilling, k.GPUVCPUPerGB, k.GPULatencyFactor = time.Second, 1.0/3, 1.2
	h := vggHost()
	p.Function.Profile.Memory = pipelines.HostMemory{PerRequestMB: h.perRequest, FixedMB: h.fixed, GPUGB: h.gpu}
	got, err := Solve(p, Options{Policy: PolicyHarmonyBatch})
	require.NoError(t, err)
	require.Len(t, got.Groups, 2)
	assert.InEpsilon(t, want.CostPerRequest, got.CostPerRequest, 1e-9)
	for i, g := range got.Groups {
		assert.Equal(t, want.Groups[i].Offer.Describe(), g.Offer.Describe())
	}
	batch, err := Solve(p, Options{Policy: PolicyBatch})
	require.NoError(t, err)
	t.Logf("harmonybatch costs %.3f of BATCH; the paper reports 0.63", got.CostPerRequest/batch.CostPerRequest)
}
