package admission

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// What is wasted is kept in reserve where more come than can be done, and nothing while no
// more do; it goes again as nothing more is wasted.
func TestKeepsWhatIsWastedInReserve(t *testing.T) {
	var c Controller
	n := c.Add(single(100 * ms))
	s := c.services[0]
	c.Spent(0, n, 0, false)
	assert.Zero(t, s.wasted)
	for range 20 {
		c.Spent(0, n, 5*ms, false) // 5 ms of the device each, in full batches
	}
	assert.InDelta(t, 20.0/wasteWeight, s.wasted, 0.01)
	assert.Zero(t, s.kept(), "no more come than can be done")
	s.meter.Rate = 1000
	assert.InDelta(t, reserveMost, s.kept(), 1e-9)
	for range 20 * wasteWeight {
		c.Spent(0, n, 5*ms, true)
	}
	assert.Less(t, s.kept(), 0.001)
	c.Spent(0, n+1, 5*ms, true) // gone
}

// Whatever is told of, the reserve lies between nothing and its most, and waste between none
// and all.
func TestReserveIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var c Controller
		n := c.Add(single(100 * ms))
		for range rapid.IntRange(1, 200).Draw(t, "ends") {
			c.Spent(0, n, Time(rapid.IntRange(0, 5000).Draw(t, "took"))*ms, rapid.Bool().Draw(t, "useful"))
			c.services[0].meter.Rate = rapid.Float64Range(0, 1e6).Draw(t, "rate")
			kept := c.services[0].kept()
			require.GreaterOrEqual(t, kept, 0.0)
			require.LessOrEqual(t, kept, reserveMost)
		}
	})
}

// Items that a request is split into fit as long as all can be done by the deadline, one
// after the other on each device, behind those that wait, and behind what runs for as long
// as that still takes. A twin plays that.
func TestFitsAgainstATwin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		devices := rapid.IntRange(1, 4).Draw(t, "devices")
		g := Group{Share: 1, Durations: []Time{10 * ms}}
		for d := range devices {
			g.Devices = append(g.Devices, d)
		}
		var c Controller
		n := c.Add(Service{SLO: 100 * ms, Modules: []Module{{Items: 1, Groups: []Group{g}}}})
		running := rapid.IntRange(0, devices).Draw(t, "running")
		waiting := 0
		if running == devices {
			waiting = rapid.IntRange(0, 6).Draw(t, "waiting")
		}
		c.AddWaiting(n, 0, running+waiting)
		free := make([]Time, devices)
		const now = 10 * ms
		for d := range free {
			free[d] = now
			if d < running {
				at := Time(rapid.IntRange(0, 10).Draw(t, "begun")) * ms
				c.Start(at, n, 0, 0, 1)
				free[d] = at + 10*ms
			}
		}
		k := rapid.IntRange(1, 6).Draw(t, "k")
		end := Time(0)
		for range waiting + k {
			first := 0
			for d := range free {
				if free[d] < free[first] {
					first = d
				}
			}
			free[first] += 10 * ms
			end = free[first]
		}
		assert.True(t, c.Fits(now, n, 0, k, end), "%v", end)
		assert.False(t, c.Fits(now, n, 0, k, end-1), "%v", end)
		assert.True(t, c.Fits(0, n, 0, 0, 1))
		assert.True(t, c.Fits(0, n, 0, k, 0), "without a deadline")
	})
}

// What has ended, or been lost, is in nobody's way.
func TestWhatHasEndedDoesNotCountForFits(t *testing.T) {
	var c Controller
	n := c.Add(single(100 * ms))
	c.AddWaiting(n, 0, 7)
	c.Start(0, n, 0, 0, 4)
	assert.False(t, c.Fits(0, n, 0, 1, 29*ms))
	assert.True(t, c.Fits(0, n, 0, 1, 30*ms), "behind what runs, with what waits")
	c.Returned(n, 0, 3, 0)
	assert.False(t, c.Fits(0, n, 0, 1, 29*ms))
	c.Returned(n, 0, 1, 0)
	assert.True(t, c.Fits(0, n, 0, 1, 10*ms))
	c.Returned(n, 0, 1, 5*ms) // begun before anybody knew
	c.Start(0, n, 0, 7, 3)    // of a group that is not there
	assert.True(t, c.Fits(0, n, 0, 1, 10*ms))
}

// A request with as many items as its plan promises to answer is not given up for what waits.
func TestWhatIsPromisedFits(t *testing.T) {
	var c Controller
	one := single(100 * ms)
	one.Promised, one.Rate, one.Modules[0].Most = true, 10, 4
	n := c.Add(one)
	c.AddWaiting(n, 0, 20)
	assert.True(t, c.Fits(0, n, 0, 4, 60*ms))
	assert.False(t, c.Fits(0, n, 0, 5, 60*ms), "more than that")
	require.True(t, c.Admit(0, n, 100*ms))
	c.Enter(n)
	c.Leave(time.Second, n, 100*ms, Late)
	assert.False(t, c.Fits(time.Second, n, 0, 4, time.Second+60*ms), "a promise that was broken")
}
