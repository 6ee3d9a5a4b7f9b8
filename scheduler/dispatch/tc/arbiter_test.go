package tc

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/harpagon/harpagon/scheduler/dispatch"
)

func TestArbiterStartsEarlyWhereNobodyNeedsIt(t *testing.T) {
	var d Arbiter
	a, b := d.Add(), d.Add()
	d.Need(a, 50*ms, dispatch.Reservation{Period: 40 * ms, Window: 50 * ms})

	ok, again := d.Ask(b, 0, 60*ms, 0, false)
	assert.False(t, ok, "a may need it at 50 ms")
	assert.Equal(t, 50*ms+1, again)
	ok, _ = d.Ask(b, 51*ms, 90*ms, 0, false)
	assert.True(t, ok, "a did not; it may do so at 90 ms")
	ok, again = d.Ask(b, 52*ms, 53*ms, 0, false)
	assert.False(t, ok, "it is promised")
	assert.Equal(t, never, again)
	d.Begin()
	assert.False(t, d.Idle())
	d.End()
	assert.True(t, d.Idle())

	d.Need(b, 100*ms, dispatch.Reservation{Period: 200 * ms})
	ok, _ = d.Ask(a, 91*ms, 101*ms, 0, false)
	assert.False(t, ok, "b needs it at 100 ms")
	d.Remove(b)
	ok, _ = d.Ask(a, 91*ms, 101*ms, 0, false)
	assert.True(t, ok, "a comes at 130 ms")
	d.Clear()
	assert.Equal(t, b, d.Add(), "numbers are used again")
}

func TestArbiterTakesWhatItsGroupsBear(t *testing.T) {
	var d Arbiter
	a, b, c := d.Add(), d.Add(), d.Add()
	d.Need(a, 0, dispatch.Reservation{Duration: 1 * ms, Period: 100 * ms, Deadline: 11 * ms})
	d.Need(b, 0, dispatch.Reservation{Duration: 20 * ms, Period: 100 * ms, Deadline: 100 * ms})
	ok, _ := d.Ask(c, 0, 10*ms, 0, false)
	assert.True(t, ok, "a has 10 ms to spare, b 79 ms, however soon they come")
	d.Begin()
	d.End()
	ok, again := d.Ask(c, 0, 10*ms+1, 0, false)
	assert.False(t, ok, "a could be late")
	assert.Equal(t, dispatch.Time(1), again)
	d.NeedNothing(a)
	ok, _ = d.Ask(c, 0, 80*ms, 0, false)
	assert.True(t, ok, "b alone has 80 ms to spare")
}

// A batch that is one more than its group counts on is done when the group's next may be due;
// the next one itself may be begun before.
func TestArbiterKeepsExecutorsFreeForTheirNext(t *testing.T) {
	var d Arbiter
	a := d.Add()
	d.Need(a, 30*ms, dispatch.Reservation{Duration: 20 * ms, Period: 100 * ms, Deadline: 100 * ms, Window: 100 * ms})
	ok, again := d.Ask(a, 20*ms, 40*ms, 0, false)
	assert.False(t, ok)
	assert.Equal(t, 30*ms+1, again)
	ok, _ = d.Ask(a, 20*ms, 40*ms, 0, true)
	assert.True(t, ok)
}

// A schedule that has passed a batch may begin again with the next request, and need the device
// one window after it.
func TestArbiterExpectsSchedulesThatBeginAnew(t *testing.T) {
	var d Arbiter
	a, b := d.Add(), d.Add()
	d.Need(a, 0, dispatch.Reservation{Period: 100 * ms, Window: 10 * ms})
	ok, again := d.Ask(b, 20*ms, 31*ms, 0, false)
	assert.False(t, ok)
	assert.Equal(t, 100*ms+1, again)
	ok, _ = d.Ask(b, 20*ms, 30*ms, 0, false)
	assert.True(t, ok)
}

func TestArbiterAsksTheMostUrgentFirst(t *testing.T) {
	var d Arbiter
	a, b, c := d.Add(), d.Add(), d.Add()
	d.Begin()
	for executor, due := range map[int]dispatch.Time{a: 30 * ms, b: 10 * ms, c: 20 * ms} {
		ok, again := d.Ask(executor, 0, 5*ms, due, false)
		assert.False(t, ok)
		assert.Equal(t, never, again)
	}
	assert.Equal(t, -1, d.Next(), "the device is busy")
	d.End()
	assert.Equal(t, []int{b, c, a, -1}, []int{d.Next(), d.Next(), d.Next(), d.Next()})
}

