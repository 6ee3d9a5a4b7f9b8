package shared

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// poolDriver plays the part of a gateway for a cluster and keeps books on what a
// policy promises.
type poolDriver struct {
	t       *rapid.T
	p       dispatch.Policy
	o       Options
	fair    bool // batches take the first of the line; not so where lines are dealt out
	now     dispatch.Time
	back    dispatch.Time // how far the clock that the policy sees stands behind
	timer   dispatch.Time
	nextID  dispatch.RequestID
	waiting map[dispatch.RequestID]dispatch.Request
	execs   map[dispatch.ExecutorID]*pipe
	ending  map[dispatch.RequestID]bool // in this step
}

// pipe is an executor and the batches on their way to it: when each ends.
type pipe struct {
	group int32
	ends  []dispatch.Time
}

func (d *poolDriver) step(ev dispatch.Event) {
	actions := d.p.Step(d.now-d.back, ev, nil)
	ended := map[dispatch.RequestID]bool{}
	var late []dispatch.Request
	for _, a := range actions {
		for _, id := range append(a.Batch, a.Request) {
			ended[id] = true
		}
		if a.Act == dispatch.Drop && a.Reason == dispatch.Late {
			late = append(late, d.waiting[a.Request])
		}
	}
	d.ending = ended
	for _, a := range actions {
		switch a.Act {
		case dispatch.SetTimer:
			require.GreaterOrEqual(d.t, a.At, d.now, "a timer in the past")
			d.timer = a.At
		case dispatch.Drop:
			d.end(a.Request)
		case dispatch.Start:
			d.start(a)
		}
	}
	require.Equal(d.t, len(d.waiting), d.p.Len())
	for _, r := range late {
		d.hopeless(r)
	}
	if d.timer <= d.now {
		return
	}
	for _, a := range d.p.Step(d.now-d.back, dispatch.Event{}, nil) {
		require.NotEqual(d.t, dispatch.Start, a.Act, "the step before could have done so: %v", a)
		switch a.Act {
		case dispatch.SetTimer:
			d.timer = a.At
		case dispatch.Drop:
			d.end(a.Request)
		}
	}
}

// hopeless reports that no executor that idles could have done a request that was dropped
// as late. Under nexus only that of its session could, which only a lone one is for sure.
func (d *poolDriver) hopeless(r dispatch.Request) {
	if d.p.Name() == "nexus" && len(d.execs) > 1 {
		return
	}
	m := d.o.Models[r.Class]
	for id, e := range d.execs {
		table := m.Durations
		if int(e.group) < len(m.Groups) {
			table = m.Groups[e.group]
		}
		if len(e.ends) == 0 && d.back == 0 {
			require.Greater(d.t, d.now+d.o.Delay.Of(1)+table[0], r.Deadline, "request %d was dropped while executor %d idled", r.ID, id)
		}
	}
}

func (d *poolDriver) end(id dispatch.RequestID) dispatch.Request {
	r, waits := d.waiting[id]
	require.True(d.t, waits, "request %d ended twice", id)
	delete(d.waiting, id)
	return r
}

func (d *poolDriver) start(a dispatch.Action) {
	e := d.execs[a.Executor]
	require.NotNil(d.t, e, "started on executor %d, which is not up", a.Executor)
	begin := d.now + d.o.Delay.Of(len(a.Batch))
	if d.o.Delay == (dispatch.Delay{}) {
		require.Empty(d.t, e.ends, "started on executor %d, which is busy", a.Executor)
	} else if len(e.ends) > 0 {
		require.Len(d.t, e.ends, 1, "a second batch was sent ahead to executor %d", a.Executor)
		begin = max(begin, e.ends[0])
	}
	require.Equal(d.t, e.group, a.Group)
	m := d.o.Models[a.Class]
	table := m.Durations
	if int(a.Group) < len(m.Groups) {
		table = m.Groups[a.Group]
	}
	require.NotEmpty(d.t, a.Batch)
	require.LessOrEqual(d.t, len(a.Batch), len(table))
	done := begin + newProfile(table).of(len(a.Batch))
	if d.o.Delay != (dispatch.Delay{}) {
		require.Equal(d.t, begin, a.At)
	}
	latest := dispatch.Time(0)
	for _, id := range a.Batch {
		r := d.end(id)
		require.Equal(d.t, a.Class, r.Class)
		require.LessOrEqual(d.t, done, r.Deadline, "request %d started too late", id)
		require.GreaterOrEqual(d.t, r.Deadline, latest, "a batch keeps the order of deadlines")
		latest = r.Deadline
	}
	if d.fair {
		for _, r := range d.waiting {
			if r.Class == a.Class && !d.ending[r.ID] {
				require.GreaterOrEqual(d.t, r.Deadline, latest, "request %d was passed over", r.ID)
			}
		}
	}
	e.ends = append(e.ends, done)
}

