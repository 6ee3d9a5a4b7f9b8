package admission

import (
	"iter"
	"maps"
	"slices"
)

// Turns are the frames of one stream that are under way, in the order in which they went in, and the
// state that modules keep of those before. It is a plain value; the zero one is of a stream that begins.
type Turns[S any] struct {
	first, last *Turn[S]
	kept        map[string]S // by module, after all frames before the first
	held        []heldFrame[S]
}

// Turn is that of a frame in its stream.
type Turn[S any] struct {
	before, next *Turn[S]
	left         map[string]S // by the modules that have answered it
	over         bool
}

type heldFrame[S any] struct {
	turn   *Turn[S]
	module string
	item   any
}

// HeldItem is a frame that waited at a module's door and may go in, as its driver knows it.
type HeldItem[S any] struct {
	Item  any
	State S // with which it comes there
}

// Start gives a stream, of which no frame has come, what modules have kept of it elsewhere.
func (s *Turns[S]) Start(kept map[string]S) { s.kept = kept }

// Take gives the next frame its turn.
func (s *Turns[S]) Take() *Turn[S] {
	t := &Turn[S]{before: s.last}
	if s.last == nil {
		s.first = t
	} else {
		s.last.next = t
	}
	s.last = t
	return t
}

// Enter is the state with which a frame comes to a module, the zero value where the stream begins
// there. It is not ok while a frame before may change it; the item waits then, until Answer or End returns it.
func (s *Turns[S]) Enter(t *Turn[S], module string, item any) (state S, ok bool) {
	if state, ok = s.before(t, module); !ok {
		s.held = append(s.held, heldFrame[S]{t, module, item})
	}
	return state, ok
}

func (s *Turns[S]) before(t *Turn[S], module string) (state S, ok bool) {
	for b := t.before; b != nil; b = b.before {
		if state, answered := b.left[module]; answered {
			return state, true
		}
		if !b.over {
			return state, false
		}
	}
	return s.kept[module], true
}

// Answer notes what a module left of a frame, unless the frame is over: that is given up, and the next
// has begun from the state before it. It returns what may go on, in order.
func (s *Turns[S]) Answer(t *Turn[S], module string, left S) []HeldItem[S] {
	if t.over {
		return nil
	}
	if t.left == nil {
		t.left = make(map[string]S)
	}
	t.left[module] = left
	return s.ready()
}

// End reports that a frame is over: modules that have not answered it never will. It returns what may
// go on. Items of the frame itself are forgotten.
func (s *Turns[S]) End(t *Turn[S]) []HeldItem[S] {
	t.over = true
	s.held = slices.DeleteFunc(s.held, func(h heldFrame[S]) bool { return h.turn == t })
	for s.first != nil && s.first.over {
		if s.kept == nil {
			s.kept = make(map[string]S)
		}
		maps.Copy(s.kept, s.first.left)
		if s.first = s.first.next; s.first == nil {
			s.last = nil
		} else {
			s.first.before = nil
		}
	}
	return s.ready()
}

// After is what modules keep after a frame, which is not over, and those before it.
func (s *Turns[S]) After(t *Turn[S]) map[string]S {
	all := maps.Clone(s.kept)
	if all == nil {
		all = make(map[string]S)
	}
	for b := s.first; b != nil; b = b.next {
		if maps.Copy(all, b.left); b == t {
			break
		}
	}
	return all
}

// Idle reports whether no frame is under way.
func (s *Turns[S]) Idle() bool { return s.first == nil }

// All is every state that is still needed.
func (s *Turns[S]) All() iter.Seq[S] {
	return func(yield func(S) bool) {
		for _, state := range s.kept {
			if !yield(state) {
				return
			}
		}
		for t := s.first; t != nil; t = t.next {
			for _, state := range t.left {
				if !yield(state) {
					return
				}
			}
		}
	}
}

// Held is an item of a frame that waits for one before; nil for none.
func (s *Turns[S]) Held(t *Turn[S]) (item any) {
	for _, h := range s.held {
		if h.turn == t {
			return h.item
		}
	}
	return nil
}

func (s *Turns[S]) ready() (all []HeldItem[S]) {
	s.held = slices.DeleteFunc(s.held, func(h heldFrame[S]) bool {
		state, ok := s.before(h.turn, h.module)
		if ok {
			all = append(all, HeldItem[S]{h.item, state})
		}
		return ok
	})
	return all
}
