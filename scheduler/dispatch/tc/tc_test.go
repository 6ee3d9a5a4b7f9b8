package tc

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/scheduler/dispatch"
)

const ms = time.Millisecond

func TestTCMendsImpossibleOptions(t *testing.T) {
	p := New(Options{Groups: []Group{{Batch: -3, Window: -ms, Period: -ms, Duration: 10 * ms}}})
	p.Step(0, dispatch.Event{Kind: dispatch.ExecutorUp}, nil)
	out := p.Step(0, arrive(1, 0, 0), nil)
	assert.Equal(t, []dispatch.Action{{Act: dispatch.Start, Batch: []dispatch.RequestID{1}}}, out)

	none := New(Options{})
	out = none.Step(0, arrive(1, 0, 0), nil)
	assert.Equal(t, []dispatch.Action{{Act: dispatch.Drop, Request: 1, Reason: dispatch.Full}}, out, "without groups nothing can be served")
	assert.Equal(t, "tc", none.Name())
}

func TestTCGoesByDurationsOfPartialBatches(t *testing.T) {
	p := New(Options{Groups: []Group{{
		Batch: 4, Window: 100 * ms, Duration: 80 * ms,
		Durations: []time.Duration{20 * ms, 50 * ms, 40 * ms},
	}}})
	p.Step(0, dispatch.Event{Kind: dispatch.ExecutorUp}, nil)
	out := p.Step(0, arrive(1, 0, 25*ms), nil)
	assert.Equal(t, []dispatch.Action{{Act: dispatch.SetTimer, At: 5 * ms}}, out, "alone it takes 20 ms")
	out = p.Step(3*ms, arrive(2, 3*ms, 400*ms), nil)
	assert.Equal(t, []dispatch.Action{{Act: dispatch.Start, Batch: []dispatch.RequestID{1}}}, out, "two take 50 ms, and the second can wait")
}

func TestTCStealsNothingFromRunningExecutors(t *testing.T) {
	p := New(Options{Groups: []Group{{Batch: 1, Duration: 10 * ms}}})
	p.Step(0, dispatch.Event{Kind: dispatch.ExecutorUp, Executor: 3}, nil)
	require.Len(t, p.Step(0, arrive(1, 0, 0), nil), 1)
	assert.Empty(t, p.Step(1*ms, arrive(2, 1*ms, 0), nil))
	assert.Empty(t, p.Step(2*ms, dispatch.Event{Kind: dispatch.ExecutorGone, Executor: 3}, nil))
	assert.Empty(t, p.Step(3*ms, dispatch.Event{Kind: dispatch.ExecutorFree, Executor: 3}, nil), "it is gone; what it reports comes late")
	out := p.Step(4*ms, dispatch.Event{Kind: dispatch.ExecutorUp, Executor: 3}, nil)
	assert.Equal(t, []dispatch.Action{{Act: dispatch.Start, Executor: 3, Batch: []dispatch.RequestID{2}}}, out)
}

// Where a queue stands, requests that nothing has been done for make room, once they could
// not leave what is kept for the modules below, for others that can; a burst that passes
// gives up none, and none is given up for an empty place.
func TestTCGivesUpEarlierWhereAQueueStands(t *testing.T) {
	for name, c := range map[string]struct {
		every dispatch.Time // between requests, of which the executor does one in 10 ms
		lasts dispatch.Time
		below dispatch.Time
		late  bool // some that are given up could have been done by their deadlines
	}{
		"overload": {5 * ms, time.Second, 40 * ms, true},
		"burst":    {1 * ms, 5 * ms, 40 * ms, false},
		"calm":     {11 * ms, time.Second, 40 * ms, false},
		"begun":    {5 * ms, time.Second, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := New(Options{Groups: []Group{{Batch: 1, Duration: 10 * ms}}, Early: EarlyAlways, Below: c.below})
			p.Step(0, dispatch.Event{Kind: dispatch.ExecutorUp}, nil)
			const slo = 100 * ms
			deadline, free, given, done := map[dispatch.RequestID]dispatch.Time{}, dispatch.Never, false, 0
			act := func(now dispatch.Time, out []dispatch.Action) {
				for _, a := range out {
					switch a.Act {
					case dispatch.Start:
						free = now + 10*ms
						require.LessOrEqual(t, free, deadline[a.Batch[0]])
						done++
					case dispatch.Drop:
						given = given || now+10*ms <= deadline[a.Request]
					}
				}
			}
			for i := range int(c.lasts / c.every) {
				now := dispatch.Time(i) * c.every
				for free <= now {
					at := free
					free = dispatch.Never
					act(at, p.Step(at, dispatch.Event{Kind: dispatch.ExecutorFree, Took: 10 * ms}, nil))
				}
				id := dispatch.RequestID(i + 1)
				deadline[id] = now + slo
				act(now, p.Step(now, arrive(id, now, now+slo), nil))
			}
			assert.Equal(t, c.late, given)
			if c.lasts == time.Second && c.every < 10*ms {
				assert.GreaterOrEqual(t, done, 98, "the executor never waits")
			}
		})
	}
}

