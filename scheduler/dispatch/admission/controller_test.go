package admission

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

const ms = time.Millisecond

// One module: batches of up to four take 10, 15, 18 and 20 ms on one device.
func single(slo Time) Service {
	return Service{SLO: slo, Modules: []Module{{
		Items: 1, Groups: []Group{{Share: 1, Durations: []Time{10 * ms, 15 * ms, 18 * ms, 20 * ms}, Devices: []int{0}}},
	}}}
}

func TestTakesInWhatCanBeInTime(t *testing.T) {
	var c Controller
	n := c.Add(single(100 * ms))
	taken := 0
	for range 100 {
		if c.Admit(0, n, 100*ms) {
			taken++
			c.enter(n, 0)
		}
	}
	assert.Equal(t, 20, taken, "five full batches of 20 ms")
	c.Start(0, n, 0, 0, 4)
	assert.False(t, c.Admit(0, n, 100*ms), "what runs is not done yet")
	assert.True(t, c.Admit(5*ms, n, 105*ms), "a quarter of it is")
	c.enter(n, 0)
	assert.False(t, c.Admit(5*ms, n, 105*ms))
}

// Requests that come before any item of the others waits are distinguished all the
// same.
func TestChargesARequestWhenItIsAdmitted(t *testing.T) {
	var c Controller
	n := c.Add(single(100 * ms))
	taken := 0
	for c.Admit(0, n, 100*ms) {
		taken++
	}
	assert.Equal(t, 20, taken, "as many as when each waits before the next comes")
	c.enter(n, 0)
	assert.False(t, c.Admit(0, n, 100*ms), "to wait changes nothing")
	c.Enter(n)
	c.Leave(0, n, 100*ms, GivenUp)
	assert.True(t, c.Admit(0, n, 100*ms), "what has left without an item is given back")
}

// enter puts the first item of a request that was admitted into a queue.
func (c *Controller) enter(number, module int) {
	c.AddWaiting(number, module, 1)
	c.Enter(number)
}

// A batch that took far longer than the objective is no guide for longer than one that took as long.
func TestAHostThatStoodStillIsForgotten(t *testing.T) {
	var c Controller
	n := c.Add(single(100 * ms))
	c.Learn(0, n, 0, 0, 1, 10*ms, 5*time.Second)
	require.True(t, c.Admit(0, n, 10*time.Second), "alone")
	c.enter(n, 0)
	require.False(t, c.Admit(ms, n, 101*ms))
	require.True(t, c.Admit(1300*ms, n, 1400*ms))
}

func TestTakesInLessWhereBatchesTakeLonger(t *testing.T) {
	var c Controller
	n := c.Add(single(100 * ms))
	require.True(t, c.Admit(0, n, 100*ms))
	c.enter(n, 0)
	for i := range 32 {
		c.Learn(Time(i)*ms, n, 0, 0, 4, 40*ms, 40*ms)
	}
	taken := 1
	for c.Admit(40*ms, n, 140*ms) {
		taken++
		c.enter(n, 0)
	}
	assert.Equal(t, 10, taken, "10 ms each")
	late := 40*ms + 10*time.Second
	c.Learn(late, n, 0, 0, 4, 20*ms, 20*ms)
	assert.Equal(t, 1.0, c.services[0].modules[0].paces[0].Scale(late+time.Hour), "what was long ago is forgotten")
}

func TestAlwaysTriesOne(t *testing.T) {
	var c Controller
	n := c.Add(single(5 * ms))
	assert.True(t, c.Admit(0, n, 5*ms), "nothing is under way")
	assert.False(t, c.Admit(0, n, 5*ms))
	c.Enter(n)
	c.Leave(6*ms, n, 5*ms, GivenUp)
	assert.True(t, c.Admit(7*ms, n, 12*ms))
	assert.True(t, c.Admit(7*ms, n, 0), "no deadline")
	assert.True(t, c.Admit(7*ms, 99, 12*ms), "not known")
}

func TestWhatIsDueLaterDoesNotCount(t *testing.T) {
	var c Controller
	soon, later := c.Add(single(100*ms)), c.Add(single(10*time.Second))
	for range 1000 {
		require.True(t, c.Admit(0, later, 10*time.Second))
		c.enter(later, 0)
	}
	assert.True(t, c.Admit(0, soon, 100*ms), "5 s of work, but not before that")
	c.enter(soon, 0)
	assert.True(t, c.Admit(0, soon, 100*ms))
	now := 9950 * ms
	assert.False(t, c.Admit(now, soon, now+100*ms), "now it is due first")
	c.Remove(later)
	assert.True(t, c.Admit(now, soon, now+100*ms))
}

