package pool

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/placement"
)

func TestTheFirstPlanOfAPoolThatLearns(t *testing.T) {
	p := pipelines.Pool{
		Name: "ranking", SLO: 100 * time.Millisecond, Base: "gpu", Learned: true, Hardware: []string{"cpu", "gpu", "old"},
		Network: pipelines.Module{Model: "net.onnx"}, Sizes: pipelines.Mix{{Size: 5, Weight: 9}, {Size: 40, Weight: 1}},
	}
	hardware := func(gpus int) []pipelines.Hardware {
		return []pipelines.Hardware{{Name: "gpu", Price: 1, Count: gpus}, {Name: "cpu", Price: 0.2}, {Name: "old", Price: 0.3}}
	}
	for _, c := range []struct {
		budget float64
		gpus   int
		want   map[string]int
		reason string
	}{
		{4, 0, map[string]int{"gpu": 3, "cpu": 1, "old": 1}, ""},
		{4, 1, map[string]int{"gpu": 1, "cpu": 1, "old": 1}, ""},
		{1.3, 0, map[string]int{"gpu": 1, "cpu": 1}, ""},
		{1, 0, map[string]int{"gpu": 1}, ""},
		{0.9, 0, nil, "does not pay for one base instance"},
	} {
		p.Budget = c.budget
		got := Solve(Problem{Pool: p, Hardware: hardware(c.gpus)}, Options{})
		if c.reason != "" {
			assert.Equal(t, Infeasible, got.Status)
			assert.Contains(t, got.Describe(), c.reason)
			continue
		}
		require.Equal(t, Feasible, got.Status, got.Reason)
		assert.Equal(t, c.want, got.Instances)
		assert.Contains(t, got.Describe(), "to learn what queries take there")
		assert.Equal(t, 40, Largest(p))
		of := Served(p, got)
		assert.Equal(t, 40, of.Modules[0].Groups[0].Batch)
		d := Deploy(placement.Deployment{Pipeline: p.Served(), Plan: of}, p, got)
		_, err := Dispatcher(d, 0)
		require.NoError(t, err)
	}
	got := Solve(Problem{Pool: p, Hardware: hardware(0)[1:]}, Options{})
	assert.Contains(t, got.Reason, `base "gpu"`)
}