func arrive(id dispatch.RequestID, at, deadline dispatch.Time) dispatch.Event {
	return dispatch.Event{Kind: dispatch.Arrive, Request: dispatch.Request{ID: id, Arrival: at, Deadline: deadline}}
}

// driver plays the part of a gateway and keeps books on what a policy promises.
type driver struct {
	t       require.TestingT
	p       dispatch.Policy
	groups  []Group
	now     dispatch.Time
	timer   dispatch.Time
	nextID  dispatch.RequestID
	waiting map[dispatch.RequestID]dispatch.Request
	ended   map[dispatch.RequestID]string
	execs   map[dispatch.ExecutorID]*fakeExecutor
}

type fakeExecutor struct {
	group int32
	busy  bool
	done  dispatch.Time
}

func newDriver(t require.TestingT, o Options) *driver {
	return &driver{t: t, p: New(o), groups: o.Groups, timer: never, waiting: map[dispatch.RequestID]dispatch.Request{},
		ended: map[dispatch.RequestID]string{}, execs: map[dispatch.ExecutorID]*fakeExecutor{}}
}

func (d *driver) step(ev dispatch.Event) {
	before := d.now
	var late []dispatch.Request
	free := d.p.(*tc).free()
	for _, a := range d.p.Step(d.now, ev, nil) {
		switch a.Act {
		case dispatch.SetTimer:
			require.GreaterOrEqual(d.t, a.At, before, "a timer in the past")
			d.timer = a.At
		case dispatch.Drop:
			if a.Reason == dispatch.Late {
				late = append(late, d.waiting[a.Request])
			}
			d.end(a.Request, a.Reason.String())
		case dispatch.Start:
			d.start(a)
		}
	}
	require.Equal(d.t, len(d.waiting), d.p.Len())
	d.idleExecutorsLeaveNothingDue()
	for _, r := range late {
		d.hopeless(r, free)
	}
}

// hopeless reports that no executor which idles could have done a request that was dropped
// as late, or that a promise needs it before.
func (d *driver) hopeless(r dispatch.Request, free bool) {
	p := d.p.(*tc)
	for id, e := range d.execs {
		end := d.now + d.groups[e.group].Duration
		if !e.busy && (free || p.canSpare(e.group, end, false)) {
			require.Greater(d.t, end, r.Deadline, "request %d was dropped while executor %d idled", r.ID, id)
		}
	}
}

func (d *driver) end(id dispatch.RequestID, how string) {
	_, waits := d.waiting[id]
	require.True(d.t, waits, "request %d ended by %s after %q", id, how, d.ended[id])
	delete(d.waiting, id)
	d.ended[id] = how
}

func (d *driver) start(a dispatch.Action) {
	e := d.execs[a.Executor]
	require.NotNil(d.t, e, "started on executor %d, which is not up", a.Executor)
	require.False(d.t, e.busy, "started on executor %d, which is busy", a.Executor)
	require.Equal(d.t, e.group, a.Group)
	g := d.groups[a.Group]
	require.NotEmpty(d.t, a.Batch)
	require.LessOrEqual(d.t, len(a.Batch), g.Batch)
	previous := d.waiting[a.Batch[0]]
	for _, id := range a.Batch {
		r := d.waiting[id]
		d.end(id, "started")
		if r.Deadline != 0 {
			require.LessOrEqual(d.t, d.now+g.Duration, r.Deadline, "request %d started too late", id)
		}
		require.LessOrEqual(d.t, previous.Arrival, r.Arrival, "a batch keeps the order of arrival")
		previous = r
	}
	e.busy, e.done = true, d.now+g.Duration
}

