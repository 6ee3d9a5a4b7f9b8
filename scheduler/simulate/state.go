package simulate

import "slices"

// door is before a module with state, for one stream: a frame goes in when those before it have been
// answered by the module, or are over.
type door struct {
	under []int64 // frames that have come to the pipeline and are neither, in order
	held  []heldItem
}

type heldItem struct {
	frame int64
	item  int32
}

type doorKey struct{ node, stream int32 }

// comes notes a frame of a stream at all doors, and returns its number.
func (a *loadState) comes(stream int32) int64 {
	if len(a.stateful) == 0 {
		return 0
	}
	a.frames++
	for _, n := range a.stateful {
		if a.doors == nil {
			a.doors = make(map[doorKey]*door)
		}
		d := a.doors[doorKey{n, stream}]
		if d == nil {
			d = new(door)
			a.doors[doorKey{n, stream}] = d
		}
		d.under = append(d.under, a.frames)
	}
	return a.frames
}

// enter hands an item to its station when its turn has come.
func (e *engine) enter(i int32, stream int32, frame int64, more bool) {
	it := &e.items[i]
	if d := e.loads[it.load].doors[doorKey{it.node, stream}]; d != nil && d.under[0] != frame {
		it.state = held
		d.held = append(d.held, heldItem{frame, i})
		return
	}
	e.submit(i, more)
}

// passed lets the next frame in once this one has been answered by a module.
func (e *engine) passed(at, node, stream int32, frame int64) {
	d := e.loads[at].doors[doorKey{node, stream}]
	if d == nil {
		return
	}
	k := slices.Index(d.under, frame)
	if k < 0 {
		return
	}
	d.under = slices.Delete(d.under, k, k+1)
	d.held = slices.DeleteFunc(d.held, func(h heldItem) bool { return h.frame == frame })
	if k > 0 || len(d.under) == 0 {
		return
	}
	if next := slices.IndexFunc(d.held, func(h heldItem) bool { return h.frame == d.under[0] }); next >= 0 {
		i := d.held[next].item
		d.held = slices.Delete(d.held, next, next+1)
		e.submit(i, false)
	}
}

// gone is passed at all modules, of a frame that is over.
func (e *engine) gone(at, stream int32, frame int64) {
	for _, n := range e.loads[at].stateful {
		e.passed(at, n, stream, frame)
	}
}
