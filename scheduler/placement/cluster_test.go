package placement

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
)

// resident is a pipeline of one module with two profiled batches.
func resident(name string, small, large float64) Member {
	m := pipelines.Module{Name: "m"}
	m.Profile.Points = []pipelines.Point{
		{Hardware: "gpu", Batch: 1, Concurrency: 1, Duration: time.Millisecond, MemoryMiB: small},
		{Hardware: "gpu", Batch: 16, Concurrency: 1, Duration: time.Millisecond, MemoryMiB: large},
	}
	return Member{Pipeline: pipelines.Pipeline{Name: name, Modules: []pipelines.Module{m}}}
}

func TestAClusterIsPlaced(t *testing.T) {
	gpu := func(name string) Device { return Device{Host: "h", Name: name, Hardware: "gpu", Memory: 1000 << 20} }
	r := ClusterRequest{
		Cluster: Cluster{Hardware: "gpu", Parts: []Part{
			{Name: "v-1", Devices: 2, Members: []Member{resident("a", 100, 300), resident("b", 200, 250)}},
			{Name: "v-2", Devices: 1, Members: []Member{resident("c", 100, 100)}},
		}},
		Devices:  []Device{{Host: "h", Name: "cpu", Hardware: "cpu"}, gpu("0"), gpu("1"), gpu("2"), gpu("3")},
		Engines:  map[string]ModuleEngine{"a/m": {Engine: "x", Model: "1", Memory: 300 << 20}, "b/m": {Engine: "y", Model: "2", Memory: 250 << 20}},
		Reserved: []Slot{{Host: "h", Device: "1", Share: 0.1}},
	}
	p, err := PlaceCluster(r)
	require.NoError(t, err)
	require.Len(t, p.Slots, 3)
	var at []string
	for _, s := range p.Slots {
		at = append(at, s.Pipeline+" "+s.Device)
		assert.Equal(t, AllModules, s.Module)
	}
	assert.Equal(t, []string{"v-1 0", "v-1 2", "v-2 3"}, at)
	assert.Equal(t, "x+y", p.Slots[0].Engine)
	assert.Equal(t, 16, p.Slots[0].Batch)
	assert.Equal(t, int64(500<<20), p.Slots[0].Memory, "all at rest, and what the largest needs to run")

	r.Actual, r.Reserved = p.Slots, nil
	again, err := PlaceCluster(r)
	require.NoError(t, err)
	assert.Empty(t, Reconcile(again.Slots, p.Slots).Start, "what runs stays")

	r.Cluster.Parts[0].Members[0].Pipeline.Modules[0].Profile.Points[0].MemoryMiB = 900
	r.Engines["a/m"] = ModuleEngine{Engine: "x", Model: "1", Memory: 900 << 20}
	_, err = PlaceCluster(r)
	assert.ErrorContains(t, err, "its modules together take 1100 MiB and none of the 4 devices of hardware gpu has as much")
	r.Cluster.Parts = r.Cluster.Parts[1:]
	r.Cluster.Parts[0].Devices = 5
	_, err = PlaceCluster(r)
	assert.ErrorContains(t, err, "it needs 5 devices of hardware gpu, which it does not share, and 1 of the 4 are missing")
	r.Cluster.Hardware = "tpu"
	_, err = PlaceCluster(r)
	assert.ErrorContains(t, err, "there are no devices of hardware tpu; start a worker")
}
