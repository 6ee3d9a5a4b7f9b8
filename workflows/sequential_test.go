package workflows

import (
	"reflect"
	"slices"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler"
)

// What no caller requests: a status long after the last change, a host that is lost with
// all executors that run, and a gateway that sees what is tried do badly.
const (
	opSettled = "settled"
	opLost    = "lost"
	opBad     = "bad"
)

// tooMuch is a rate, in requests per second, that the devices of the test cannot carry.
const tooMuch = 1e6

// operation is a request of a caller.
type operation struct {
	name string
	wish
	expect int
	to     int
}

// wish is the content of a declaration.
type wish struct {
	rate   float64
	canary bool // a change to it is tried first
}

func (w wish) spec() scheduler.Spec {
	s := traffic(w.rate)
	if w.canary {
		s.Pipeline.Update = pipelines.Update{Canary: 0.25, Hold: 2 * time.Second}
	}
	return s
}

func wishOf(s scheduler.Spec) wish { return wish{s.Pipeline.Rate, s.Pipeline.Update.Tried()} }

func (o operation) argument() any {
	switch o.name {
	case UpdateApply:
		return ApplyRequest{Spec: o.spec(), Expect: o.expect}
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

// answer is the reply to a caller.
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

// sequential is one service to which one thing happens at a time: an operation, or a step
// of carrying out a request. Which steps lie between two operations is unknown.
type sequential struct {
	absent     bool
	generation int
	asked      wish
	untried    bool // the requested change has not been tried yet
	pending    bool // still to be begun
	under      int  // generation that is being carried out
	underWish  wish
	trying     bool // it is tried first
	bad        bool // it does badly
	repairs    bool // it is what served before
	serving    int
	served     wish
	carries    int  // the generation of the declaration that serves
	stop       Stop // requested, and not begun
	stopping   Stop // which is not taken back any more
	drained    bool
	lost       bool // a host may have been under what runs
	gathering  bool // what else is lost
	broken     bool // executors of what serves are missing
	failed     int  // the generation that could not be carried out
	mends      bool // what serves is still to be carried out again
	declared   Declarations
}

// reached are the states that carrying out may lead to, the one at hand first.
func (s sequential) reached() []sequential {
	all := []sequential{s}
	for i := 0; i < len(all); i++ {
		for _, next := range all[i].carryOn() {
			if !slices.ContainsFunc(all, func(one sequential) bool { return reflect.DeepEqual(one, next) }) {
				all = append(all, next)
			}
		}
	}
	return all
}

func (s sequential) carryOn() []sequential {
	switch {
	case s.absent:
		return nil
	case s.trying && (s.lost || s.bad || s.pending || s.stop != ""):
		return s.takenBack()
	case s.trying: // it is promoted
		s.trying, s.untried = false, s.generation != s.under
	case s.under != 0 && s.underWish.rate == tooMuch:
		return s.fails()
	case s.under != 0:
		return s.carriedOut()
	case s.stopping == StopDelete:
		return []sequential{{absent: true}}
	case s.stopping == StopDrain:
		s.stopping, s.serving, s.served, s.carries, s.drained = "", 0, wish{}, 0, true
		s.lost, s.broken, s.failed = false, false, 0
	case s.gathering:
		s.gathering, s.lost, s.broken = false, false, true
		refused := s.refused()
		if s.generation++; refused {
			s.mends, s.failed = true, s.generation
		} else {
			s.pending = true
		}
	case s.stop != "":
		s.stop, s.stopping, s.pending, s.mends = "", s.stop, false, false
	case s.lost && s.serving == 0:
		s.lost = false
	case s.lost:
		s.gathering = true
	case s.mends:
		s.under, s.underWish, s.repairs, s.mends = s.generation, s.served, true, false
	case s.pending:
		return s.begin()
	default:
		return nil
	}
	return []sequential{s}
}

// refused reports that another declaration than the one that serves could not be carried out.
func (s sequential) refused() bool {
	return s.failed == s.generation && s.serving != 0 && s.declared.By(s.generation) != s.declared.By(s.carries)
}

func (s sequential) begin() []sequential {
	s.pending, s.drained, s.under, s.underWish = false, false, s.generation, s.asked
	switch tried := s.untried && s.serving != 0 && s.asked.canary; {
	case tried && s.broken:
		return s.takenBack()
	case tried:
		s.trying = s.asked.rate != tooMuch
	}
	return []sequential{s}
}

// carriedOut is what serves afterwards. It may or may not run on a host that was lost
// meanwhile.
func (s sequential) carriedOut() []sequential {
	if !s.repairs {
		s.carries, s.untried = s.declared.By(s.under), s.untried && s.generation != s.under
		s.failed = 0
	}
	s.declared = slices.Clone(s.declared).Carried(s.carries)
	s.serving, s.served, s.broken = s.under, s.underWish, false
	s = s.idle()
	spared := s
	spared.lost = false
	return []sequential{s, spared}
}

// fails lets what served go on, and mends it where executors of it are missing.
func (s sequential) fails() []sequential {
	failed := s.under
	s = s.idle()
	s.failed, s.mends = failed, s.serving != 0 && s.broken
	return []sequential{s}
}

// takenBack makes what serves the requested declaration again, unless there is a newer one.
func (s sequential) takenBack() []sequential {
	tried := s.declared.By(s.under)
	s.declared = slices.DeleteFunc(slices.Clone(s.declared), func(d Declaration) bool { return d.Generation == tried && !d.Served })
	if s.generation == s.under {
		s.asked, s.untried = s.served, false
	}
	return s.fails()
}

func (s sequential) idle() sequential {
	s.under, s.underWish, s.trying, s.bad, s.repairs = 0, wish{}, false, false, false
	return s
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
	case o.name == opLost:
		s.lost = true
		return []sequential{s}
	case o.name == opBad:
		s.bad = s.trying
		return []sequential{s}
	case s.absent:
		return refused(absent)
	case o.name == opSettled && (s.pending || s.under != 0 || s.stop != "" || s.stopping != "" || s.lost || s.broken || s.mends):
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
		return s.change(o.wish, true, true, a)
	case UpdateRescale:
		if s.generation == 0 {
			return refused("has no spec yet")
		}
		return s.change(wish{o.rate, s.asked.canary}, true, s.untried, a)
	case UpdateRollback:
		to, err := s.declared.Earlier(o.to, s.carries, s.generation)
		if err != nil {
			return refused(refusal(err).refused)
		}
		return s.change(wishOf(to.Spec), false, false, a)
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

// change requests a change. One that is in force already, or under way, and is no rollback,
// changes nothing.
func (s sequential) change(to wish, same, untried bool, a answer) []sequential {
	inForce := same && to == s.asked && s.stop == "" && (s.serving != 0 && s.stopping == "" || s.pending || s.under != 0)
	if a.unchanged && inForce && a.generation == s.generation {
		return []sequential{s}
	}
	if a.refused != "" || a.unchanged || inForce || a.generation != s.generation+1 {
		return nil
	}
	s.generation, s.asked, s.untried, s.pending, s.stop = a.generation, to, untried, true, ""
	s.declared = append(slices.Clone(s.declared), Declaration{Generation: s.generation, Spec: to.spec()})
	return []sequential{s}
}

func (s sequential) look() view {
	v := view{Generation: s.generation, Asked: s.generation, Rate: s.asked.rate}
	if s.serving != 0 {
		v.Generation, v.Serving, v.Rate = s.serving, s.serving, s.served.rate
	}
	for _, d := range s.declared.Summaries(s.carries) {
		v.Declared = append(v.Declared, declared{d.Generation, d.Current})
	}
	return v
}
