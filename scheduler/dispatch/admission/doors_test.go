package admission

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
)

var (
	doorSeeds = flag.Uint64("door-seeds", 300, "how many runs TestFramesAtSeveralDoors plays")
	doorFirst = flag.Uint64("door-first", 1, "the first of them")
)

// TestFramesAtSeveralDoors plays streams that come, send too much, end, go silent and change between
// doors, doors that are lost, cut off and come back, deciders that are replaced, and plans that change. Every
// frame has one outcome, those of a stream go in at a door in the order in which they came and no
// faster than a plan covers, and never have more streams a place than are planned for. Many seeds:
//
//	go test ./scheduler/dispatch/admission -run TestFramesAtSeveralDoors -door-seeds 100000
func TestFramesAtSeveralDoors(t *testing.T) {
	for seed := *doorFirst; seed < *doorFirst+*doorSeeds; seed++ {
		w := &doorsWorld{t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 7)), outcomes: map[int]string{}}
		w.play()
	}
}

// doorsWorld is one run.
type doorsWorld struct {
	t      *testing.T
	seed   uint64
	rng    *rand.Rand
	rules  StreamRules
	places *Places
	doors  []*doorOf
	now    Time

	frames   int
	outcomes map[int]string
}

// doorOf is a gateway.
type doorOf struct {
	name  string
	cut   bool // off from who decides
	of    Streams
	has   map[string]Time // phases of streams that have a place
	opens map[string]int  // how often each has opened
	waits map[int]waiting
	in    []entered
}

type waiting struct {
	stream string
	until  Time
}

type entered struct {
	stream string
	frame  int
	at     Time
	opened int // how often the stream has opened at the door
}

func (w *doorsWorld) fail(format string, args ...any) {
	w.t.Helper()
	require.FailNow(w.t, fmt.Sprintf(format, args...), "again: -door-first %d -door-seeds 1", w.seed)
}

func (w *doorsWorld) play() {
	w.rules = StreamRules{pipelines.Stream{Rate: 10, Jitter: Time(w.rng.IntN(100)) * ms, Stale: pipelines.Stales()[w.rng.IntN(3)], Count: 1 + w.rng.IntN(4)}}
	w.places = new(Places)
	w.places.Plan(0, w.rules.Stream)
	for i := range 2 + w.rng.IntN(2) {
		w.doors = append(w.doors, &doorOf{name: fmt.Sprint(i), has: map[string]Time{}, opens: map[string]int{}, waits: map[int]waiting{}})
	}
	at := map[string]int{} // which door a stream sends to
	for range 20 + w.rng.IntN(100) {
		w.pass(w.now + Time(w.rng.IntN(60))*ms)
		door := w.doors[w.rng.IntN(len(w.doors))]
		switch w.rng.IntN(40) {
		case 0:
			w.lose(door)
		case 1:
			w.replace()
		case 2:
			w.rules.Count = 1 + w.rng.IntN(4)
			w.hear(w.places.Plan(w.now, w.rules.Stream))
		case 3:
			w.pass(w.now + 11*time.Second) // silence
		case 4:
			w.places.Leave(door)
			door.cut = true
		default:
			name := string(rune('a' + w.rng.IntN(6)))
			if _, known := at[name]; !known || w.rng.IntN(15) == 0 {
				at[name] = w.rng.IntN(len(w.doors))
			}
			w.arrive(w.doors[at[name]], name)
		}
		w.check()
	}
	w.pass(w.now + time.Hour)
	w.check()
	for i := range w.frames {
		if w.outcomes[i] == "" {
			w.fail("frame %d has no outcome", i)
		}
	}
	for _, d := range w.doors {
		w.covered(d)
	}
}

// end gives a frame its outcome.
func (w *doorsWorld) end(frame int, how string) {
	if before := w.outcomes[frame]; before != "" {
		w.fail("frame %d: %s after %s", frame, how, before)
	}
	w.outcomes[frame] = how
}

func (w *doorsWorld) arrive(d *doorOf, name string) {
	if d.cut {
		d.cut = false
		w.tell(d)
	}
	frame := w.frames
	w.frames++
	if _, has := d.has[name]; !has {
		w.hear(w.places.Open(w.now, name, d, false, 0))
	}
	d.of.Look(w.now, &w.rules, name, d.has[name])
	v, dropped, until := d.of.Arrive(w.now, &w.rules, StreamFrame{Stream: name, First: w.rng.IntN(8) == 0, Last: w.rng.IntN(12) == 0, Frame: frame})
	if dropped != nil {
		w.end(dropped.(int), "dropped")
		delete(d.waits, dropped.(int))
	}
	switch v {
	case StreamEnters:
		w.end(frame, "in")
		d.in = append(d.in, entered{name, frame, w.now, d.opens[name]})
	case StreamWaits:
		d.waits[frame] = waiting{name, until}
	case StreamRefused:
		d.of.Refuse(w.now, &w.rules, name)
		w.end(frame, "refused")
	default:
		w.end(frame, "dropped")
	}
}

