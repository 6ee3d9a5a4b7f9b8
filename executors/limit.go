package executors

import (
	"slices"

	"github.com/harpagon/harpagon/pipelines"
)

// Limiter is an Engine that can tell the largest batch that a module's model
// takes without loading it; 0 where there is no limit or it cannot be told.
type Limiter interface {
	Limit(m pipelines.Module) int
}

// Fit leaves out of a task's batch sizes, where its module does not say which, those
// of the default ones that are more than its model takes. 1 stays always.
func (t MeasureTask) Fit(e Engine) MeasureTask {
	if len(t.Batches) > 0 || len(t.Module.Batches) > 0 {
		return t
	}
	limit := 0
	if wrapped, ok := e.(withConstants); ok {
		e = wrapped.Engine
	}
	if l, ok := e.(Limiter); ok {
		limit = l.Limit(t.Module)
	}
	if limit > 0 {
		t.Batches = slices.DeleteFunc(t.batches(), func(n int) bool { return n > max(limit, 1) })
	}
	return t
}
