package workflows

import (
	"reflect"
	"slices"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler"
	"github.com/harpagon/harpagon/workflows/declarations"
)

// opSettled is a status long after the last change.
const opSettled = "settled"

// tooMuch is a rate, in requests per second, that the devices of the test cannot carry.
const tooMuch = 1e6

// operation is what a caller asks for.
type operation struct {
	name   string
	rate   float64
	expect int
	to     int
}

func (o operation) argument() any {
	switch o.name {
	case UpdateApply:
		return ApplyRequest{Spec: traffic(o.rate), Expect: o.expect}
	case UpdateRescale:
		return RescaleRequest{Rate: o.rate, Expect: o.expect}
	case UpdateRollback:
		return RollbackRequest{To: o.to, Expect: o.expect}
	}
	return ""
}

// Refusals, by words of theirs.
const (
	absent    = "nothing of that name"
	deleting  = "is being deleted"
	elsewhere = "is at generation"
)

// answer is what a caller is told.
type answer struct {
	refused    string // empty: it was not
	generation int
	unchanged  bool
	seen       view
}

// view is a status.
type view struct {
	Generation, Serving, Asked int
	Rate                       float64
	Declared                   []declared
}

type declared struct {
	generation int
	current    bool
}

// sequential is one service to which one thing happens at a time: an operation, or a
// step of carrying out what was asked for. Which steps lie between two operations is
// not known.
type sequential struct {
	absent     bool
	generation int
	rate       float64 // asked for
	pending    bool    // still to be begun
	under      int     // generation that is being carried out
	underRate  float64
	serving    int
	served     float64 // its rate
	stop       Stop    // asked for, and not begun
	stopping   Stop    // which is not taken back any more
	drained    bool
	declared   declarations.List
}

// reached are the states that carrying out leads to, the one at hand first.
func (s sequential) reached() []sequential {
	all := []sequential{s}
	for {
		next, ok := all[len(all)-1].carryOn()
		if !ok {
			return all
		}
		all = append(all, next)
	}
}

func (s sequential) carryOn() (sequential, bool) {
	switch {
	case s.absent:
		return s, false
	case s.under != 0 && s.underRate != tooMuch:
		s.serving, s.served, s.under = s.under, s.underRate, 0
		s.declared = slices.Clone(s.declared).Carried(s.serving)
	case s.under != 0: // what served goes on
		s.under = 0
	case s.stopping == StopDelete:
		return sequential{absent: true}, true
	case s.stopping == StopDrain:
		s.stopping, s.serving, s.served, s.drained = "", 0, 0, true
	case s.stop != "":
		s.stop, s.stopping, s.pending = "", s.stop, false
	case s.pending:
		s.pending, s.drained, s.under, s.underRate = false, false, s.generation, s.rate
	default:
		return s, false
	}
	if s.under == 0 {
		s.underRate = 0
	}
	return s, true
}

// step are the states after an operation with this answer; none if it is wrong.
func (s sequential) step(o operation, a answer) []sequential {
	if o.name == UpdateApply && s.absent {
		s = sequential{}
	}
	refused := func(why string) []sequential {
		if a.refused != why || why == elsewhere && a.generation != s.generation {
			return nil
		}
		return []sequential{s}
	}
	switch {
	case s.absent:
		return refused(absent)
	case o.name == opSettled && (s.pending || s.under != 0 || s.stop != "" || s.stopping != ""):
		return nil
	case o.name == QueryStatus || o.name == opSettled:
		if a.refused != "" || !reflect.DeepEqual(a.seen, s.look()) {
			return nil
		}
		return []sequential{s}
	case o.name == UpdateDelete:
		return s.end(StopDelete, a)
	case s.stop == StopDelete || s.stopping == StopDelete:
		return refused(deleting)
	case o.name == UpdateDrain:
		return s.end(StopDrain, a)
	case o.expect != 0 && max(o.expect, 0) != s.generation:
		return refused(elsewhere)
	}
	switch o.name {
	case UpdateApply:
		return s.change(o.rate, true, a)
	case UpdateRescale:
		if s.generation == 0 {
			return refused("has no spec yet")
		}
		return s.change(o.rate, true, a)
	case UpdateRollback:
		to, err := s.declared.Earlier(o.to, s.serving, s.generation)
		if err != nil {
			return refused(refusal(err).refused)
		}
		return s.change(to.Spec.Pipeline.Rate, false, a)
	}
	return nil
}

// end is what draining and deleting do.
func (s sequential) end(stop Stop, a answer) []sequential {
	stopped := s.stopping == stop || stop == StopDrain && s.drained
	unchanged := s.stop == stop || stopped && s.stop == "" && !s.pending
	if a.refused != "" || a.generation != s.generation || a.unchanged != unchanged {
		return nil
	}
	if !unchanged {
		s.stop = stop
	}
	return []sequential{s}
}

// change asks for a rate. What is in force already, and is not gone back to, is not
// changed; a first change that is under way is not in force yet.
func (s sequential) change(rate float64, same bool, a answer) []sequential {
	inForce := same && rate == s.rate && s.stop == "" && (s.serving != 0 && s.stopping == "" || s.pending)
	if a.unchanged && inForce && a.generation == s.generation {
		return []sequential{s}
	}
	if a.refused != "" || a.unchanged || inForce || a.generation != s.generation+1 {
		return nil
	}
	s.generation, s.rate, s.pending, s.stop = a.generation, rate, true, ""
	spec := scheduler.Spec{Pipeline: &pipelines.Pipeline{Rate: rate}}
	s.declared = append(slices.Clone(s.declared), declarations.Declaration{Generation: s.generation, Spec: spec})
	return []sequential{s}
}

func (s sequential) look() view {
	v := view{Generation: s.generation, Asked: s.generation, Rate: s.rate}
	if s.serving != 0 {
		v.Generation, v.Serving, v.Rate = s.serving, s.serving, s.served
	}
	for _, d := range s.declared.Summaries(s.serving) {
		v.Declared = append(v.Declared, declared{d.Generation, d.Current})
	}
	return v
}
