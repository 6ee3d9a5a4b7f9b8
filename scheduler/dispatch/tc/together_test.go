package tc

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// starts are the sizes of the batches that a policy starts.
func starts(out []dispatch.Action) (sizes []int) {
	for _, a := range out {
		if a.Act == dispatch.Start {
			sizes = append(sizes, len(a.Batch))
		}
	}
	return sizes
}

// of makes a policy with so many idle executors, whose batches of up to four take 10, 12, 14
// and 16 ms, and lets k requests come to it in one instant.
func of(executors, k int, deadline dispatch.Time, together bool) []dispatch.Action {
	p := New(Options{Early: EarlyAlways, Groups: []Group{{Batch: 4, Window: 20 * ms, Duration: 16 * ms, Durations: []dispatch.Time{10 * ms, 12 * ms, 14 * ms, 16 * ms}}}})
	for i := range executors {
		p.Step(0, dispatch.Event{Kind: dispatch.ExecutorUp, Executor: dispatch.ExecutorID(i), Alone: true}, nil)
	}
	var out []dispatch.Action
	for i := range k {
		ev := arrive(dispatch.RequestID(i+1), ms, deadline)
		ev.More = together
		out = p.Step(ms, ev, out)
	}
	return p.Step(ms, dispatch.Event{Kind: dispatch.Timer}, out)
}

// Items that come together fill a batch, or are divided among executors that idle. One by
// one, the first starts alone, and where there is one executor the others wait for it.
func TestWhatComesTogetherIsDecidedTogether(t *testing.T) {
	assert.Equal(t, []int{4}, starts(of(1, 4, 0, true)))
	assert.Equal(t, []int{1}, starts(of(1, 4, 0, false)))
	assert.Equal(t, []int{2, 2}, starts(of(2, 4, 0, true)))
	assert.Equal(t, []int{1, 1, 1}, starts(of(5, 3, 0, true)))
	assert.Equal(t, []int{4, 4}, starts(of(2, 9, 0, true)))
}

// However many come together, each starts or waits once, no executor is left idle where
// requests wait, and parts differ by one at most where all fit.
func TestDividesAmongIdleExecutors(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		executors, k := rapid.IntRange(1, 6).Draw(t, "executors"), rapid.IntRange(1, 30).Draw(t, "k")
		sizes := starts(of(executors, k, 0, true))
		sum, least, most := 0, 4, 0
		for _, n := range sizes {
			sum, least, most = sum+n, min(least, n), max(most, n)
		}
		assert.Equal(t, min(k, 4*executors), sum)
		assert.Len(t, sizes, min(k, executors))
		assert.LessOrEqual(t, most-least, 1)
	})
}

// A request that comes too late with others is given up once, and not at all where it is
// taken back before anything was decided.
func TestGivesUpOnceWhatComesLateWithOthers(t *testing.T) {
	drops := func(out []dispatch.Action) (n int) {
		for _, a := range out {
			if a.Act == dispatch.Drop {
				n++
			}
		}
		return n
	}
	assert.Equal(t, 3, drops(of(0, 3, 2*ms, true)))
	p := New(Options{Groups: []Group{{Batch: 1, Duration: 10 * ms}}})
	p.Step(0, dispatch.Event{Kind: dispatch.ExecutorUp}, nil)
	for id := range dispatch.RequestID(2) {
		ev := arrive(id+1, 0, 5*ms)
		ev.More = true
		assert.Empty(t, p.Step(0, ev, nil))
	}
	out := p.Step(0, dispatch.Event{Kind: dispatch.Cancel, Request: dispatch.Request{ID: 1}}, nil)
	assert.Equal(t, []dispatch.Action{{Act: dispatch.Drop, Request: 2, Reason: dispatch.Late}}, out)
	assert.Zero(t, drops(p.Step(0, dispatch.Event{Kind: dispatch.Timer}, nil)))
}

// Where batches vary, one that waits closes before it would be late by what nearly all have
// taken, and holds fewer where that makes the first surely in time; where none does, all is
// as it was.
func TestBatchesThatVaryAreStartedSooner(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := New(Options{Early: EarlyAlways, Groups: []Group{{Batch: 4, Window: 1000 * ms, Duration: 16 * ms, Durations: []dispatch.Time{10 * ms, 12 * ms, 14 * ms, 16 * ms}}}}).(*tc)
		g, now := &p.Groups[0], dispatch.Time(0)
		varies := rapid.Bool().Draw(t, "varies")
		for i := range rapid.IntRange(2, 30).Draw(t, "batches") {
			took := 16 * ms
			if varies {
				took += dispatch.Time(2*(i%2)-1) * 2 * ms
			}
			now += 20 * ms
			g.Pace.Learn(now, 16*ms, took, took)
		}
		p.Now = now
		n := rapid.IntRange(1, 4).Draw(t, "waiting")
		due := now + dispatch.Time(rapid.IntRange(10, 30).Draw(t, "left"))*ms
		for i := range n {
			g.Queue.insert(dispatch.Request{ID: dispatch.RequestID(i), Arrival: now, Deadline: due})
		}
		before, closes := g.closeAt(now, false), g.closeAt(now, true)
		first := g.Queue.at(0)
		sure, lately := p.sized(g, first, n, p.surely), p.sized(g, first, n, p.lately)
		_, size := p.cut(g, n, p.lately)
		assert.LessOrEqual(t, sure, lately)
		assert.LessOrEqual(t, size, lately)
		if varies {
			assert.Less(t, closes, before)
		} else {
			assert.Equal(t, before, closes)
			assert.Equal(t, sure, lately)
		}
	})
}
