package recording

import (
	"reflect"
	"slices"

	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/dispatch/factory"
)

// partsInMemory is in how many parts a recorder divides its memory. The oldest part is forgotten
// as a whole. Each begins with the state of its policy; where that is larger than such a part, a
// part is as large as the state, and memory holds two of them.
const partsInMemory = 8

// Recorder keeps the latest steps of one station. A driver tells it of every policy that is put
// in charge and of every step. The zero value keeps everything; nil keeps nothing.
type Recorder struct {
	Limit int // bytes that may be kept; 0 for no bound

	parts  []Part // the last is being written
	codec  codec
	kept   int // bytes of all parts, of Specs that follow each other only once
	policy dispatch.Policy
	off    bool // the policy in charge cannot be recorded
}

// Part is a run of steps of one policy.
type Part struct {
	Spec   factory.Spec
	State  []byte `json:",omitempty"` // what the policy remembered before; nil where it was new
	Layout uint64 `json:",omitempty"` // of State
	Steps  []byte `json:"-"`          // see codec
}

// Begin notes that a policy made from spec is in charge from now on; learned says that it is not
// as it was made, because it inherits what another has learned.
func (r *Recorder) Begin(p dispatch.Policy, spec factory.Spec, learned bool) {
	if r == nil {
		return
	}
	r.policy = p
	r.open(spec, learned)
}

// open begins a part. A policy that cannot be recorded ends the recording: what comes after it
// would have no beginning.
func (r *Recorder) open(spec factory.Spec, learned bool) {
	part := Part{Spec: spec}
	r.codec, r.off = codec{}, spec == factory.Spec{}
	if learned && !r.off {
		var err error
		part.State, part.Layout, err = appendState(nil, r.policy)
		r.off = err != nil
	}
	if r.off {
		return
	}
	if n := len(r.parts); n == 0 || r.parts[n-1].Spec != spec {
		r.kept += sizeOf(spec)
	}
	r.parts = append(r.parts, part)
	r.kept += len(part.State)
	r.forget()
}

// forget drops the oldest parts where memory is full: there must be room for the one that is
// being written. Policies may follow each other so quickly that no part is ever filled.
func (r *Recorder) forget() {
	for r.Limit > 0 && len(r.parts) > 2 && r.kept > r.Limit-r.Limit/partsInMemory {
		first := r.parts[0]
		r.kept -= len(first.State) + len(first.Steps)
		if r.parts[1].Spec != first.Spec {
			r.kept -= sizeOf(first.Spec)
		}
		r.parts = slices.Delete(r.parts, 0, 1)
	}
}

// sizeOf is how many bytes a Spec takes, written as states are.
func sizeOf(spec factory.Spec) int { return len(appendValue(nil, reflect.ValueOf(spec))) }

// Step notes an event and the actions that it led to.
func (r *Recorder) Step(now dispatch.Time, ev dispatch.Event, actions []dispatch.Action) {
	if r == nil || r.off || len(r.parts) == 0 {
		return
	}
	part := &r.parts[len(r.parts)-1]
	before := len(part.Steps)
	part.Steps = r.codec.appendStep(part.Steps, now, &ev, actions)
	r.kept += len(part.Steps) - before
	if r.Limit > 0 && len(part.Steps) >= max(r.Limit/partsInMemory, len(part.State)) {
		r.open(part.Spec, true)
	}
}

// Parts is what has been recorded, oldest first.
func (r *Recorder) Parts() []Part {
	if r == nil {
		return nil
	}
	parts := slices.Clone(r.parts)
	if n := len(parts); n > 0 {
		parts[n-1].Steps = slices.Clone(parts[n-1].Steps) // goes on being written
	}
	return parts
}
