package factory

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/dispatch/roundrobin"
	"github.com/harpagon/harpagon/scheduler/dispatch/tc"
)

// TestFigure4 runs the dispatcher on figure 4 of the Harpagon paper (section III-B): request i
// comes after i/8 s to A and B in batches of 6, 2 s each, and C in batches of 2, 1 s each. In
// batches A is done after 2.75 s, one by one after 3.375 s.
func TestFigure4(t *testing.T) {
	for batches, want := range map[bool]time.Duration{true: 2750 * time.Millisecond, false: 3375 * time.Millisecond} {
		p := roundrobin.New(roundrobin.Options{Batches: batches, Groups: []tc.Group{
			{Batch: 6, Duration: 2 * time.Second, Window: 750 * time.Millisecond},
			{Batch: 2, Duration: time.Second, Window: time.Second},
		}})
		for id, group := range []int32{0, 0, 1} {
			p.Step(0, dispatch.Event{Kind: dispatch.ExecutorUp, Executor: dispatch.ExecutorID(id), Group: group}, nil)
		}
		done := map[dispatch.ExecutorID]time.Duration{}
		sizes := map[dispatch.ExecutorID]int{}
		for i := 1; i <= 16; i++ {
			now := time.Duration(i) * time.Second / 8
			for _, a := range p.Step(now, dispatch.Event{Kind: dispatch.Arrive, Request: dispatch.Request{ID: dispatch.RequestID(i), Arrival: now}}, nil) {
				if a.Act == dispatch.Start {
					done[a.Executor], sizes[a.Executor] = now+2*time.Second, len(a.Batch)
				}
			}
		}
		assert.Equal(t, want, done[0], p.Name())
		assert.Equal(t, map[dispatch.ExecutorID]int{0: 6, 1: 6, 2: 2}, sizes, "the second batch of C waits for its first")
		assert.Equal(t, 2, p.Len())
	}
}

// machines is a driver on a virtual clock: executors that take what the profile states, each on a
// device of its own.
type machines struct {
	p       dispatch.Policy
	groups  []tc.Group
	of      []int32 // group by executor; -1 while it is not up
	free    []dispatch.Time
	running [][]dispatch.RequestID
	timer   dispatch.Time
	now     dispatch.Time
	due     map[dispatch.RequestID]dispatch.Request // that wait
	ended   map[dispatch.RequestID]dispatch.Time    // answered, or -1 for dropped
}

func (m *machines) step(t require.TestingT, ev dispatch.Event) {
	for _, a := range m.p.Step(m.now, ev, nil) {
		switch a.Act {
		case dispatch.Ask: // always the last
			defer m.step(t, dispatch.Event{Kind: dispatch.Granted, Executor: a.Executor})
		case dispatch.SetTimer:
			m.timer = a.At
		case dispatch.Drop:
			require.Contains(t, m.due, a.Request)
			delete(m.due, a.Request)
			m.ended[a.Request] = -1
		case dispatch.Start:
			require.Nil(t, m.running[a.Executor], "executor %d is busy", a.Executor)
			g := m.of[a.Executor]
			require.Equal(t, g, a.Group)
			require.LessOrEqual(t, len(a.Batch), m.groups[g].Batch)
			end := m.now + m.groups[g].DurationTable()[len(a.Batch)-1]
			for _, id := range a.Batch {
				r, ok := m.due[id]
				require.True(t, ok, "request %d does not wait", id)
				require.True(t, r.Deadline == 0 || end <= r.Deadline, "late")
				delete(m.due, id)
				m.ended[id] = end
			}
			m.free[a.Executor], m.running[a.Executor] = end, append([]dispatch.RequestID{}, a.Batch...)
		}
	}
	require.Equal(t, len(m.due), m.p.Len())
}

// advance lets everything happen until then.
func (m *machines) advance(t require.TestingT, until dispatch.Time) {
	for {
		at, who := m.timer, -1
		for id, r := range m.running {
			if r != nil && m.free[id] < at {
				at, who = m.free[id], id
			}
		}
		if at > until {
			m.now = until
			return
		}
		m.now = at
		if who < 0 {
			m.timer = dispatch.Never
			m.step(t, dispatch.Event{Kind: dispatch.Timer})
			continue
		}
		m.running[who] = nil
		m.step(t, dispatch.Event{Kind: dispatch.ExecutorFree, Executor: dispatch.ExecutorID(who)})
	}
}

func (m *machines) up(t require.TestingT, group int32) {
	m.of, m.free, m.running = append(m.of, group), append(m.free, 0), append(m.running, nil)
	m.step(t, dispatch.Event{Kind: dispatch.ExecutorUp, Executor: dispatch.ExecutorID(len(m.of) - 1), Group: group})
}

func newMachines(groups []tc.Group, p dispatch.Policy) *machines {
	return &machines{p: p, groups: groups, timer: dispatch.Never,
		due: map[dispatch.RequestID]dispatch.Request{}, ended: map[dispatch.RequestID]dispatch.Time{}}
}