// advance lets time pass to the limit, with all that happens until then.
func (d *poolDriver) advance(limit dispatch.Time) {
	for {
		next, who := d.timer, dispatch.ExecutorID(-1)
		for id := dispatch.ExecutorID(0); id < 8; id++ {
			if e := d.execs[id]; e != nil && len(e.ends) > 0 && e.ends[0] <= next {
				next, who = e.ends[0], id
			}
		}
		if next > limit || next == never {
			break
		}
		d.now = max(d.now, next)
		if who >= 0 {
			d.execs[who].ends = d.execs[who].ends[1:]
			d.step(dispatch.Event{Kind: dispatch.ExecutorFree, Executor: who})
			continue
		}
		d.timer = never
		d.step(dispatch.Event{Kind: dispatch.Timer})
	}
	d.now = max(d.now, limit)
}

func drawOptions(t *rapid.T) Options {
	var o Options
	table := func() []time.Duration {
		return Linear(time.Duration(rapid.IntRange(0, 5).Draw(t, "each"))*ms, time.Duration(rapid.IntRange(1, 20).Draw(t, "fixed"))*ms, rapid.IntRange(1, 9).Draw(t, "largest"))
	}
	groups := rapid.IntRange(0, 2).Draw(t, "groups")
	for range rapid.IntRange(1, 4).Draw(t, "models") {
		m := Model{Durations: table(), SLO: time.Duration(rapid.IntRange(26, 150).Draw(t, "slo")) * ms}
		for range groups {
			m.Groups = append(m.Groups, table())
		}
		if rapid.Bool().Draw(t, "rated") {
			m.Rate = rapid.Float64Range(1, 500).Draw(t, "rate")
		}
		o.Models = append(o.Models, m)
	}
	if rapid.Bool().Draw(t, "bounded") {
		o.MaxQueue = rapid.IntRange(1, 10).Draw(t, "max")
	}
	if rapid.Bool().Draw(t, "remote") {
		o.Delay = dispatch.Delay{Control: time.Duration(rapid.IntRange(0, 3).Draw(t, "control")) * ms, PerRequest: time.Duration(rapid.IntRange(0, 500).Draw(t, "data")) * time.Microsecond}
	}
	o.Margin = time.Duration(rapid.IntRange(0, 2).Draw(t, "margin")) * ms
	return o
}

// TestPolicyPromises plays random stories to every cluster policy: each request
// ends once, no batch is too large, starts on a busy executor or ends late, none is
// dropped as late that an idle executor could still do, no step leaves a start
// to the next one without a timer, each class is served in the order of deadlines, and no
// request waits for ever, whatever the clock does.
func TestPolicyPromises(t *testing.T) {
	policies := map[string]func(Options) dispatch.Policy{
		"early":      func(o Options) dispatch.Policy { return NewDeferred(DeferredOptions{Options: o, Drop: EarlyDrop}) },
		"head":       func(o Options) dispatch.Policy { return NewDeferred(DeferredOptions{Options: o, Drop: HeadDrop}) },
		"betalambda": func(o Options) dispatch.Policy { return NewDeferred(DeferredOptions{Options: o, Ready: BetaLambda}) },
	}
	for _, name := range Names() {
		policies[name] = func(o Options) dispatch.Policy { p, _ := New(name, o); return p }
	}
	for name, build := range policies {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				o := drawOptions(t)
				require.NoError(t, o.Check())
				d := &poolDriver{t: t, p: build(o), o: o, timer: never, waiting: map[dispatch.RequestID]dispatch.Request{}, execs: map[dispatch.ExecutorID]*pipe{}}
				d.fair = name != "nexus" && name != "clockwork"
				d.play()
			})
		})
	}
}

func (d *poolDriver) play() {
	d.t.Repeat(map[string]func(*rapid.T){
		"arrive": func(t *rapid.T) {
			class := int32(rapid.IntRange(0, len(d.o.Models)-1).Draw(t, "class"))
			for range rapid.IntRange(1, 12).Draw(t, "burst") {
				d.nextID++
				slo := d.o.Models[class].SLO
				if rapid.IntRange(0, 5).Draw(t, "hurry") == 0 {
					slo = slo / 2
				}
				r := dispatch.Request{ID: d.nextID, Class: class, Arrival: d.now, Deadline: d.now + slo}
				d.waiting[r.ID] = r
				d.step(dispatch.Event{Kind: dispatch.Arrive, Request: r})
			}
		},
		"cancel": func(t *rapid.T) {
			id := dispatch.RequestID(rapid.IntRange(1, int(d.nextID)+1).Draw(t, "id"))
			r := dispatch.Request{ID: id}
			if was, ok := d.waiting[id]; ok && rapid.Bool().Draw(t, "hint") {
				r = was
			}
			delete(d.waiting, id)
			d.step(dispatch.Event{Kind: dispatch.Cancel, Request: r})
		},
		"up": func(t *rapid.T) {
			id := dispatch.ExecutorID(rapid.IntRange(0, 5).Draw(t, "executor"))
			group := int32(rapid.IntRange(0, max(0, len(d.o.Models[0].Groups)-1)).Draw(t, "group"))
			d.execs[id] = &pipe{group: group}
			d.step(dispatch.Event{Kind: dispatch.ExecutorUp, Executor: id, Group: group})
		},
		"gone": func(t *rapid.T) {
			id := dispatch.ExecutorID(rapid.IntRange(0, 5).Draw(t, "executor"))
			delete(d.execs, id)
			d.step(dispatch.Event{Kind: dispatch.ExecutorGone, Executor: id})
		},
		"pass": func(t *rapid.T) {
			d.advance(d.now + time.Duration(rapid.IntRange(0, 60_000).Draw(t, "time"))*time.Microsecond)
		},
		"jump back": func(t *rapid.T) {
			d.back = time.Duration(rapid.IntRange(0, 1000).Draw(t, "by")) * ms
			d.step(dispatch.Event{Kind: dispatch.Timer})
			d.back = 0
		},
		"nonsense": func(t *rapid.T) {
			d.step(dispatch.Event{Kind: dispatch.ExecutorFree, Executor: dispatch.ExecutorID(rapid.IntRange(6, 9).Draw(t, "unknown"))})
			d.step(dispatch.Event{})
		},
	})
	d.advance(d.now + time.Minute)
	require.Empty(d.t, d.waiting, "a request waits for ever")
}

