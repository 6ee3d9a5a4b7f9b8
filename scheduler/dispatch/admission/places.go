package admission

import (
	"cmp"
	"maps"
	"math"
	"math/bits"
	"slices"
	"time"

	"github.com/harpagon/harpagon/pipelines"
)

// Places are those of the streams of one kind of a pipeline: as many as it is planned for. Whoever decides
// for the pipeline leases them to gateways, by the names of streams, so that several gateways let
// in no more than one would. A place is kept until the gateway says that the stream is over, or is
// gone itself; another gateway takes it over where the stream goes on there.
//
// Each place has a phase: the instants at which the stream should send, evenly apart for all of
// them. The first places that are taken lie as far apart as they can (in the order of van der
// Corput's sequence), so that fewer streams are spread, too.
//
// It is a plain value for drivers to hold; one call at a time.
type Places struct {
	planned int // places
	period  Time
	base    Time // an instant of the first of them
	of      map[string]*place
	taken   map[int]*place // by slot: where in the period
	full    int            // no slot before this one, in the order in which they are taken, is free
	opened  int            // so far
}

type place struct {
	stream string
	holder any
	number int // in the order in which they opened
	slot   int
	moved  Time // when its stream came from another holder
}

// Placed is what the holder of a stream is told: that it has a place, or not.
type Placed struct {
	Holder any
	Stream string
	Place
}

// Place is one that a stream has, or has not.
type Place struct {
	Open    bool
	Taken   bool // by the same stream elsewhere
	Planned int
	Phase   Time // an instant at which it should send, and every period before and after
}

// movesEvery is how often a stream may go from one holder to another: two of the same name
// must not send twice as much.
const movesEvery = Time(time.Second)

// Plan sets for how many streams of which period there are places: Count of them. Where there are fewer than are
// open, those that opened last lose theirs; holders learn of other phases.
func (p *Places) Plan(now Time, s pipelines.Stream) (all []Placed) {
	planned, period := s.Count, Time(0)
	if planned > 0 {
		period = s.Period()
	}
	if p.planned == planned && p.period == period {
		return nil
	}
	p.planned, p.period, p.base, p.taken, p.full = planned, period, now, nil, 0
	open := slices.SortedFunc(maps.Values(p.of), func(a, b *place) int { return cmp.Compare(a.number, b.number) })
	for i, of := range open {
		if i >= planned {
			delete(p.of, of.stream)
			all = append(all, p.told(of, Place{Planned: planned}))
			continue
		}
		p.settle(of, -1)
		all = append(all, p.tell(of))
	}
	return all
}

// Open asks for a place for a stream. Held says that the holder has had one, of that phase, by
// whoever decided before, or before its holder left: it keeps it, unless another has it by now, or others
// have all that are planned.
func (p *Places) Open(now Time, stream string, holder any, held bool, phase Time) []Placed {
	of := p.of[stream]
	switch {
	case of != nil && of.holder == holder:
		return []Placed{p.tell(of)}
	case of != nil && held && succeeds(holder, of.holder):
		of.holder = holder
		return []Placed{p.tell(of)}
	case of != nil && (held || of.moved != 0 && now-of.moved < movesEvery):
		return []Placed{{holder, stream, Place{Planned: p.planned, Taken: true}}}
	case of != nil:
		lost := p.told(of, Place{Planned: p.planned, Taken: true})
		of.holder, of.moved = holder, now
		return []Placed{lost, p.tell(of)}
	case len(p.of) >= p.planned:
		return []Placed{{holder, stream, Place{Planned: p.planned}}}
	}
	if p.of == nil {
		p.of = make(map[string]*place)
	}
	p.opened++
	of = &place{stream: stream, holder: holder, number: p.opened}
	p.of[stream] = of
	slot := -1
	if held && p.period > 0 {
		if len(p.taken) == 0 {
			p.base = phase
		}
		slot = p.nearest(phase)
	}
	p.settle(of, slot)
	return []Placed{p.tell(of)}
}

// Successor is a holder that may be another once more: a gateway that has joined again, whose connection
// before is not given up yet. It keeps the places that it had by that.
type Successor interface {
	Succeeds(holder any) bool
}

func succeeds(holder, before any) bool {
	s, ok := holder.(Successor)
	return ok && s.Succeeds(before)
}

// Close frees the place of a stream, if the holder has it.
func (p *Places) Close(stream string, holder any) {
	if of := p.of[stream]; of != nil && of.holder == holder {
		p.close(of)
	}
}

// Leave frees all places of a holder.
func (p *Places) Leave(holder any) {
	for _, of := range p.of {
		if of.holder == holder {
			p.close(of)
		}
	}
}

// Given are the places that streams have.
func (p *Places) Given() (all []Placed) {
	for _, of := range p.of {
		all = append(all, p.tell(of))
	}
	return all
}

// Taken is how many places are.
func (p *Places) Taken() int { return len(p.of) }

func (p *Places) close(of *place) {
	delete(p.of, of.stream)
	if p.taken[of.slot] == of {
		delete(p.taken, of.slot)
		p.full = 0
	}
}

// settle gives a stream the slot, or the first that is free.
func (p *Places) settle(of *place, slot int) {
	if slot < 0 || p.taken[slot] != nil {
		slot = p.free()
	}
	if of.slot = slot; p.taken == nil {
		p.taken = make(map[int]*place)
	}
	p.taken[slot] = of
}

// free is the first slot that is, in the order of van der Corput; there are no more streams than slots.
func (p *Places) free() int {
	width := bits.Len(uint(p.planned - 1))
	for ; ; p.full++ {
		if slot := int(bits.Reverse64(uint64(p.full)) >> (64 - width) * uint64(p.planned) >> width); p.taken[slot] == nil {
			return slot
		}
	}
}

// nearest is the slot of a phase.
func (p *Places) nearest(phase Time) int {
	at := math.Mod(float64(phase-p.base), float64(p.period)) / float64(p.period)
	n := int(math.Round(at * float64(p.planned)))
	return ((n % p.planned) + p.planned) % p.planned
}

func (p *Places) tell(of *place) Placed {
	phase := p.base
	if of.slot > 0 {
		phase += Time(float64(p.period) * float64(of.slot) / float64(p.planned))
	}
	return p.told(of, Place{Open: true, Planned: p.planned, Phase: phase})
}

func (*Places) told(of *place, as Place) Placed { return Placed{of.holder, of.stream, as} }
