package shared

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// Batches that are back later than profiled take requests with them that are due just
// then; so much is kept before deadlines from then on, a tenth of the objective at most,
// and less again when they are punctual.
func TestWhatBatchesTakeLongerIsKept(t *testing.T) {
	p := NewEager(Options{Models: []Model{{Durations: Linear(ms, 10*ms, 8), SLO: 100 * ms}}, Margin: ms}).(*deferred)
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