func TestCountsWorkOfModulesBelow(t *testing.T) {
	var c Controller
	table := []Time{10 * ms}
	n := c.Add(Service{SLO: 200 * ms, Modules: []Module{
		{Items: 1, Down: []int{1}, Groups: []Group{{Share: 1, Durations: table, Devices: []int{0}}}},
		{Items: 3, Feeders: 1, Groups: []Group{{Share: 1, Durations: table, Devices: []int{1}}}},
	}})
	taken := 0
	for c.Admit(0, n, 200*ms) {
		taken++
		c.enter(n, 0)
	}
	assert.Equal(t, 6, taken, "the second device needs 30 ms for each, and 10 ms more for its last batch")
	c.Start(0, n, 0, 0, 1)
	c.Returned(n, 0, 1, 0)
	c.AddWaiting(n, 1, 3)
	assert.False(t, c.Admit(0, n, 200*ms), "what has moved on still waits there")
	c.Start(0, n, 1, 0, 3)
	c.Returned(n, 1, 3, 0)
	assert.True(t, c.Admit(0, n, 200*ms))
}

// Late answers raise the reserve; a request that finds an idle device is taken in all
// the same, and one that would not is refused.
func TestTakesInWhatFindsAnIdleDevice(t *testing.T) {
	var c Controller
	s := single(15 * ms)
	s.Modules[0].Groups[0].Devices = []int{0, 1}
	n, other := c.Add(s), c.Add(single(15*ms))
	for range 200 {
		require.True(t, c.Admit(0, n, 15*ms))
		c.Enter(n)
		c.Leave(0, n, 15*ms, Late)
	}
	require.InDelta(t, reserveMost, c.services[0].reserve, 0.01)
	require.True(t, c.Admit(0, n, 15*ms))
	assert.True(t, c.Peek(0, n, 15*ms), "one of two devices idles")
	require.True(t, c.Admit(0, other, 15*ms))
	c.enter(other, 0)
	c.Start(0, other, 0, 0, 1)
	assert.False(t, c.Peek(0, n, 15*ms), "another service is on that one")
}

// A device that does 200 a second in full batches is pressed by half as many again, also where
// they are refused, and not by what it can do.
func TestPressureFollowsWhatComes(t *testing.T) {
	var c Controller
	n := c.Add(single(100 * ms))
	s := c.services[0]
	s.estimate(0)
	assert.Zero(t, s.pressure())
	now := Time(0)
	come := func(gap Time) {
		for end := now + 10*time.Second; now < end; now += gap {
			if c.Admit(now, n, now+100*ms) {
				c.Enter(n)
				c.Leave(now, n, now+100*ms, InTime)
			}
		}
	}
	come(6 * ms)
	assert.Zero(t, s.pressure())
	come(5 * ms / 2)
	assert.Equal(t, 1.0, s.pressure())
	come(10 * ms)
	assert.Zero(t, s.pressure())
	for range 8 {
		c.Admit(now, n, now+100*ms)
	}
	for range 10_000 { // refused, at 1000 a second
		now += ms
		require.False(t, c.Peek(now, n, now+ms))
		c.Reject(now, n)
	}
	assert.Equal(t, 1.0, s.pressure())
}

func TestKeepsTimeInReserveWhereAnswersAreLate(t *testing.T) {
	var c Controller
	n := c.Add(single(100 * ms))
	for range 20 {
		require.True(t, c.Admit(0, n, 100*ms))
		c.Enter(n)
		c.Leave(200*ms, n, 100*ms, Late)
	}
	taken := 0
	for c.Admit(time.Second, n, time.Second+100*ms) {
		taken++
		c.enter(n, 0)
	}
	assert.Equal(t, 16, taken, "of 20: 83 ms are given away")
	for range 2000 {
		c.Leave(time.Second, n, time.Second+100*ms, InTime)
		c.under()
	}
	assert.Zero(t, c.services[0].reserve)
}

// under balances the books of a test that lets requests leave which have not come.
func (c *Controller) under() {
	c.services[0].underWay++
	c.services[0].deadlines.all++
}

