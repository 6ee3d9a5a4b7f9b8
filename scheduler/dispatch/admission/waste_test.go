package admission

import (
	"testing"

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
// after the other on each device, behind those that wait and run. A twin plays that: it lets
// what runs end as evenly as it can, so that the two differ by less than one batch.
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
		c.Wait(n, 0, running+waiting)
		c.Start(n, 0, running)
		free := make([]Time, devices)
		for d := range running {
			free[d] = Time(d+1) * 10 * ms / Time(devices)
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
		assert.True(t, c.Fits(ms, n, 0, k, end+11*ms), "%v", end)
		assert.False(t, c.Fits(ms, n, 0, k, end-9*ms), "%v", end)
		if running == 0 && k <= devices {
			assert.True(t, c.Fits(ms, n, 0, k, 11*ms), "who finds idle devices is in time")
		}
		assert.True(t, c.Fits(0, n, 0, 0, 1))
		assert.True(t, c.Fits(0, n, 0, k, 0), "without a deadline")
	})
}
