package simulate

import "github.com/harpagon/harpagon/scheduler/dispatch/admission"

// frameTurns are the turns of the frames of streams at the modules with state, as gateways have them.
type frameTurns struct {
	of     map[int32]*admission.Turns[struct{}] // by stream
	under  map[int64]*admission.Turn[struct{}]  // of frames under way, by number
	frames int64                                // that have come
}

// comes gives a frame of a stream its turn, and returns its number; 0 where no module keeps state.
func (a *loadState) comes(stream int32) int64 {
	t := a.turns
	if t == nil {
		return 0
	}
	of := t.of[stream]
	if of == nil {
		of = new(admission.Turns[struct{}])
		t.of[stream] = of
	}
	t.frames++
	t.under[t.frames] = of.Take()
	return t.frames
}

// enter hands an item to its station when its turn has come.
func (e *engine) enter(i int32, stream int32, frame int64, more bool) {
	it := &e.items[i]
	if a := &e.loads[it.load]; a.turns != nil && a.nodes[it.node].of.State {
		if _, ok := a.turns.of[stream].Enter(a.turns.under[frame], a.nodes[it.node].Module, i); !ok {
			it.state = held
			return
		}
	}
	e.submit(i, more)
}

// passed lets the next frame in once this one has been answered by a module.
func (e *engine) passed(at, node, stream int32, frame int64) {
	a := &e.loads[at]
	if a.turns == nil || !a.nodes[node].of.State {
		return
	}
	if t := a.turns.under[frame]; t != nil {
		e.goOn(a.turns.of[stream].Answer(t, a.nodes[node].Module, struct{}{}))
	}
}

// gone is passed at all modules, of a frame that is over.
func (e *engine) gone(at, stream int32, frame int64) {
	a := &e.loads[at]
	if a.turns == nil {
		return
	}
	if t := a.turns.under[frame]; t != nil {
		delete(a.turns.under, frame)
		e.goOn(a.turns.of[stream].End(t))
	}
}

func (e *engine) goOn(all []admission.HeldItem[struct{}]) {
	for _, h := range all {
		e.submit(h.Item.(int32), false)
	}
}
