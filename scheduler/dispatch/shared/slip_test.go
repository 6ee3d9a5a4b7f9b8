package shared

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// Batches that are back later than profiled take requests with them that are due just
// then; so much is kept before deadlines from then on, a tenth of the objective at most,
// and less again when they are punctual.
func TestWhatBatchesTakeLongerIsKept(t *testing.T) {
	p := newEager(Options{Models: []Model{{Durations: Linear(ms, 10*ms, 8), SLO: 100 * ms}}, Margin: ms}).(*deferred)
	p.Step(0, dispatch.Event{Kind: dispatch.ExecutorUp}, nil)
	assert.Equal(t, ms, p.kept(0))
	now := dispatch.Time(0)
	run := func(longer, after dispatch.Time) {
		now += 100 * ms
		p.Step(now, dispatch.Event{Kind: dispatch.Arrive, Request: dispatch.Request{ID: dispatch.RequestID(now), Arrival: now, Deadline: now + 100*ms}}, nil)
		p.Step(now+11*ms+longer, dispatch.Event{Kind: dispatch.ExecutorFree, Took: 11 * ms, At: now + 11*ms + longer + after}, nil)
	}
	run(4*ms, 0)
	assert.Equal(t, 4*ms, p.kept(0))
	run(-2*ms, 8*ms) // taken ahead: it is back later than the executor is free
	assert.Equal(t, 6*ms, p.kept(0))
	run(50*ms, 0)
	assert.Equal(t, 10*ms, p.kept(0))
	for range 500 {
		run(0, 0)
	}
	assert.Equal(t, ms, p.kept(0))
}

// lagging is a policy with three executors of which the first is so much later than
// profiled, as it has noticed.
func lagging(t *testing.T, by dispatch.Time) (*adaptive, dispatch.Time) {
	p := newAdaptive(Options{Models: []Model{{Durations: Linear(ms, 10*ms, 16), SLO: 100 * ms}}})
	for id := range 3 {
		p.Step(0, dispatch.Event{Kind: dispatch.ExecutorUp, Executor: dispatch.ExecutorID(id)}, nil)
	}
	now := dispatch.Time(0)
	for range 4 {
		for id := range dispatch.ExecutorID(3) {
			now += ms
			p.Lines[0].insert(waiter{ID: dispatch.RequestID(now), Due: now + 100*ms})
			p.Waiting++
			p.Now = now
			out := p.start(0, id, 1, nil)
			require.Len(t, out, 1)
			now += 11 * ms
			if id == 0 {
				now += by
			}
			p.Step(now, dispatch.Event{Kind: dispatch.ExecutorFree, Executor: id}, nil)
		}
	}
	return p, now
}

// An executor that is later than the others is kept more time, and taken after them; they
// are kept none for its sake.
func TestALateExecutorIsTakenLast(t *testing.T) {
	p, now := lagging(t, 20*ms)
	assert.Zero(t, p.kept(0))
	assert.Equal(t, []dispatch.Time{20 * ms, 0, 0}, []dispatch.Time{p.Slips.beyond(now, 0), p.Slips.beyond(now, 1), p.Slips.beyond(now, 2)})
	assert.Equal(t, dispatch.ExecutorID(1), p.first(0))
	s := p.offer(0, 0)
	assert.Equal(t, now+31*ms, s.finish(1))

	for i := range 10 { // what the late one would have to give up, another will do
		p.Lines[0].insert(waiter{ID: dispatch.RequestID(now) + dispatch.RequestID(i), Due: now + 25*ms + dispatch.Time(i)*8*ms})
	}
	q := &p.Lines[0]
	form := func(s *offer) cut { return cutHead(q, s, 0) }
	id, c := p.pick(0, form)
	assert.Equal(t, dispatch.ExecutorID(1), id)
	assert.Equal(t, cut{drop: 0, size: 10}, c)
	p.Fleet.Leave(1)
	p.Fleet.Leave(2)
	_, c = p.pick(0, form)
	assert.Zero(t, c.size)
	assert.Positive(t, p.offer(0, 0).late, "it is compared with those that were there")

	p.Slips.forget(now, 1, &p.Fleet)
	assert.Zero(t, p.offer(0, 0).late, "it is the only one, and what it needs is kept before every deadline")
	assert.Equal(t, 10*ms, p.kept(0))
}

// It is tried again after a while, and counts as another when it comes again.
func TestALateExecutorIsForgiven(t *testing.T) {
	p, now := lagging(t, 20*ms)
	assert.Zero(t, p.Slips.beyond(now+20*time.Second, 0))
	p.Step(now, dispatch.Event{Kind: dispatch.ExecutorUp, Executor: 0}, nil)
	assert.Zero(t, p.Slips.beyond(now, 0))
}

// A batch that was sent ahead begins when the one before it has ended, so that its executor
// is no later for what that one took.
func TestABatchSentAheadIsMeasured(t *testing.T) {
	p := newAdaptive(Options{Models: []Model{{Durations: Linear(ms, 10*ms, 16), SLO: 100 * ms}}, Delay: dispatch.Delay{Control: 2 * ms}})
	p.Step(0, dispatch.Event{Kind: dispatch.ExecutorUp}, nil)
	for i := range dispatch.Time(2) {
		p.Lines[0].insert(waiter{ID: dispatch.RequestID(i), Due: 100 * ms})
		p.Waiting++
		p.Now = 11 * i * ms
		p.start(0, 0, 1, nil)
	}
	p.Step(18*ms, dispatch.Event{Kind: dispatch.ExecutorFree}, nil) // 2 + 11 planned
	assert.Equal(t, 5*ms, p.Slips.Execs[0].Of(18*ms))
	p.Step(30*ms, dispatch.Event{Kind: dispatch.ExecutorFree}, nil)
	assert.Equal(t, 5*ms, p.Slips.Execs[0].Of(30*ms), "the second took 1 ms longer and not 6")
}
