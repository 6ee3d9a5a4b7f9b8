package workflows

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler"
)

// TestWhatDoesNotFitIsNamed has profiles without some of the settings that were to be
// measured.
func TestWhatDoesNotFitIsNamed(t *testing.T) {
	points := func(settings ...[2]int) (all []pipelines.Point) {
		for _, s := range settings {
			all = append(all, pipelines.Point{Hardware: "gpu", Batch: s[0], Concurrency: s[1], Duration: 1})
		}
		return all
	}
	one := points([2]int{1, 1}, [2]int{8, 1})
	for name, c := range map[string]struct {
		module   pipelines.Module
		several  bool
		measured []pipelines.Point
		want     string
	}{
		"all":      {module: pipelines.Module{Batches: []int{1, 8}}, measured: one},
		"a size":   {module: pipelines.Module{Batches: []int{1, 8, 16, 32}}, measured: one, want: "m on gpu: batches of 16, 32"},
		"a level":  {module: pipelines.Module{Batches: []int{1, 8}}, several: true, measured: append(points([2]int{1, 2}), one...), want: "m on gpu: batches of 8, 2 at a time or more; 4 at a time"},
		"open":     {measured: one},
		"program":  {module: pipelines.Module{Command: []string{"serve"}}, measured: one, want: "m on gpu: batches of 2, 4, 16, 32"},
		"declared": {module: pipelines.Module{Batches: []int{1, 8, 16}, Profile: pipelines.Profile{Points: one}}},
	} {
		t.Run(name, func(t *testing.T) {
			c.module.Name = "m"
			spec := func(m pipelines.Module, measured []pipelines.Point) scheduler.Spec {
				if len(measured) > 0 {
					m.Profile.Points = measured
				}
				return scheduler.Spec{Pipeline: &pipelines.Pipeline{Modules: []pipelines.Module{m}, Plan: pipelines.Planning{Concurrency: c.several}}}
			}
			s := service{State: State{Spec: spec(c.module, nil), Serving: &Deployed{Spec: spec(c.module, c.measured)}}}
			require.Equal(t, c.want, s.unfit())
		})
	}
	text := Status{Unfit: "m on gpu: 4 at a time"}.Describe()
	require.Contains(t, text, "see the log of engines): m on gpu: 4 at a time")
}