// TestCancellationLeavesNoTrace plays a story twice, once with guests that
// arrive and are cancelled in between: the others meet the same fate.
func TestCancellationLeavesNoTrace(t *testing.T) {
	builds := []func(Options) dispatch.Policy{newEager, func(o Options) dispatch.Policy { return NewDeferred(DeferredOptions{Options: o, Drop: HeadDrop}) }}
	rapid.Check(t, func(t *rapid.T) {
		build := rapid.SampledFrom(builds).Draw(t, "policy")
		o := Options{Models: []Model{{Durations: Linear(2*ms, 10*ms, 4), SLO: 80 * ms}}}
		var fates [2][]dispatch.Action
		waits := rapid.SliceOfN(rapid.IntRange(0, 30), 1, 40).Draw(t, "waits")
		guests := rapid.SliceOfN(rapid.Bool(), len(waits), len(waits)).Draw(t, "guests")
		for run := range fates {
			p, now, busy := build(o), dispatch.Time(0), dispatch.Time(-1)
			play := func(ev dispatch.Event) {
				for _, a := range p.Step(now, ev, nil) {
					if a.Act == dispatch.Start {
						busy = now + Linear(2*ms, 10*ms, 4)[len(a.Batch)-1]
						a.Batch = append([]dispatch.RequestID(nil), a.Batch...)
					}
					if a.Act != dispatch.SetTimer {
						fates[run] = append(fates[run], a)
					}
				}
			}
			play(dispatch.Event{Kind: dispatch.ExecutorUp})
			for i, w := range waits {
				now += dispatch.Time(w) * ms
				if busy >= 0 && busy <= now {
					busy = -1
					play(dispatch.Event{Kind: dispatch.ExecutorFree})
				}
				play(dispatch.Event{Kind: dispatch.Timer})
				if run == 1 && guests[i] && busy >= 0 { // beside a busy executor a guest cannot start
					id := dispatch.RequestID(1000 + i)
					play(arrive(id, now, now+80*ms))
					play(dispatch.Event{Kind: dispatch.Cancel, Request: dispatch.Request{ID: id}})
				}
				play(arrive(dispatch.RequestID(i), now, now+80*ms))
			}
		}
		require.Equal(t, fates[0], fates[1])
	})
}

// TestMillionsOfExpiriesLeaveNothing lets requests expire unserved and looks
// at every counter afterwards.
func TestMillionsOfExpiriesLeaveNothing(t *testing.T) {
	for _, name := range Names() {
		o := Options{Models: []Model{{Durations: Linear(ms, 5*ms, 8), SLO: 20 * ms}, {Durations: Linear(ms, 5*ms, 8), SLO: 30 * ms}}}
		p, err := New(name, o)
		require.NoError(t, err)
		p.Step(0, dispatch.Event{Kind: dispatch.ExecutorUp}, nil)
		p.Step(0, dispatch.Event{Kind: dispatch.ExecutorUp, Executor: 1}, nil)
		var out []dispatch.Action
		started, dropped := 0, 0
		now := dispatch.Time(0)
		const n = 400_000
		for i := range n {
			now += 10 * time.Microsecond
			ev := arrive(dispatch.RequestID(i), now, 0)
			ev.Request.Class = int32(i % 2)
			out = p.Step(now, ev, out[:0])
			for _, a := range out {
				started += len(a.Batch)
				if a.Act == dispatch.Drop {
					dropped++
				}
			}
		}
		for _, a := range p.Step(now+time.Second, dispatch.Event{Kind: dispatch.Timer}, nil) {
			if a.Act == dispatch.Drop {
				dropped++
			}
		}
		require.Equal(t, n, started+dropped, name)
		require.Zero(t, p.Len(), name)
		if a, ok := p.(*adaptive); ok {
			require.Zero(t, a.Wakes.Len()+a.Ready.Len()+a.Held.Len())
			require.LessOrEqual(t, len(a.Lines[0].Buf), 8192)
		}
		if d, ok := p.(*deferred); ok {
			require.Zero(t, d.Wakes.Len()+d.Ready.Len())
		}
	}
}
