package autoscale

import (
	"slices"
	"time"

	"github.com/harpagon/harpagon/pipelines"
)

// AtLeast raises points to those of a file, where there are any.
func AtLeast(points, file []pipelines.Point) []pipelines.Point {
	all := slices.Clone(points)
	for i := range all {
		if least := DurationOf(file, all[i]); all[i].Duration < least {
			k := slices.IndexFunc(file, sameConfiguration(all[i]))
			all[i] = file[k]
		}
	}
	return all
}

// DurationOf is what points say of the configuration of another; 0 for nothing.
func DurationOf(points []pipelines.Point, at pipelines.Point) time.Duration {
	if i := slices.IndexFunc(points, sameConfiguration(at)); i >= 0 {
		return points[i].Duration
	}
	return 0
}

func sameConfiguration(a pipelines.Point) func(pipelines.Point) bool {
	return func(b pipelines.Point) bool {
		return a.Hardware == b.Hardware && a.Batch == b.Batch && max(a.Concurrency, 1) == max(b.Concurrency, 1)
	}
}