// hear has doors hear of places.
func (w *doorsWorld) hear(all []Placed) {
	for _, told := range all {
		d := told.Holder.(*doorOf)
		if told.Open {
			if _, has := d.has[told.Stream]; !has {
				d.of.Open(w.now, &w.rules, told.Stream)
				d.opens[told.Stream]++
			}
			d.has[told.Stream] = told.Phase
			continue
		}
		delete(d.has, told.Stream)
		d.of.Close(told.Stream)
	}
}

// pass lets time pass.
func (w *doorsWorld) pass(to Time) {
	for {
		var next *doorOf
		frame, at := -1, to
		for _, d := range w.doors {
			for i, f := range d.waits {
				if f.until < at || f.until == at && i < frame {
					next, frame, at = d, i, f.until
				}
			}
		}
		w.now = max(w.now, at)
		w.expire()
		if next == nil {
			return
		}
		name := next.waits[frame].stream
		delete(next.waits, frame)
		if next.of.Release(w.now, &w.rules, name, frame) {
			w.end(frame, "in")
			next.in = append(next.in, entered{name, frame, w.now, next.opens[name]})
		} else {
			w.end(frame, "its place was lost")
		}
	}
}

func (w *doorsWorld) expire() {
	for _, d := range w.doors {
		over, _ := d.of.Expire(w.now, &w.rules)
		sort.Strings(over)
		for _, name := range over {
			delete(d.has, name)
			w.places.Close(name, d)
		}
	}
}

// lose has a door begin again, as a gateway that is killed does; its frames are lost.
func (w *doorsWorld) lose(d *doorOf) {
	w.places.Leave(d)
	for frame := range d.waits {
		w.end(frame, "lost")
	}
	w.covered(d)
	*d = doorOf{name: d.name, has: map[string]Time{}, opens: map[string]int{}, waits: map[int]waiting{}}
}

// replace has another decide, whom the doors tell of their places before it gives any.
func (w *doorsWorld) replace() {
	w.places = new(Places)
	w.places.Plan(w.now, w.rules.Stream)
	for _, d := range w.doors {
		if !d.cut {
			w.tell(d)
		}
	}
}

// tell reports which streams have places at a door.
func (w *doorsWorld) tell(d *doorOf) {
	for _, name := range slices.Sorted(maps.Keys(d.has)) {
		w.hear(w.places.Open(w.now, name, d, true, d.has[name]))
	}
}

// check holds that no more streams have a place than are planned for, each at one door.
func (w *doorsWorld) check() {
	at := map[string]string{}
	phases := map[Time]string{}
	for _, d := range w.doors {
		if len(d.has) != len(d.of.open) {
			w.fail("door %s has places for %d streams, and %d open", d.name, len(d.has), len(d.of.open))
		}
		if d.cut { // others may have them
			continue
		}
		for name, phase := range d.has {
			if other, twice := at[name]; twice {
				w.fail("stream %s has a place at doors %s and %s", name, other, d.name)
			}
			at[name] = d.name
			phase = modulo(phase, w.rules.Period())
			if other, twice := phases[phase]; twice {
				w.fail("streams %s and %s have one phase", name, other)
			}
			phases[phase] = name
		}
	}
	if len(at) > w.rules.Count || len(at) != w.places.Taken() {
		w.fail("%d streams have a place, %d are taken, %d are planned for", len(at), w.places.Taken(), w.rules.Count)
	}
}

// covered holds that what went in at a door keeps the order and the pace of each stream for as long as
// it was open there.
func (w *doorsWorld) covered(d *doorOf) {
	period := w.rules.Period()
	for i, from := range d.in {
		n := 0
		for _, f := range d.in[i:] {
			if f.stream != from.stream || f.opened != from.opened {
				continue
			}
			if f.frame < from.frame {
				w.fail("frame %d went in behind frame %d of stream %s", f.frame, from.frame, f.stream)
			}
			if n++; n > int((f.at-from.at+w.rules.Jitter)/period)+1 {
				w.fail("%d frames of stream %s in %v", n, f.stream, f.at-from.at)
			}
		}
	}
}
