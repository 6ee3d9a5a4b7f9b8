package matching

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// started is whether a query that comes at now to an idle pool starts. It ends after it has taken
// so long.
func started(p *matching, id dispatch.RequestID, size int32, now, took dispatch.Time) bool {
	for _, a := range p.Step(now, query(id, size, now), nil) {
		if a.Act == dispatch.Start {
			p.Step(now+took, dispatch.Event{Kind: dispatch.ExecutorFree, Executor: a.Executor}, nil)
			return true
		}
	}
	return false
}

// baseOnly is a pool of one base instance of which nothing is known.
func baseOnly(t *testing.T) *matching {
	p := newTestMatching(t, Options{SLO: 50 * ms, Types: []InstanceType{{Name: "base"}}})
	p.Step(0, dispatch.Event{Kind: dispatch.ExecutorUp, Executor: 0, Group: 0}, nil)
	return p
}

// A query of 5 items takes 17 ms. In proportion one of 30 would take 102 ms, but the base is in
// time at every size, so it is tried, and takes 42 ms.
func TestTheBaseTriesSizesThatNothingIsKnownOf(t *testing.T) {
	p := baseOnly(t)
	require.True(t, started(p, 1, 5, 0, 17*ms))
	require.True(t, started(p, 2, 30, 100*ms, 42*ms))
	assert.Equal(t, 42*ms, p.expect(0, 30))
	assert.Equal(t, 27*ms, p.expect(0, 15), "between the two on a line")

	p = newTestMatching(t, Options{SLO: 50 * ms, Types: []InstanceType{{Name: "base"}, {Name: "small"}}})
	p.Step(0, dispatch.Event{Kind: dispatch.ExecutorUp, Executor: 7, Group: 1}, nil)
	require.True(t, started(p, 1, 5, 0, 17*ms))
	assert.False(t, started(p, 2, 30, 100*ms, 42*ms), "others are not declared to be in time")
}

// One query while something held the base up does not keep its size from it for good.
func TestOneSlowQueryIsForgotten(t *testing.T) {
	p := baseOnly(t)
	require.True(t, started(p, 1, 30, 0, 60*ms))
	dropped := 0
	for id := dispatch.RequestID(2); !started(p, id, 30, dispatch.Time(id)*100*ms, 20*ms); id++ {
		dropped++
		require.Less(t, dropped, 20)
	}
	assert.Equal(t, 10, dropped, "0.98 to the tenth of 60 ms is in time")
	assert.True(t, started(p, 100, 30, 100*100*ms, 20*ms))
}