func (m *machines) arrive(t require.TestingT, r dispatch.Request) {
	m.due[r.ID] = r
	m.step(t, dispatch.Event{Kind: dispatch.Arrive, Request: r})
}

func drawGroups(t *rapid.T) []tc.Group {
	groups := make([]tc.Group, rapid.IntRange(1, 3).Draw(t, "groups"))
	for i := range groups {
		batch := rapid.IntRange(1, 8).Draw(t, "batch")
		groups[i] = tc.Group{Batch: batch, Window: time.Duration(rapid.IntRange(0, 50).Draw(t, "window")) * time.Millisecond}
		for n := range batch {
			groups[i].Durations = append(groups[i].Durations, time.Duration(10+n*5)*time.Millisecond)
		}
		groups[i].Duration = groups[i].Durations[batch-1]
	}
	return groups
}

// TestEachRequestEndsOnce: under every policy and whatever comes and goes, a request starts once
// or is dropped once, on an executor that is up and idle and in time, no more wait than may, and
// none waits for ever.
func TestEachRequestEndsOnce(t *testing.T) {
	for _, policy := range append(pipelines.Dispatches(pipelines.KindPipeline), roundrobin.ByRatio) {
		t.Run(policy, func(t *testing.T) { rapid.Check(t, func(t *rapid.T) { endsOnce(t, policy) }) })
	}
}

func endsOnce(t *rapid.T, policy string) {
	o := Module{Policy: policy, Groups: drawGroups(t), SLO: 100 * ms, MaxQueue: rapid.SampledFrom([]int{0, 1, 5}).Draw(t, "max")}
	o.Early = rapid.SampledFrom([]tc.EarlyStart{tc.EarlyNever, tc.EarlyWithinPromise, tc.EarlyAlways}).Draw(t, "early")
	spec, err := Policies(nil).Spec(o)
	require.NoError(t, err)
	p, err := New(spec)
	require.NoError(t, err)
	m := newMachines(o.Groups, p)
	for i := range rapid.IntRange(1, 80).Draw(t, "events") {
		m.advance(t, m.now+time.Duration(rapid.IntRange(0, 20).Draw(t, "pause"))*time.Millisecond)
		switch rapid.IntRange(0, 9).Draw(t, "event") {
		case 0:
			m.up(t, int32(rapid.IntRange(0, len(m.groups)-1).Draw(t, "group")))
		case 1:
			if len(m.of) == 0 {
				continue
			}
			id := rapid.IntRange(0, len(m.of)-1).Draw(t, "gone")
			m.running[id], m.of[id] = nil, -1
			m.step(t, dispatch.Event{Kind: dispatch.ExecutorGone, Executor: dispatch.ExecutorID(id)})
		case 2:
			id := dispatch.RequestID(rapid.IntRange(0, i).Draw(t, "cancelled"))
			delete(m.due, id)
			m.step(t, dispatch.Event{Kind: dispatch.Cancel, Request: dispatch.Request{ID: id}})
		default:
			r := dispatch.Request{ID: dispatch.RequestID(i), Arrival: m.now}
			if rapid.Bool().Draw(t, "hurried") {
				r.Deadline = m.now + time.Duration(rapid.IntRange(0, 100).Draw(t, "slo"))*time.Millisecond
			}
			m.arrive(t, r)
			require.True(t, o.MaxQueue == 0 || p.Len() <= o.MaxQueue, "more wait than may: %d", p.Len())
		}
	}
	m.up(t, 0)
	m.advance(t, m.now+time.Hour)
	require.Empty(t, m.due, "a request waits for ever")
}

// TestWorstCases: requests that come evenly, at nine tenths of what the machines of one
// configuration can do, are answered within twice the duration under round robin, and within
// d + b/w, rounded up by a request, in batches (Theorem 1).
func TestWorstCases(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		group := drawGroups(t)[:1]
		n, batches := rapid.IntRange(1, 6).Draw(t, "machines"), rapid.Bool().Draw(t, "batches")
		d, b := group[0].Duration, float64(group[0].Batch)
		rate := 0.9 * float64(n) * b / d.Seconds()
		gap := time.Duration(1e9 / rate)
		worst := 2*d + gap
		if batches {
			group[0].Window = time.Duration(b / rate * 1e9)
			worst = d + group[0].Window + gap
		}
		m := newMachines(group, roundrobin.New(roundrobin.Options{Groups: group, Batches: batches}))
		for range n {
			m.up(t, 0)
		}
		for i := range 300 {
			at := time.Duration(math.Round(float64(i) / rate * 1e9))
			m.advance(t, at)
			m.arrive(t, dispatch.Request{ID: dispatch.RequestID(i), Arrival: at})
		}
		m.advance(t, m.now+time.Hour)
		for i := range 300 {
			at := time.Duration(math.Round(float64(i) / rate * 1e9))
			require.LessOrEqual(t, m.ended[dispatch.RequestID(i)]-at, worst, fmt.Sprint("request ", i))
		}
	})
}
