package matching

import (
	"fmt"

	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// byThreshold distributes as DeepRecSys does: queries larger than the threshold go to the base,
// others to the other types, each side first come, first served. Where only one side has
// instances as a query comes, it serves the query.
type byThreshold struct {
	floor
	threshold int32
	queues    [2][]dispatch.Request // of the base, of the others
}

func (d *byThreshold) Name() string { return Threshold }
func (d *byThreshold) Len() int     { return len(d.queues[0]) + len(d.queues[1]) }
func (d *byThreshold) Describe() string {
	return fmt.Sprintf("drs, threshold %d: %d and %d waiting\n", d.threshold, len(d.queues[0]), len(d.queues[1]))
}

func (d *byThreshold) Step(now dispatch.Time, ev dispatch.Event, out []dispatch.Action) []dispatch.Action {
	d.begin(ev)
	switch ev.Kind {
	case dispatch.Arrive:
		side := d.side(ev.Request.Size)
		d.queues[side] = append(d.queues[side], d.come(ev.Request))
	case dispatch.Cancel:
		for side := range d.queues {
			d.queues[side] = without(d.queues[side], ev.Request.ID)
		}
	default:
		d.executors(ev)
	}
	for side := range d.queues {
		may := func(g int32) bool { return (g == d.base) == (side == 0) }
		d.queues[side], out = d.serve(now, d.queues[side], may, out)
	}
	return d.wake(now, out, d.queues[0], d.queues[1])
}

// side is whose queue a query of that size joins: 0 that of the base, 1 that of the others.
func (d *byThreshold) side(size int32) int {
	others := 0
	for g, n := range d.up {
		if int32(g) != d.base {
			others += n
		}
	}
	if others > 0 && (size <= d.threshold || d.up[d.base] == 0) {
		return 1
	}
	return 0
}