func TestDeviceOfNobodyIsFree(t *testing.T) {
	var d Arbiter
	ok, _ := d.Ask(d.Add(), 0, never-1, 0, false)
	assert.True(t, ok)
}

// One executor, batches of two every 100 ms, due 60 ms after they open.
func early(duration dispatch.Time) dispatch.Policy {
	p := New(Options{Early: EarlyWithinPromise, Groups: []Group{{Batch: 2, Window: 60 * ms, Duration: duration, Period: 100 * ms}}})
	p.Step(0, dispatch.Event{Kind: dispatch.ExecutorUp}, nil)
	return p
}

func TestTCStartsEarlyWhereTheScheduleAllows(t *testing.T) {
	for _, c := range []struct {
		why      string
		duration dispatch.Time
		at       dispatch.Time // when it starts
	}{
		{"it is back before the batch is due", 60 * ms, 0},
		{"it would not be back before the batch is due", 61 * ms, 60 * ms},
	} {
		p := early(c.duration)
		out := p.Step(0, arrive(1, 0, 0), nil)
		if c.at > 0 {
			assert.Equal(t, []dispatch.Action{{Act: dispatch.SetTimer, At: c.at}}, out, c.why)
			out = p.Step(c.at, dispatch.Event{Kind: dispatch.Timer}, nil)
		}
		assert.Equal(t, []dispatch.Action{{Act: dispatch.Start, Batch: []dispatch.RequestID{1}}}, out, c.why)
	}
}

func TestTCTakesRequestsBeforeTheirVirtualArrival(t *testing.T) {
	p := early(60 * ms)
	out := p.Step(0, arrive(1, 80*ms, 0), nil)
	assert.Equal(t, []dispatch.Action{{Act: dispatch.Start, Batch: []dispatch.RequestID{1}}}, out)
	out = p.Step(10*ms, arrive(2, 90*ms, 0), nil)
	assert.Equal(t, []dispatch.Action{{Act: dispatch.SetTimer, At: 90 * ms}}, out, "the executor is busy")
	out = p.Step(60*ms, dispatch.Event{Kind: dispatch.ExecutorFree}, nil)
	assert.Equal(t, []dispatch.Action{{Act: dispatch.Start, Batch: []dispatch.RequestID{2}}}, out)
}

// shared is a policy whose executor 0 is a user of an arbitrated device.
type shared struct {
	dispatch.Policy
	device *Arbiter
	user   int
}

func asks(d *Arbiter, batch Group) shared {
	p := New(Options{Early: EarlyWithinPromise, Shared: true, Groups: []Group{batch}})
	return shared{p, d, d.Add()}
}

// Step plays the driver: it passes actions on to the arbiter and returns the others.
func (s shared) Step(now dispatch.Time, ev dispatch.Event, out []dispatch.Action) []dispatch.Action {
	for ev.Kind != 0 {
		step := s.Policy.Step(now, ev, nil)
		ev = dispatch.Event{}
		for _, a := range step {
			switch a.Act {
			case dispatch.Need:
				s.device.Need(s.user, a.At, *a.Reservation)
			case dispatch.Release:
				s.device.Release()
			case dispatch.Ask:
				ok, again := s.device.Ask(s.user, now, a.At, a.Due, a.Reservation != nil)
				if ev = (dispatch.Event{Kind: dispatch.Refused, Executor: a.Executor, At: again}); ok {
					ev = dispatch.Event{Kind: dispatch.Granted, Executor: a.Executor}
				}
			default:
				out = append(out, a)
			}
		}
	}
	return out
}

func TestTCAsksBeforeItStartsEarlyOnASharedDevice(t *testing.T) {
	var d Arbiter
	other := d.Add()
	p := asks(&d, Group{Batch: 2, Window: 60 * ms, Duration: 30 * ms, Period: 60 * ms, Deadline: 50 * ms})
	d.Need(other, 20*ms, dispatch.Reservation{Duration: 20 * ms, Period: 100 * ms, Deadline: 30 * ms, Window: 100 * ms})
	p.Step(0, dispatch.Event{Kind: dispatch.ExecutorUp}, nil)
	out := p.Step(0, arrive(1, 0, 0), nil)
	assert.Equal(t, []dispatch.Action{{Act: dispatch.SetTimer, At: 20*ms + 1}}, out, "the other may need it in 20 ms")
	out = p.Step(10*ms, arrive(2, 10*ms, 0), nil)
	assert.Empty(t, out, "nor does a full batch start before it is due")
	out = p.Step(20*ms+1, dispatch.Event{Kind: dispatch.Timer}, nil)
	assert.Equal(t, []dispatch.Action{{Act: dispatch.Start, Batch: []dispatch.RequestID{1, 2}, Due: 110 * ms}}, out)
}

