package activities

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/pipelines"
)

// ProfileModule measures one module on one device and keeps the points. It
// heartbeats every finished point; the next attempt starts from those, and
// from what the store holds, so nothing is measured twice.
func (h *Host) ProfileModule(ctx context.Context, in ProfileInput) (ProfileResult, error) {
	began := time.Now()
	result := ProfileResult{Module: in.Module}
	task := executors.NewMeasureTask(in.Pipeline, in.Module, in.Hardware, in.Device, h.Signatures)
	key, err := h.key(task)
	if err != nil {
		return result, temporal.NewNonRetryableApplicationError(err.Error(), TypeInvalid, nil)
	}
	known, err := h.Store.Load(key)
	if err != nil {
		return result, err
	}
	finished := finished{points: resumed(ctx)}
	known = merge(known, finished.points)
	stop := beat(ctx, func() any { return finished.all() })
	result.Points, err = h.Executors.Measure(ctx, task, known, func(p pipelines.Point) {
		result.Measured++
		activity.RecordHeartbeat(ctx, finished.add(p))
	})
	stop()
	if saved := h.Store.Save(key, merge(known, result.Points)); err == nil {
		err = saved
	}
	result.Reused = len(result.Points) - result.Measured
	result.Took = time.Since(began)
	return result, err
}

// resumed are the points that an earlier attempt finished.
func resumed(ctx context.Context) []pipelines.Point {
	var points []pipelines.Point
	if activity.HasHeartbeatDetails(ctx) && activity.GetHeartbeatDetails(ctx, &points) != nil {
		return nil // details of an older version: measure again
	}
	return points
}

// finished is the list of points that heartbeats carry.
type finished struct {
	mu     sync.Mutex
	points []pipelines.Point
}

func (f *finished) add(p pipelines.Point) []pipelines.Point {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.points = append(f.points, p)
	return slices.Clone(f.points)
}

func (f *finished) all() []pipelines.Point {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.points)
}

// key names the profile: it goes stale when model, engine, machine or what is
// fed to the module changes.
func (h *Host) key(t executors.MeasureTask) (ProfileKey, error) {
	if t.Module.Name == "" {
		return ProfileKey{}, fmt.Errorf("activities: the pipeline has no such module; profile one that is declared")
	}
	engine, err := h.Executors.EngineFor(t.Module)
	if err != nil {
		return ProfileKey{}, err
	}
	digest, err := executors.Digest(t.Module)
	if err != nil {
		return ProfileKey{}, err
	}
	return ProfileKey{
		Model: digest, Engine: engine.Name(), Version: engine.Version(),
		Hardware: t.Hardware, Machine: h.Machine, Feeds: t.Feeds, Rows: t.OutputRows,
	}, nil
}
