package experiments

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/dispatch/shared"
)

// TestShepherdCandidateIsLargest beside a search over every place in the queue.
func TestShepherdCandidateIsLargest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := shared.Model{Durations: shared.Linear(time.Duration(rapid.IntRange(1, 5).Draw(t, "each")), time.Duration(rapid.IntRange(0, 9).Draw(t, "fixed")), rapid.IntRange(1, 8).Draw(t, "most")), SLO: 100}
		p := newFlex([]shared.Model{m}, dispatch.Delay{})
		due := dispatch.Time(0)
		for i := range rapid.IntRange(0, 12).Draw(t, "waiting") {
			due += dispatch.Time(rapid.IntRange(0, 9).Draw(t, "gap"))
			p.queues[0] = append(p.queues[0], flexRequest{dispatch.RequestID(i), due})
		}
		most := 0
		for at := range p.queues[0] {
			for b := 1; at+b <= len(p.queues[0]) && b <= len(m.Durations) && p.takes(0, b) <= p.queues[0][at].due; b++ {
				most = max(most, b)
			}
		}
		from, size := p.candidate(0, 0)
		require.Equal(t, most, size)
		if size > 0 {
			require.LessOrEqual(t, p.takes(0, size), p.queues[0][from].due)
			require.LessOrEqual(t, from+size, len(p.queues[0]))
		}
	})
}

// TestShepherdPreempts: a batch that runs is given up for one three times as large, and runs later.
func TestShepherdPreempts(t *testing.T) {
	slow, quick := shared.Linear(time.Millisecond, 20*time.Millisecond, 8), shared.Linear(time.Millisecond, time.Millisecond, 8)
	p := newFlex([]shared.Model{{Durations: slow, SLO: time.Second}, {Durations: quick, SLO: time.Second}}, dispatch.Delay{})
	var started [][]dispatch.RequestID
	at := dispatch.Time(0)
	step := func(now dispatch.Time, ev dispatch.Event) {
		for _, a := range p.Step(now, ev, nil) {
			switch a.Act {
			case dispatch.Start:
				started = append(started, a.Batch)
			case dispatch.SetTimer:
				at = a.At
			}
		}
	}
	step(0, dispatch.Event{Kind: dispatch.ExecutorUp})
	for id, class := range []int32{0, 1, 1, 1, 1} {
		step(0, dispatch.Event{Kind: dispatch.Arrive, Request: dispatch.Request{ID: dispatch.RequestID(id + 1), Class: class}})
	}
	for range 2 {
		step(at, dispatch.Event{Kind: dispatch.Timer})
	}
	assert.Equal(t, [][]dispatch.RequestID{{2, 3, 4, 5}, {1}}, started)
	assert.Zero(t, p.Len())
}

// TestADividedPoolAnswersEveryQuery, whatever part it goes to.
func TestADividedPoolAnswersEveryQuery(t *testing.T) {
	r, err := division(t.Context(), &Env{Quick: true})
	require.NoError(t, err)
	for _, row := range r.Rows {
		if row.Metric == "of the whole pool's" {
			assert.Greater(t, row.Ours, 0.5, row.Setting)
			assert.Less(t, row.Ours, 1.1, row.Setting)
		}
	}
}
