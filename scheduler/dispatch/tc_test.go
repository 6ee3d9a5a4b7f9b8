package dispatch

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

const ms = time.Millisecond

func TestTCFillsABatchThenStarts(t *testing.T) {
	p := NewTC(TCOptions{Groups: []GroupOptions{{Batch: 2, Window: 100 * ms, Duration: 50 * ms}}})
	p.Step(0, Event{Kind: ExecutorUp, Executor: 0}, nil)
	out := p.Step(0, arrive(1, 0, 300*ms), nil)
	assert.Equal(t, []Action{{Act: SetTimer, At: 100 * ms}}, out)
	out = p.Step(10*ms, arrive(2, 10*ms, 300*ms), nil)
	assert.Equal(t, []Action{{Act: Start, Batch: []RequestID{1, 2}}}, out)
	assert.Zero(t, p.Len())
}

func arrive(id RequestID, at, deadline Time) Event {
	return Event{Kind: Arrive, Request: Request{ID: id, Arrival: at, Deadline: deadline}}
}
