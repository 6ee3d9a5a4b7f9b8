package demand

import (
	"math"
	"math/rand/v2"
	"testing"

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

// keeps reports whether every request finds a batch where the groups promise the latency and
// release their first batches with the first request: each goes to the batch that is due
// first of those that are released and have room.
func (s stream) keeps(requests []float64, latency float64) bool {
	const tiny = 1e-9
	released, held := make([]float64, len(s.groups)), make([]int, len(s.groups))
	for _, at := range requests {
		best, first := -1, math.Inf(1)
		for i, g := range s.groups {
			window := latency - s.durations[i]
			for released[i]+window < at-tiny {
				released[i], held[i] = released[i]+g.Period, 0
			}
			if due := released[i] + window; released[i] <= at+tiny && due < first {
				best, first = i, due
			}
		}
		if best < 0 {
			return false
		}
		if held[best]++; held[best] == s.rooms[best] {
			released[best], held[best] = released[best]+s.groups[best].Period, 0
		}
	}
	return true
}

// even are requests a millisecond apart.
func even(n int) (list []float64) {
	for i := range n {
		list = append(list, float64(i)/perSecond)
	}
	return list
}

// late are requests of which some come later, and all after them.
func late(t *rapid.T, n int) []float64 {
	r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
	often, long := r.Float64(), 3*r.Float64()
	list, later := even(n), 0.0
	for i := range list {
		if r.Float64() < often {
			later += r.Float64() * long / perSecond
		}
		list[i] += later
	}
	return list
}

// One inter-arrival time more than the test says of a fluid is enough for single requests,
// however late some come. Full batches of an even stream need none of it.
func TestSingleRequestsKeepWhatTheTestSays(t *testing.T) {
	for _, full := range []bool{true, false} {
		rapid.Check(t, func(t *rapid.T) {
			s := drawStream(t, full)
			least := Least(perSecond, s.groups, s.durations)
			if least > 10 {
				return
			}
			require.True(t, s.keeps(even(3000), least+1/perSecond))
			require.True(t, s.keeps(late(t, 3000), least+1/perSecond))
			require.True(t, !full || s.keeps(even(3000), least))
		})
	}
}

// A group that takes 3.93 requests in the time of 3.93 has room for three in some batches,
// and the other group has none to spare.
func TestSingleRequestsMayNeedMore(t *testing.T) {
	const gap = 1 / 243.1
	s := stream{
		groups:    []Group{{Period: 0.049376}, {Period: 0.024473}},
		durations: []float64{-0.016177, -0.041080},
		rooms:     []int{4, 4},
	}
	var requests []float64
	for i := range 8000 {
		requests = append(requests, float64(i)*gap)
	}
	assert.False(t, s.keeps(requests, 0))
	assert.True(t, s.keeps(requests, gap))
}

// Batches that even requests fill, without a margin, lose room while none comes.
func TestLateRequestsNeedMoreOfFullBatches(t *testing.T) {
	s := stream{
		groups:    []Group{{Batch: 1, Period: 0.006}, {Batch: 2, Period: 0.0024}},
		durations: []float64{0.0024, 0.0064},
		rooms:     []int{1, 2},
	}
	least := Least(perSecond, s.groups, s.durations)
	assert.InDelta(t, 0.0086, least, 1e-9)
	requests := even(100)
	assert.True(t, s.keeps(requests, least))
	for i := range requests {
		if i > 0 {
			requests[i] += 0.0002
		}
		if i > 2 {
			requests[i] += 0.0005
		}
	}
	assert.False(t, s.keeps(requests, least))
	assert.True(t, s.keeps(requests, least+1/perSecond))
}