// idleExecutorsLeaveNothingDue looks inside: where an executor idles, no full
// batch and none that is due may wait, and the timer stands no later than the
// moment that something will be.
func (d *driver) idleExecutorsLeaveNothingDue() {
	p := d.p.(*tc)
	for i := range p.Groups {
		g := &p.Groups[i]
		require.GreaterOrEqual(d.t, g.Closed, 0)
		require.LessOrEqual(d.t, g.Closed, g.Queue.N)
		require.Less(d.t, g.Queue.N-g.Closed, g.Batch, "a full batch is open")
		if g.Ups == 0 {
			require.Zero(d.t, g.Queue.N, "requests wait in a group without executors")
		}
		if len(g.Idle) == 0 || g.Queue.N == 0 {
			continue
		}
		require.Zero(d.t, g.Closed, "a batch waits beside an idle executor")
		require.Greater(d.t, g.closeAt(0, false), d.now)
		require.LessOrEqual(d.t, d.timer, g.closeAt(0, false), "no timer will wake the group")
	}
}

// advance lets time pass to the next thing that happens, or to the limit.
func (d *driver) advance(limit dispatch.Time) {
	for {
		next, who := min(d.timer, limit), dispatch.ExecutorID(-1)
		for id, e := range d.execs {
			if e.busy && (e.done < next || e.done == next && who >= 0 && id < who) {
				next, who = e.done, id
			}
		}
		d.now = max(d.now, next)
		switch {
		case who >= 0:
			d.execs[who].busy = false
			d.step(dispatch.Event{Kind: dispatch.ExecutorFree, Executor: who})
		case next == d.timer && next < limit:
			d.timer = never
			d.step(dispatch.Event{Kind: dispatch.Timer})
		default:
			return
		}
	}
}

func drawGroups(t *rapid.T) []Group {
	var groups []Group
	for range rapid.IntRange(1, 3).Draw(t, "groups") {
		groups = append(groups, Group{
			Batch:    rapid.IntRange(1, 5).Draw(t, "batch"),
			Window:   time.Duration(rapid.IntRange(0, 100).Draw(t, "window")) * ms,
			Duration: time.Duration(rapid.IntRange(0, 60).Draw(t, "duration")) * ms,
			Period:   time.Duration(rapid.IntRange(0, 100).Draw(t, "period")) * ms,
		})
	}
	return groups
}

func TestTCKeepsItsPromises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := Options{
			Groups:   drawGroups(t),
			MaxQueue: rapid.SampledFrom([]int{0, 1, 5, 50}).Draw(t, "max"),
			Early:    rapid.SampledFrom([]EarlyStart{EarlyNever, EarlyWithinPromise, EarlyAlways}).Draw(t, "early"),
		}
		d := newDriver(t, o)
		for range rapid.IntRange(1, 80).Draw(t, "events") {
			d.advance(d.now + time.Duration(rapid.IntRange(0, 30).Draw(t, "gap"))*ms)
			d.draw(t)
		}
		// In the end, one executor is enough for everything to end.
		if len(d.execs) == 0 {
			d.up(t, 1)
		}
		d.advance(d.now + 10*time.Minute)
		require.Empty(t, d.waiting, "requests wait for ever")
		require.Len(t, d.ended, int(d.nextID))
	})
}

func (d *driver) draw(t *rapid.T) {
	switch rapid.SampledFrom([]string{"arrive", "arrive", "arrive", "cancel", "up", "gone", "stray"}).Draw(t, "event") {
	case "arrive":
		d.nextID++
		r := dispatch.Request{ID: d.nextID, Arrival: d.now + time.Duration(rapid.IntRange(-20, 40).Draw(t, "virtual"))*ms}
		if rapid.Bool().Draw(t, "limited") {
			r.Deadline = d.now + time.Duration(rapid.IntRange(1, 300).Draw(t, "deadline"))*ms
		}
		d.waiting[r.ID] = r
		d.step(dispatch.Event{Kind: dispatch.Arrive, Request: r})
	case "cancel":
		if d.nextID == 0 {
			return
		}
		id := dispatch.RequestID(rapid.IntRange(1, int(d.nextID)).Draw(t, "cancelled"))
		if _, waits := d.waiting[id]; waits {
			d.end(id, "cancelled")
		}
		d.step(dispatch.Event{Kind: dispatch.Cancel, Request: dispatch.Request{ID: id}})
	case "up":
		d.up(t, dispatch.ExecutorID(rapid.IntRange(0, 4).Draw(t, "executor")))
	case "gone":
		id := dispatch.ExecutorID(rapid.IntRange(0, 4).Draw(t, "executor"))
		delete(d.execs, id)
		d.step(dispatch.Event{Kind: dispatch.ExecutorGone, Executor: id})
	case "stray":
		// A late timer and a report of an executor that idles change nothing.
		d.step(dispatch.Event{Kind: dispatch.Timer})
		for id, e := range d.execs {
			if !e.busy {
				d.step(dispatch.Event{Kind: dispatch.ExecutorFree, Executor: id})
				return
			}
		}
	}
}

