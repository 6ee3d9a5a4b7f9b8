package executors

import (
	"context"
	"slices"
	"time"

	"github.com/harpagon/harpagon/pipelines"
)

// Limiter is an Engine that can tell the largest batch that a module's model
// takes without loading it; 0 where there is no limit or it cannot be told.
type Limiter interface {
	Limit(m pipelines.Module) int
}

// Fit is the task without batch sizes that its model does not take; see
// MeasureTask.Fit. The error is a *LoadError where the module's files are not to be
// had; what else is wrong is for Measure to say.
func (h *Host) Fit(ctx context.Context, t MeasureTask) (MeasureTask, error) {
	begin := time.Now()
	placed, release, err := h.place(ctx, t.Module)
	if err != nil {
		return t, loadError(t.Module.Name, begin, "%w", err)
	}
	defer release()
	engine, err := h.engineFor(placed)
	if err != nil {
		return t, nil
	}
	here := t
	here.Module = placed
	t.Batches = here.Fit(engine).Batches
	return t, nil
}

// Fit leaves out of a task's batch sizes, where its module does not say which, those
// of the default ones that are more than its model takes. 1 stays always.
func (t MeasureTask) Fit(e Engine) MeasureTask {
	if len(t.Batches) > 0 || len(t.Module.Batches) > 0 {
		return t
	}
	limit := 0
	if l, ok := bare(e).(Limiter); ok {
		limit = l.Limit(t.Module)
	}
	if limit > 0 {
		t.Batches = slices.DeleteFunc(t.batches(), func(n int) bool { return n > max(limit, 1) })
	}
	return t
}