// Where the next request begins the schedule again, the policy does not ask again and again
// for a batch that is longer than the window.
func TestTCDoesNotAskForWhatItsOwnScheduleForbids(t *testing.T) {
	var d Arbiter
	other := d.Add()
	d.Need(other, 80*ms, dispatch.Reservation{Duration: 20 * ms, Period: 100 * ms, Deadline: 30 * ms, Window: 100 * ms})
	p := asks(&d, Group{Batch: 1, Window: 1, Duration: 10 * ms, Period: 40 * ms, Deadline: 50 * ms})
	p.Step(0, dispatch.Event{Kind: dispatch.ExecutorUp}, nil)
	out := p.Step(5*ms, arrive(1, 9*ms, 100*ms), nil)
	assert.Equal(t, []dispatch.Action{{Act: dispatch.SetTimer, At: 9 * ms}}, out, "its virtual arrival")
	assert.Empty(t, p.Step(5*ms+1, arrive(2, 30*ms, 120*ms), nil), "no timer of a nanosecond")
	assert.Equal(t, dispatch.Start, p.Step(9*ms+1, dispatch.Event{Kind: dispatch.Timer}, nil)[0].Act)
}

// An answer may come late: the policy goes on meanwhile, and gives back what it cannot use.
func TestTCNeedNotBeAnsweredAtOnce(t *testing.T) {
	group := Group{Batch: 2, Window: 60 * ms, Duration: 30 * ms, Period: 60 * ms, Deadline: 50 * ms}
	fresh := func() dispatch.Policy {
		p := New(Options{Early: EarlyWithinPromise, Shared: true, Groups: []Group{group}})
		p.Step(0, dispatch.Event{Kind: dispatch.ExecutorUp}, nil)
		out := p.Step(0, arrive(1, 0, 100*ms), nil)
		assert.Equal(t, []dispatch.Action{{Act: dispatch.Ask, At: 30 * ms, Due: 100 * ms}}, out)
		return p
	}
	granted := dispatch.Event{Kind: dispatch.Granted}

	p := fresh()
	out := p.Step(0, granted, nil)
	assert.Equal(t, dispatch.Action{Act: dispatch.Start, Batch: []dispatch.RequestID{1}}, out[0])

	p = fresh()
	out = p.Step(5*ms, granted, nil)
	assert.Equal(t, dispatch.Action{Act: dispatch.Release}, out[0], "it would end later than what was granted")

	p = fresh()
	assert.Equal(t, []dispatch.Action{{Act: dispatch.SetTimer, At: 60 * ms}}, p.Step(0, dispatch.Event{Kind: dispatch.Refused, At: never}, nil))

	p = fresh()
	p.Step(0, dispatch.Event{Kind: dispatch.Cancel, Request: dispatch.Request{ID: 1}}, nil)
	assert.Contains(t, p.Step(0, granted, nil), dispatch.Action{Act: dispatch.Release}, "nothing waits any more")

	p = fresh()
	p.Step(0, dispatch.Event{Kind: dispatch.ExecutorGone}, nil)
	assert.Contains(t, p.Step(0, granted, nil), dispatch.Action{Act: dispatch.Release}, "there is nothing to run it on")
	out = p.Step(0, dispatch.Event{Kind: dispatch.ExecutorUp}, nil)
	assert.Equal(t, dispatch.Ask, out[len(out)-1].Act, "the policy asks for the new executor's device")

	p = fresh()
	out = p.Step(60*ms, dispatch.Event{Kind: dispatch.Timer}, nil)
	assert.Equal(t, dispatch.Action{Act: dispatch.Start, Batch: []dispatch.RequestID{1}, Due: 110 * ms}, out[0], "what is due starts without a grant")
	assert.Contains(t, p.Step(60*ms, granted, nil), dispatch.Action{Act: dispatch.Release})
}