func (d *driver) up(t *rapid.T, id dispatch.ExecutorID) {
	if d.execs[id] != nil {
		return
	}
	group := int32(rapid.IntRange(0, len(d.groups)-1).Draw(t, "group"))
	d.execs[id] = &fakeExecutor{group: group}
	d.step(dispatch.Event{Kind: dispatch.ExecutorUp, Executor: id, Group: group})
}

// TestTCKeepsUpWithItsPlan plays the plan of Table II, S3 with windows that
// pass the processor-demand test: even arrivals at the planned rate fill every
// batch, and every request is answered within the second.
func TestTCKeepsUpWithItsPlan(t *testing.T) {
	groups := []Group{
		{Batch: 32, Window: 200 * ms, Duration: 800 * ms, Period: 200 * ms},
		{Batch: 8, Window: 750 * ms, Duration: 250 * ms, Period: 250 * ms},
		{Batch: 2, Window: 900 * ms, Duration: 100 * ms, Period: time.Second / 3},
	}
	d := newDriver(t, Options{Groups: groups})
	for i := range 6 {
		group := int32(max(0, i-3))
		d.execs[dispatch.ExecutorID(i)] = &fakeExecutor{group: group}
		d.step(dispatch.Event{Kind: dispatch.ExecutorUp, Executor: dispatch.ExecutorID(i), Group: group})
	}
	for range 198 * 5 {
		d.nextID++
		at := time.Duration(float64(d.nextID) / 198 * float64(time.Second))
		d.advance(at)
		r := dispatch.Request{ID: d.nextID, Arrival: at, Deadline: at + time.Second}
		d.waiting[r.ID] = r
		d.step(dispatch.Event{Kind: dispatch.Arrive, Request: r})
	}
	d.advance(d.now + time.Minute)
	for id, how := range d.ended {
		require.Equal(t, "started", how, "request %d", id)
	}
}

func TestFifoEqualsASortedSlice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q fifo
		var twin []dispatch.Request
		for id := range dispatch.RequestID(rapid.IntRange(0, 100).Draw(t, "steps")) {
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0, 1:
				r := dispatch.Request{ID: id, Arrival: dispatch.Time(rapid.IntRange(0, 20).Draw(t, "arrival"))}
				q.insert(r)
				twin = append(twin, r)
				slices.SortStableFunc(twin, func(a, b dispatch.Request) int { return int(a.Arrival - b.Arrival) })
			case 2:
				if len(twin) > 0 {
					require.Equal(t, twin[0], q.pop())
					twin = twin[1:]
				}
			case 3:
				if len(twin) > 0 {
					i := rapid.IntRange(0, len(twin)-1).Draw(t, "which")
					require.Equal(t, i, q.remove(twin[i].ID))
					twin = slices.Delete(twin, i, i+1)
				}
			}
			require.Equal(t, len(twin), q.N)
			for i := range twin {
				require.Equal(t, twin[i], *q.at(i))
			}
		}
	})
}

// BenchmarkTC measures one request through the policy in steady state: its
// arrival, and its share of a batch's start and end.
func BenchmarkTC(b *testing.B) {
	p := New(Options{Groups: []Group{
		{Batch: 8, Window: 40 * ms, Duration: 20 * ms, Period: 10 * ms},
		{Batch: 2, Window: 40 * ms, Duration: 10 * ms, Period: 10 * ms},
	}})
	for i := range 4 {
		p.Step(0, dispatch.Event{Kind: dispatch.ExecutorUp, Executor: dispatch.ExecutorID(i), Group: int32(i % 2)}, nil)
	}
	var out []dispatch.Action
	var busy []dispatch.ExecutorID
	now := dispatch.Time(0)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		now += ms
		out = p.Step(now, arrive(dispatch.RequestID(i), now, now+200*ms), out[:0])
		for _, a := range out {
			if a.Act == dispatch.Start {
				busy = append(busy, a.Executor)
			}
		}
		if len(busy) == 4 || i%8 == 0 {
			for _, id := range busy {
				out = p.Step(now, dispatch.Event{Kind: dispatch.ExecutorFree, Executor: id}, out[:0])
			}
			busy = busy[:0]
		}
	}
}
