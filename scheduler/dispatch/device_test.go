package dispatch

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestDeviceStartsEarlyWhereNobodyNeedsIt(t *testing.T) {
	var d Device
	a, b := d.Add(), d.Add()
	d.Needed(a, 50*ms, 40*ms)

	ok, again := d.Early(b, 0, EarlyBatch{End: 60 * ms})
	assert.False(t, ok, "a may need it at 50 ms")
	assert.Equal(t, 50*ms+1, again)
	ok, _ = d.Early(b, 51*ms, EarlyBatch{End: 90 * ms})
	assert.True(t, ok, "a did not; it may do so at 90 ms")
	ok, again = d.Early(b, 52*ms, EarlyBatch{End: 53 * ms})
	assert.False(t, ok, "it is promised")
	assert.Equal(t, never, again)
	d.Begin()
	assert.False(t, d.Idle())
	d.End()
	assert.True(t, d.Idle())

	d.Needed(b, 100*ms, 200*ms)
	ok, _ = d.Early(a, 91*ms, EarlyBatch{End: 101 * ms})
	assert.False(t, ok, "b needs it at 100 ms")
	d.Remove(b)
	ok, _ = d.Early(a, 91*ms, EarlyBatch{End: 101 * ms})
	assert.True(t, ok, "a comes at 130 ms")
	d.Clear()
	assert.Equal(t, b, d.Add(), "numbers are used again")
}

func TestDeviceTakesWhatItsGroupsBear(t *testing.T) {
	var d Device
	a, b := d.Add(), d.Add()
	d.Reserve(a, DeviceTask{Duration: 1 * ms, Period: 100 * ms, Deadline: 11 * ms})
	d.Reserve(b, DeviceTask{Duration: 20 * ms, Period: 100 * ms, Deadline: 100 * ms})
	d.Needed(a, 0, 100*ms)
	d.Needed(b, 0, 100*ms)
	ok, _ := d.Early(b, 0, EarlyBatch{End: 10 * ms})
	assert.True(t, ok, "a has 10 ms to spare, b 79 ms, however soon they come")
	d.Begin()
	d.End()
	ok, again := d.Early(b, 0, EarlyBatch{End: 10*ms + 1})
	assert.False(t, ok, "a could be late")
	assert.Equal(t, Time(1), again)
	d.Rest(a)
	ok, _ = d.Early(b, 0, EarlyBatch{End: 80 * ms})
	assert.True(t, ok, "b alone has 80 ms to spare")
}

func TestDeviceAsksTheMostUrgentFirst(t *testing.T) {
	var d Device
	a, b, c := d.Add(), d.Add(), d.Add()
	d.Begin()
	for executor, due := range map[int]Time{a: 30 * ms, b: 10 * ms, c: 20 * ms} {
		ok, again := d.Early(executor, 0, EarlyBatch{End: 5 * ms, Due: due})
		assert.False(t, ok)
		assert.Equal(t, never, again)
	}
	assert.Equal(t, -1, d.Turn(), "the device is busy")
	d.End()
	assert.Equal(t, []int{b, c, a, -1}, []int{d.Turn(), d.Turn(), d.Turn(), d.Turn()})
}

func TestDeviceOfNobodyIsFree(t *testing.T) {
	var d Device
	ok, _ := d.Early(d.Add(), 0, EarlyBatch{End: never - 1})
	assert.True(t, ok)
}

// One executor, batches of two every 100 ms, due 60 ms after they open.
func early(duration Time) Policy {
	p := NewTC(TCOptions{Early: EarlyWithinPromise, Groups: []GroupOptions{{Batch: 2, Window: 60 * ms, Duration: duration, Period: 100 * ms}}})
	p.Step(0, Event{Kind: ExecutorUp}, nil)
	return p
}

func TestTCStartsEarlyWhereTheScheduleAllows(t *testing.T) {
	for _, c := range []struct {
		why      string
		duration Time
		at       Time // when it starts
	}{
		{"it is back before the batch is due", 60 * ms, 0},
		{"it would not be back before the batch is due", 61 * ms, 60 * ms},
	} {
		p := early(c.duration)
		out := p.Step(0, arrive(1, 0, 0), nil)
		if c.at > 0 {
			assert.Equal(t, []Action{{Act: SetTimer, At: c.at}}, out, c.why)
			out = p.Step(c.at, Event{Kind: Timer}, nil)
		}
		assert.Equal(t, []Action{{Act: Start, Batch: []RequestID{1}}}, out, c.why)
	}
}

func TestTCTakesRequestsBeforeTheirVirtualArrival(t *testing.T) {
	p := early(60 * ms)
	out := p.Step(0, arrive(1, 80*ms, 0), nil)
	assert.Equal(t, []Action{{Act: Start, Batch: []RequestID{1}}}, out)
	out = p.Step(10*ms, arrive(2, 90*ms, 0), nil)
	assert.Equal(t, []Action{{Act: SetTimer, At: 90 * ms}}, out, "the executor is busy")
	out = p.Step(60*ms, Event{Kind: ExecutorFree}, nil)
	assert.Equal(t, []Action{{Act: Start, Batch: []RequestID{2}}}, out)
}

func TestTCAsksBeforeItStartsEarlyOnASharedDevice(t *testing.T) {
	var d Device
	other := d.Add()
	p := NewTC(TCOptions{Early: EarlyWithinPromise, Sharing: alone{&d, d.Add()}, Groups: []GroupOptions{
		{Batch: 2, Window: 60 * ms, Duration: 30 * ms, Period: 60 * ms, Deadline: 50 * ms},
	}})
	d.Reserve(other, DeviceTask{Duration: 20 * ms, Period: 100 * ms, Deadline: 30 * ms})
	p.Step(0, Event{Kind: ExecutorUp}, nil)
	d.Needed(other, 20*ms, 100*ms)
	out := p.Step(0, arrive(1, 0, 0), nil)
	assert.Equal(t, []Action{{Act: SetTimer, At: 20*ms + 1}}, out, "the other may need it in 20 ms")
	out = p.Step(10*ms, arrive(2, 10*ms, 0), nil)
	assert.Empty(t, out, "nor does a full batch start before it is due")
	out = p.Step(20*ms+1, Event{Kind: Timer}, nil)
	assert.Equal(t, []Action{{Act: Start, Batch: []RequestID{1, 2}}}, out)
}

type alone struct {
	*Device
	number int
}

func (a alone) Reserve(_ ExecutorID, t DeviceTask)   { a.Device.Reserve(a.number, t) }
func (a alone) Alone(ExecutorID) bool                { return a.Device.Alone() }
func (a alone) Needed(_ ExecutorID, at, period Time) { a.Device.Needed(a.number, at, period) }

func (a alone) Early(_ ExecutorID, now Time, b EarlyBatch) (bool, Time) {
	return a.Device.Early(a.number, now, b)
}
