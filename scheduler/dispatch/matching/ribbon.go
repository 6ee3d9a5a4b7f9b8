package matching

import (
	"fmt"

	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// ribbon distributes as Ribbon does: first come, first served, on an instance of the base where
// one idles, else on any other. It does not ask whether a query meets its objective there.
type ribbon struct {
	floor
	queue []dispatch.Request
}

func (d *ribbon) Name() string     { return Ribbon }
func (d *ribbon) Len() int         { return len(d.queue) }
func (d *ribbon) Describe() string { return fmt.Sprintf("ribbon: %d waiting\n", len(d.queue)) }

func (d *ribbon) Step(now dispatch.Time, ev dispatch.Event, out []dispatch.Action) []dispatch.Action {
	d.begin(ev)
	switch ev.Kind {
	case dispatch.Arrive:
		d.queue = append(d.queue, d.come(ev.Request))
	case dispatch.Cancel:
		d.queue = without(d.queue, ev.Request.ID)
	default:
		d.executors(ev)
	}
	d.queue, out = d.serve(now, d.queue, anyGroup, out)
	return d.wake(now, out, d.queue)
}
