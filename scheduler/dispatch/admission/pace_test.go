package admission

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// pressed is a service to which ten times as many come as its device can do: 5 ms each.
func pressed() (*Controller, *service, int) {
	var c Controller
	n := c.Add(single(100 * ms))
	s := c.services[0]
	s.estimate(0)
	s.meter.Rate, s.meter.Samples = 2000, 100
	return &c, s, n
}

// While half of the work for which there is time waits, requests are taken in no faster than
// paceOver of what the device does, beyond what a lull of an objective has left: whoever waits
// little or long, and whatever is begun meanwhile.
func TestTakesInAsDevicesDoThem(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, s, n := pressed()
		gap := s.gap()
		require.InDelta(t, float64(5*ms)/paceOver, float64(gap), 1e4)
		now, waiting := Time(0), 0
		var taken []Time
		for range rapid.IntRange(1, 300).Draw(t, "steps") {
			now += Time(rapid.IntRange(0, 3000).Draw(t, "passes")) * 1000
			s.meter.Rate = 2000
			if waiting >= 4 && rapid.IntRange(0, 9).Draw(t, "begins") == 0 {
				waiting -= 4
				c.Start(now, n, 0, 0, 4)
				c.Returned(n, 0, 4, now) // an instant later: the device is as quick as can be
			}
			held := now < s.next
			if c.Admit(now, n, now+100*ms) {
				c.enter(n, 0)
				waiting++
				if held {
					d := &s.devices[0]
					left := float64(100*ms) - s.kept()*float64(100*ms-d.lead)
					require.LessOrEqual(t, float64(waiting-1)*d.request, pacedRoom*(left-float64(d.lead)-d.request)+1, "taken in before its time")
					continue
				}
				taken = append(taken, now)
			}
		}
		for i := range taken {
			for k := i + 1; k < len(taken); k++ {
				require.LessOrEqual(t, float64(k-i-1)*float64(gap)*0.99, float64(taken[k]-taken[i]+100*ms), "from %v to %v", taken[i], taken[k])
			}
		}
	})
}

// After the queue was full, room that a batch has made is not given away at once, and is as
// time passes.
func TestRoomIsNotGivenAwayAtOnce(t *testing.T) {
	c, _, n := pressed()
	const now, due = 1000 * ms, 1100 * ms
	waiting := 0
	for c.Admit(now, n, due) {
		c.enter(n, 0)
		waiting++
	}
	require.Equal(t, 18, waiting, "after a lull as many as there is time for")
	c.Start(now, n, 0, 0, 4)
	assert.True(t, c.Admit(now, n, due), "the first")
	c.enter(n, 0)
	assert.False(t, c.Would(now, n, due), "there is time for one more")
	assert.True(t, c.Would(now+5*ms, n, due+5*ms))
	c.Hurry(now, n)
	assert.True(t, c.Admit(now, n, due), "in the place of another")
	assert.False(t, c.Would(now, n, due))
	c.Hurry(now, n+1) // gone
}

// Where the pace is judged by devices that are slower than the real ones, these do not idle.
func TestDevicesDoNotIdleForThePace(t *testing.T) {
	c, s, n := pressed()
	now, waiting, done := Time(0), 0, 0
	for range 20000 { // a request every 100 µs, and a batch of four every 4 ms: five times as quick
		now += ms / 10
		s.meter.Rate = 10000
		if now%(4*ms) == 0 && waiting > 0 {
			k := min(4, waiting)
			waiting, done = waiting-k, done+k
			c.Start(now, n, 0, 0, k)
			c.Returned(n, 0, k, now)
			for range k {
				c.Leave(now, n, now+50*ms, InTime)
			}
		}
		if c.Admit(now, n, now+100*ms) {
			c.enter(n, 0)
			waiting++
		}
	}
	assert.InDelta(t, 2000, done, 20, "every batch is full")
	assert.LessOrEqual(t, s.next, now+s.gap(), "none waits longer once there is a queue")
}

// Even requests that a device can do are all taken in, whatever part of it they take.
func TestThePaceTurnsNoneAwayThatCanBeDone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, s, _ := pressed()
		s.meter.Rate = rapid.Float64Range(1, 200*paceOver).Draw(t, "rate")
		between := Time(1e9 / s.meter.Rate)
		for now := Time(0); now < 2000*ms; now += between {
			require.LessOrEqual(t, s.next, now)
			s.pace(now)
		}
		assert.NotNil(t, c)
	})
}
