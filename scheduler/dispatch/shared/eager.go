package shared

import (
	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// newEager builds the work-conserving baseline: no executor idles while a
// request waits. An executor that is free takes the model whose first request
// leaves the least time, and of it as many requests as that one allows.
// Requests are given up only when they cannot be served even alone.
//
// It is what Symphony compares itself with in section 4.3, in its stronger form.
// The authors' code drops by the window there, too, which suits batches that are
// held back; New calls that eager:window.
func newEager(o Options) dispatch.Policy {
	return newDeferred("eager", DeferredOptions{Options: o, Ready: AtOnce, Drop: HeadDrop})
}
