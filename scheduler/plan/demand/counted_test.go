package demand

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// stream is groups that use a stream of a request a millisecond, and the
// schedules that a plan would write for them.
type stream struct {
	groups    []Group
	durations []float64
	rooms     []int
}

const perSecond = 1000.0

// drawStream divides the stream; batches are as full as their room, or less.
func drawStream(t *rapid.T, full bool) stream {
	var s stream
	left := 60
	for n := rapid.IntRange(1, 3).Draw(t, "groups"); n > 0; n-- {
		part := left
		if n > 1 {
			part = rapid.IntRange(1, left-n+1).Draw(t, "part")
		}
		left -= part
		room := rapid.IntRange(1, 12).Draw(t, "room")
		fill := float64(room)
		if !full {
			fill = rapid.Float64Range(0.2, 1).Draw(t, "full") * fill
		}
		rate := perSecond * float64(part) / 60
		s.groups = append(s.groups, Group{Batch: fill, Period: fill / rate})
		s.rooms = append(s.rooms, room)
		s.durations = append(s.durations, 0.001*float64(rapid.IntRange(0, 40).Draw(t, "duration")))
	}
	return s
}

// schedules promise the latency; times are rounded as plans round them.
func (s stream) schedules(latency float64) []Schedule {
	var all []Schedule
	for i, g := range s.groups {
		all = append(all, Schedule{
			Room:   s.rooms[i],
			Period: time.Duration(g.Period * 1e9),
			Window: time.Duration((latency-s.durations[i])*1e9 + 2),
		})
	}
	return all
}

// Full batches keep for single requests what the test says of a fluid, without
// any margin; batches that are not full keep it with one inter-arrival time.
func TestSingleRequestsKeepWhatTheTestSays(t *testing.T) {
	for _, full := range []bool{true, false} {
		rapid.Check(t, func(t *rapid.T) {
			s := drawStream(t, full)
			least := Least(perSecond, s.groups, s.durations)
			if least > 10 {
				return
			}
			margin := 0.0
			if !full && len(s.groups) > 1 {
				margin = 1 / perSecond
			}
			kept, _ := Counted(perSecond, s.schedules(least+margin), 3000)
			require.True(t, kept)
		})
	}
}

// A group that takes 3.93 requests in the time of 3.93 has room for three in
// some batches, and the other group has none to spare.
func TestSingleRequestsMayNeedMore(t *testing.T) {
	const rate = 243.1
	groups := []Schedule{
		{Room: 4, Period: 49376 * time.Microsecond, Window: 16177 * time.Microsecond},
		{Room: 4, Period: 24473 * time.Microsecond, Window: 41080 * time.Microsecond},
	}
	kept, _ := Counted(rate, groups, 8000)
	assert.False(t, kept)
	for i := range groups {
		groups[i].Window += time.Second * 10 / 2431
	}
	kept, _ = Counted(rate, groups, 8000)
	assert.True(t, kept)
}

func TestSchedulesThatBeginAnewAreKeptForEver(t *testing.T) {
	kept, always := Counted(100, []Schedule{{Room: 4, Period: 40 * time.Millisecond, Window: 40 * time.Millisecond}}, 100)
	assert.True(t, kept)
	assert.True(t, always)
	kept, _ = Counted(100, []Schedule{{Room: 3, Period: 40 * time.Millisecond, Window: 40 * time.Millisecond}}, 100)
	assert.False(t, kept, "four requests come while three are taken")
	kept, _ = Counted(100, []Schedule{{Room: 1}}, 100)
	assert.True(t, kept, "batches without end")
	kept, _ = Counted(100, nil, 1)
	assert.False(t, kept)
}

func TestRequestsManyBatchesApartAreCountedAtOnce(t *testing.T) {
	groups := []Schedule{
		{Room: 4, Period: time.Millisecond, Window: time.Millisecond},
		{Room: 2, Period: 7 * time.Microsecond, Window: 2 * time.Millisecond},
	}
	kept, _ := Counted(1e-6, groups, 8000)
	assert.True(t, kept, "one request in twelve days")
	kept, _ = Counted(1e-12, groups, 8000)
	assert.True(t, kept, "the second comes when an int64 has no nanoseconds left")
}