// Whatever comes and ends, the books return to nothing: also of requests without a
// deadline, and of those that are due beyond what is distinguished.
func TestCountsBalance(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var c Controller
		slo := rapid.SampledFrom([]Time{0, 100 * ms}).Draw(t, "slo")
		n := c.Add(single(slo))
		now := Time(0)
		type request struct {
			due     Time
			entered bool
		}
		var under []request
		leave := func(r request) {
			if !r.entered {
				c.Enter(n)
			} else if rapid.Bool().Draw(t, "computed") {
				c.Start(0, n, 0, 0, 1)
				c.Returned(n, 0, 1, 0)
			} else {
				c.AddWaiting(n, 0, -1)
			}
			c.Leave(now, n, r.due, rapid.SampledFrom([]End{InTime, GivenUp, Late}).Draw(t, "end of it"))
		}
		for range rapid.IntRange(0, 60).Draw(t, "requests") {
			now += Time(rapid.IntRange(0, 50).Draw(t, "gap")) * ms
			due := Time(0)
			if d := rapid.SampledFrom([]int{0, 1, 30, 100, 300, 5000}).Draw(t, "deadline"); d > 0 {
				due = now + Time(d)*ms
			}
			if c.Admit(now, n, due) {
				r := request{due, rapid.Bool().Draw(t, "enters")}
				if r.entered {
					c.enter(n, 0)
				}
				under = append(under, r)
			}
			if len(under) > 0 && rapid.Bool().Draw(t, "end") {
				leave(under[0])
				under = under[1:]
			}
			require.Equal(t, len(under), c.services[0].deadlines.sum())
		}
		for _, r := range under {
			leave(r)
		}
		s := c.services[0]
		require.Zero(t, s.underWay)
		require.Zero(t, s.unqueued)
		require.Zero(t, s.modules[0].waiting)
		require.Zero(t, s.modules[0].running)
		require.Zero(t, s.deadlines.all)
		require.Zero(t, s.deadlines.past)
		require.Zero(t, s.deadlines.counts)
		require.Empty(t, s.deadlines.later)
	})
}

func (h *horizon) sum() int {
	sum := h.past
	for _, n := range h.counts {
		sum += n
	}
	for _, n := range h.later {
		sum += n
	}
	return sum
}

// The share of requests that are due by some time is that of a list of deadlines,
// in buckets.
func TestHorizonAgainstAList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := newHorizon(100 * ms)
		var dues []Time
		now := Time(0)
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			now += Time(rapid.IntRange(0, 400).Draw(t, "gap")) * ms
			if len(dues) > 0 && rapid.Bool().Draw(t, "leave") {
				h.add(now, dues[0], -1)
				dues = dues[1:]
			} else {
				due := Time(0)
				if d := rapid.IntRange(-1, 600).Draw(t, "due"); d >= 0 {
					due = now + Time(d)*ms + 1
				}
				h.add(now, due, 1)
				dues = append(dues, due)
			}
			by := now + Time(rapid.IntRange(0, 600).Draw(t, "by"))*ms + 1
			want := 0
			for _, due := range dues {
				if due != 0 && due/h.width <= by/h.width {
					want++
				}
			}
			if len(dues) > 0 {
				require.Equal(t, float64(want)/float64(len(dues)), h.share(now, by))
			}
		}
	})
}

func BenchmarkAdmit(b *testing.B) {
	var c Controller
	n := c.Add(single(100 * ms))
	b.ReportAllocs()
	for i := range b.N {
		now := Time(i) * time.Microsecond
		if c.Admit(now, n, now+100*ms) {
			c.enter(n, 0)
			c.Start(0, n, 0, 0, 1)
			c.Returned(n, 0, 1, 0)
			c.Leave(now, n, now+100*ms, InTime)
		}
	}
}

// One batch that took longer than the objective, such as one of a machine that stood
// still, shuts the door for as long as it takes to see that it was one, not for sixteen
// more batches of single requests.
func TestAnOutlierDoesNotShutTheDoor(t *testing.T) {
	var c Controller
	n := c.Add(single(100 * ms))
	for i := range 20 {
		c.Learn(Time(i)*ms, n, 0, 0, 1, 10*ms, 10*ms)
	}
	c.Learn(20*ms, n, 0, 0, 1, 10*ms, 3*time.Second)
	room := func(now Time) (taken int) {
		for c.Admit(now, n, now+100*ms) {
			taken++
		}
		for range taken {
			c.Enter(n)
			c.Leave(now, n, now+100*ms, InTime)
		}
		return taken
	}
	assert.Equal(t, 1, room(30*ms), "while it stands for what batches take")
	assert.Equal(t, 20, room(4*time.Second), "nothing has come that would say otherwise")
	c.Learn(4*time.Second, n, 0, 0, 1, 10*ms, 10*ms)
	assert.Equal(t, 20, room(4*time.Second+2*estimateFor))
}

// The same where requests go on coming one at a time.
func TestAnOutlierIsOutweighed(t *testing.T) {
	var c Controller
	n := c.Add(single(100 * ms))
	c.Learn(ms, n, 0, 0, 1, 10*ms, 10*ms)
	c.Learn(2*ms, n, 0, 0, 1, 10*ms, 3*time.Second)
	now := Time(0)
	for i := range 30 {
		now = Time(i+1) * 300 * ms
		require.True(t, c.Admit(now, n, now+100*ms), "one is always tried")
		second := c.Peek(now, n, now+100*ms)
		c.Enter(n)
		c.Learn(now+10*ms, n, 0, 0, 1, 10*ms, 10*ms)
		c.Leave(now+10*ms, n, now+100*ms, InTime)
		if second {
			break
		}
	}
	assert.Less(t, now, 8*time.Second)
}
