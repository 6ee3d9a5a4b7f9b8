package shared

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// drawSight draws a line of requests, a profile and the turns to come.
func drawSight(t *rapid.T) (*lookahead, *view) {
	each := time.Duration(rapid.IntRange(1, 20).Draw(t, "each")) * ms / 10
	fixed := time.Duration(rapid.IntRange(0, 100).Draw(t, "fixed")) * ms / 10
	table := newProfile(Linear(each, fixed, rapid.IntRange(1, 12).Draw(t, "largest")))
	wait := table[0] + dispatch.Time(rapid.IntRange(0, 300).Draw(t, "slack"))*ms/10
	q, due := &line{}, dispatch.Time(0)
	for i := range rapid.IntRange(1, 9).Draw(t, "waiting") {
		due += dispatch.Time(rapid.IntRange(0, 20).Draw(t, "gap")) * ms / 10
		q.insert(waiter{ID: dispatch.RequestID(i), Due: table[0] + due})
	}
	f, at := &lookahead{}, dispatch.Time(0)
	few := rapid.IntRange(1, 4).Draw(t, "turns")
	for i := range f.turns {
		if i < few {
			f.turns[i] = at
			at += dispatch.Time(rapid.IntRange(0, 100).Draw(t, "turn")) * ms / 10
		} else {
			f.turns[i] = f.turns[few-1] // too late for what comes, and nothing comes
		}
	}
	v := &view{q: q, s: &offer{table: table}, plan: table, wait: wait, gap: float64(never), unit: 1}
	return f, v
}

// mostServed tries everything that the turns allow: any number given up before
// each, and then the largest batch.
func mostServed(f *lookahead, v *view, turn, from int) int {
	if turn == len(f.turns) || from >= v.q.N {
		return 0
	}
	best := mostServed(f, v, turn+1, from) // nothing now
	for k := from; k < v.q.N; k++ {
		if size := v.fit(turn, f.turns[turn], k, v.q.N); size > 0 {
			best = max(best, size+mostServed(f, v, turn+1, k+size))
		}
	}
	return best
}

// TestLookaheadServesMost holds its first move to that of the best of all
// candidates: after it, as many can still be served.
func TestLookaheadServesMost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f, v := drawSight(t)
		all := mostServed(f, v, 0, 0)
		drop, ok := f.best(v)
		if !ok {
			return
		}
		size := v.fit(0, f.turns[0], drop, v.q.N)
		if size == 0 {
			assert.Zero(t, all)
			return
		}
		assert.Equal(t, all, size+mostServed(f, v, 1, drop+size), "given up %d", drop)
	})
}

func BenchmarkForesee(b *testing.B) {
	m := table4Rows()[1].model
	p := newAdaptive(Options{Models: []Model{m}})
	for id := range 8 {
		p.Step(0, dispatch.Event{Kind: dispatch.ExecutorUp, Executor: dispatch.ExecutorID(id)}, nil)
		if id < 7 {
			p.Fleet.Send(dispatch.ExecutorID(id), dispatch.Time(id+1)*7*ms)
		}
	}
	p.Models[0].Meter = dispatch.Meter{Rate: 1000, Samples: 10}
	p.aim(0)
	p.MeanBatchTime = float64(58 * ms)
	for i := range 20 {
		p.Lines[0].insert(waiter{ID: dispatch.RequestID(i), Due: 57*ms + dispatch.Time(i)*ms/2})
	}
	s := p.planned(0)
	b.ReportAllocs()
	for b.Loop() {
		p.lookAhead(0, &s, cut{size: 7})
	}
}
