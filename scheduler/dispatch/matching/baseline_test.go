package matching

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/dispatch"
)

const milli = time.Millisecond

// line takes each per item.
func line(each time.Duration) pipelines.Latency {
	return pipelines.Latency{{Batch: 1, Duration: each}, {Batch: 100, Duration: 100 * each}}
}

func options(name string) BaselineOptions {
	return BaselineOptions{
		Name: name, SLO: 100 * milli, Largest: 50, Threshold: 20,
		Types: []InstanceType{{Name: "base", Latency: line(milli)}, {Name: "other", Latency: line(3 * milli)}},
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for _, name := range BaselineNames() {
		require.NoError(t, options(name).Check())
		assert.Equal(t, name, NewBaseline(options(name)).Name())
	}
	assert.ErrorContains(t, options("fifo").Check(), "choose one of ribbon, clockwork, drs")
	o := options(Ribbon)
	o.Largest = 1 << 30
	assert.ErrorContains(t, o.Check(), "the largest query")
	o = options(Ribbon)
	o.Types[1].Latency = nil
	assert.ErrorContains(t, o.Check(), "there are none of other")
	assert.ErrorContains(t, BaselineOptions{Name: Ribbon}.Check(), "at least one type")
}

// TestEveryQueryHasOneEnd drives the distributors with instances that come and go and queries
// that are cancelled: each query starts, is dropped or cancelled once, and never on an instance
// that is busy or gone.
func TestEveryQueryHasOneEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := NewBaseline(options(rapid.SampledFrom(BaselineNames()).Draw(t, "name")))
		var now, timer dispatch.Time = 0, dispatch.Never
		waiting, busy, up := map[dispatch.RequestID]bool{}, map[dispatch.ExecutorID]bool{}, map[dispatch.ExecutorID]int32{}
		step := func(ev dispatch.Event) {
			for _, a := range p.Step(now, ev, nil) {
				switch a.Act {
				case dispatch.SetTimer:
					require.GreaterOrEqual(t, a.At, now)
					timer = a.At
				case dispatch.Drop:
					require.True(t, waiting[a.Request])
					delete(waiting, a.Request)
				case dispatch.Start:
					group, ok := up[a.Executor]
					require.True(t, ok && !busy[a.Executor] && group == a.Group)
					require.True(t, waiting[a.Batch[0]])
					delete(waiting, a.Batch[0])
					busy[a.Executor] = true
				}
			}
			require.Equal(t, len(waiting), p.Len())
		}
		for id := range rapid.IntRange(1, 150).Draw(t, "steps") {
			now += time.Duration(rapid.IntRange(0, 20).Draw(t, "wait")) * milli
			for timer <= now {
				timer = dispatch.Never
				step(dispatch.Event{Kind: dispatch.Timer})
			}
			x := dispatch.ExecutorID(rapid.IntRange(0, 3).Draw(t, "executor"))
			_, there := up[x]
			switch kind := rapid.SampledFrom([]dispatch.Kind{dispatch.Arrive, dispatch.Arrive, dispatch.Arrive, dispatch.Cancel, dispatch.ExecutorUp, dispatch.ExecutorFree, dispatch.ExecutorGone}).Draw(t, "event"); {
			case kind == dispatch.Arrive:
				waiting[dispatch.RequestID(id)] = true
				step(dispatch.Event{Kind: kind, Request: dispatch.Request{ID: dispatch.RequestID(id), Arrival: now, Size: int32(rapid.IntRange(0, 70).Draw(t, "size"))}})
			case kind == dispatch.Cancel:
				gone := dispatch.RequestID(rapid.IntRange(0, 150).Draw(t, "request"))
				delete(waiting, gone)
				step(dispatch.Event{Kind: kind, Request: dispatch.Request{ID: gone}})
			case kind == dispatch.ExecutorUp && !there:
				up[x] = int32(x) % 2
				step(dispatch.Event{Kind: kind, Executor: x, Group: up[x]})
			case kind == dispatch.ExecutorFree && busy[x]:
				delete(busy, x)
				step(dispatch.Event{Kind: kind, Executor: x})
			case kind == dispatch.ExecutorGone && there:
				delete(up, x)
				delete(busy, x)
				step(dispatch.Event{Kind: kind, Executor: x})
			}
		}
		for timer < dispatch.Never { // nothing waits beyond its deadline, whatever became of the instances
			now, timer = timer, dispatch.Never
			step(dispatch.Event{Kind: dispatch.Timer})
		}
	})
}
