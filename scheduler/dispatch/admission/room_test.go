package admission

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A batch that begins makes no room: it takes the device for as long as it runs. Room comes as
// time passes.
func TestRoomComesAsTimePasses(t *testing.T) {
	var c Controller
	n := c.Add(single(100 * ms))
	const now, due = 1000 * ms, 1100 * ms
	for range 20 {
		require.True(t, c.Admit(now, n, due))
		c.enter(n, 0)
	}
	assert.False(t, c.Peek(now, n, due))
	c.Start(now, n, 0, 0, 4)
	assert.False(t, c.Peek(now, n, due))
	assert.True(t, c.Admit(now+5*ms, n, due+5*ms))
	c.enter(n, 0)
	assert.False(t, c.Peek(now+5*ms, n, due+5*ms), "there was time for one more")
}

// What is above comes to a device when a batch there ends, and the device idles until then.
func TestADeviceIdlesUntilWorkComes(t *testing.T) {
	for begun, want := range map[Time]bool{0: true, ms: false} { // 10 + 15 + 15 ms, which work alone says of both
		var c Controller
		n := c.Add(Service{SLO: 40 * ms, Modules: []Module{
			{Items: 1, Down: []int{1}, Groups: []Group{{Share: 1, Durations: []Time{10 * ms}, Devices: []int{0}}}},
			{Items: 1, Feeders: 1, Groups: []Group{{Share: 1, Durations: []Time{15 * ms}, Devices: []int{1}}}},
		}})
		require.True(t, c.Admit(0, n, 40*ms))
		c.enter(n, 0)
		c.Start(begun, n, 0, 0, 1)
		assert.Equal(t, want, c.Peek(begun, n, 40*ms), begun)
	}
}

// Batches beside each other on a device take their time of it together: two of 20 ms at a time
// are one every 10 ms.
func TestBatchesBesideEachOther(t *testing.T) {
	var c Controller
	n := c.Add(Service{SLO: 60 * ms, Modules: []Module{
		{Items: 1, Groups: []Group{{Share: 1, Durations: []Time{20 * ms}, Devices: []int{0, 0}}}},
	}})
	for range 6 {
		require.True(t, c.Admit(0, n, 60*ms))
		c.enter(n, 0)
	}
	assert.False(t, c.Peek(0, n, 60*ms))
}

// Where devices are quicker than they are judged by, they do not idle for it.
func TestQuickDevicesDoNotIdle(t *testing.T) {
	var c Controller
	n := c.Add(single(100 * ms))
	now, waiting, done := Time(0), 0, 0
	for range 20000 { // a request every 100 µs, and a batch of four every 4 ms: five times as quick
		now += ms / 10
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
}
