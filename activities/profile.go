package activities

import (
	"context"
	"slices"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/pipelines"
)

// ProfileModule measures one module on one device and keeps the points. It
// heartbeats what it has after every round; the next attempt goes on from there,
// and from what the store holds, so nothing is measured twice, unless it is to
// measure again.
func (h *Host) ProfileModule(ctx context.Context, in ProfileInput) (ProfileResult, error) {
	began := time.Now()
	result := ProfileResult{Module: in.Module}
	so := latest{measured: resumed(ctx)}
	stop := beat(ctx, so.get) // the files of models may have far to come
	defer stop()
	task := executors.NewMeasureTask(in.Pipeline, in.Module, in.Hardware, in.Device, h.Signatures)
	task.Cores = in.Cores
	kept := Profiles{Store: h.Store, Machine: h.Machine, EngineFor: h.Executors.EngineFor}
	if _, err := kept.key(task); err != nil {
		return result, temporal.NewNonRetryableApplicationError(err.Error(), TypeInvalid, nil)
	}
	task, err := h.Executors.Fit(ctx, task)
	if err != nil {
		return result, loading(ctx, err)
	}
	if !in.Again {
		known, err := kept.Load(task)
		if err != nil {
			return result, err
		}
		so.measured.Points = merge(known, so.measured.Points)
	}
	missing := len(task.Missing(so.measured.Points))
	points, err := h.Executors.Measure(ctx, task, so.measured, func(m executors.Measured) {
		so.set(m)
		activity.RecordHeartbeat(ctx, m)
	})
	if err != nil {
		return result, loading(ctx, err)
	}
	result.Points = points
	result.Measured, result.Reused = missing, len(points)-missing
	result.Took = time.Since(began)
	return result, kept.Save(task, points)
}

// KeepProfile keeps the points of one kind of hardware, measured while serving,
// in place of those that were measured before.
func (h *Host) KeepProfile(_ context.Context, in KeepInput) error {
	task := executors.NewMeasureTask(in.Pipeline, in.Module, in.Hardware, "", h.Signatures)
	task.Cores = in.Cores
	own := slices.DeleteFunc(slices.Clone(in.Points), func(p pipelines.Point) bool { return !task.Own(p) })
	kept := Profiles{Store: h.Store, Machine: h.Machine, EngineFor: h.Executors.EngineFor}
	return kept.Save(task, own)
}

// resumed is how far an earlier attempt came.
func resumed(ctx context.Context) executors.Measured {
	var m executors.Measured
	if activity.HasHeartbeatDetails(ctx) && activity.GetHeartbeatDetails(ctx, &m) != nil {
		return executors.Measured{} // details of an older version: measure again
	}
	return m
}

// latest is what heartbeats carry.
type latest struct {
	mu       sync.Mutex
	measured executors.Measured
}

func (l *latest) set(m executors.Measured) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.measured = m
}

func (l *latest) get() any {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.measured
}
