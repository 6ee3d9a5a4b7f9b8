package simulate

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/arrivals"
	"github.com/harpagon/harpagon/scheduler/dispatch/shared"
)

const ms = time.Millisecond

// linear is a pipeline of one module whose batches take each·b + fixed.
func linear(name string, each, fixed, slo time.Duration, largest int) pipelines.Pipeline {
	m := pipelines.Module{Name: "model", Fanout: 1}
	for b, d := range shared.Linear(each, fixed, largest) {
		m.Profile.Points = append(m.Profile.Points, pipelines.Point{Hardware: "gpu", Batch: b + 1, Concurrency: 1, Duration: d})
	}
	return pipelines.Pipeline{Name: name, SLO: slo, Modules: []pipelines.Module{m}}
}

// resnet50 is the model of Symphony's Table 4.
func resnet50() pipelines.Pipeline {
	return linear("resnet50", 1053*time.Microsecond, 5072*time.Microsecond, 25*ms, 64)
}

func gpus(n int) []Devices { return []Devices{{Hardware: "gpu", Count: n}} }

func TestCluster(t *testing.T) {
	load := Load{Pipeline: resnet50(), Arrivals: arrivals.Process{Kind: pipelines.ArrivalsPoisson}, Rate: 5313}
	r, err := OnCluster([]Load{load}, gpus(8), Options{Dispatch: "deferred", Seed: 1})
	require.NoError(t, err)
	p := r.Pipelines[0]
	assert.InDelta(t, 0.99, p.Attainment, 0.004)
}
