package admission

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// maxMin is the twin: the weighted max-min shares of a capacity among demands, by
// filling all at once until each has what it asks for.
func maxMin(capacity float64, weights, demands []float64) []float64 {
	got := make([]float64, len(weights))
	for range weights {
		weight := 0.0
		for i := range got {
			if got[i] < demands[i] {
				weight += weights[i]
			}
		}
		if weight == 0 || capacity < 1e-9 {
			break
		}
		level := math.Inf(1)
		for i := range got {
			if got[i] < demands[i] {
				level = min(level, (demands[i]-got[i])/weights[i], capacity/weight)
			}
		}
		for i := range got {
			if got[i] < demands[i] {
				got[i] += level * weights[i]
				capacity -= level * weights[i]
			}
		}
	}
	return got
}

// Nobody gets less than its weighted share because of what others send, whoever sends
// how much in which order, at a queue with room for a few requests that begins them in
// order of arrival.
func TestNobodyIsBroughtBelowItsShare(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 5).Draw(t, "callers")
		room := rapid.IntRange(n, 60).Draw(t, "room")
		capacity := rapid.IntRange(1, 20).Draw(t, "begins each step")
		weights, rates := make([]float64, n), make([]int, n)
		for i := range weights {
			weights[i] = float64(rapid.IntRange(1, 4).Draw(t, "weight"))
			rates[i] = rapid.IntRange(0, 60).Draw(t, "comes each step")
		}
		const steps = 300
		shuffle := rand.New(rand.NewPCG(0, rapid.Uint64().Draw(t, "seed")))
		var s Shares
		var queue []*Entry
		sent, begun := make([]float64, n), make([]float64, n)
		for range steps {
			var order []int
			for i, r := range rates {
				order = append(order, slices.Repeat([]int{i}, r)...)
			}
			shuffle.Shuffle(len(order), func(i, k int) { order[i], order[k] = order[k], order[i] })
			for _, i := range order {
				sent[i]++
				name := fmt.Sprint(i)
				full := len(queue) == room
				if full {
					out := s.Displace(name, weights[i])
					if out == nil {
						continue
					}
					queue = slices.DeleteFunc(queue, func(e *Entry) bool { return e == out })
				}
				e := &Entry{Holder: i}
				s.Enter(name, weights[i], e, full)
				queue = append(queue, e)
			}
			for _, e := range queue[:min(capacity, len(queue))] {
				begun[e.Holder.(int)]++
				e.Leave()
			}
			queue = queue[min(capacity, len(queue)):]
		}
		// Of each step only what the room holds can be begun.
		shares := maxMin(steps*float64(min(capacity, room)), weights, sent)
		for i := range begun {
			require.GreaterOrEqual(t, begun[i], shares[i]-float64(2*burst+room), "caller %d of weights %v, rates %v, room %d, capacity %d: %v, shares %v", i, weights, rates, room, capacity, begun, shares)
		}
	})
}

// Whoever was idle is owed a burst and no more, and gives way again when it has had it.
func TestAnIdleCallerIsOwedABurst(t *testing.T) {
	var s Shares
	for range 1000 {
		var e Entry
		s.Enter("flood", 1, &e, false)
		e.Leave()
	}
	for range 100 {
		s.Enter("flood", 1, new(Entry), false)
	}
	taken := 0
	for s.Owed("late", 1) {
		require.NotNil(t, s.Displace("late", 1))
		s.Enter("late", 1, new(Entry), true)
		taken++
	}
	assert.InDelta(t, (100+burst)/2, taken, 1, "half of what waits, and what it is owed")
	assert.Nil(t, s.Displace("flood", 1))
	assert.NotNil(t, s.Displace("heavy", 4))
}

// Whoever makes others give way pays for it, also with requests that nothing can serve.
func TestRoomIsPaidForInVain(t *testing.T) {
	var s Shares
	for range 100 {
		s.Enter("honest", 1, new(Entry), false)
	}
	lost := 0
	for s.Displace("spoiler", 1) != nil {
		lost++
	}
	assert.LessOrEqual(t, lost, 50)
}

// Room is kept of those that have their share, for those that have not, and for as long
// as it is needed.
func TestRoomIsKeptForThoseBelowTheirShares(t *testing.T) {
	var s Shares
	for range 100 {
		var e Entry
		s.Enter("flood", 1, &e, false)
		e.Leave()
	}
	s.Refused(0, "flood", 1, 80)
	room := func(now Time, name string) float64 {
		left, full := s.Room(now, name, 1)
		assert.InDelta(t, map[bool]float64{true: 80}[left > 0], full, 1e-9)
		return left
	}
	assert.Zero(t, room(0, "flood"), "it has had its share")
	for range 3 {
		s.Refused(0, "quiet", 1, 80)
	}
	assert.Zero(t, room(0, "quiet"))
	assert.InDelta(t, 3.0/16, room(0, "flood"), 1e-9)
	assert.InDelta(t, 1.5/16, room(5*time.Second, "flood"), 1e-9)
	for range 100 {
		s.Refused(time.Hour, "quiet", 1, 80)
	}
	assert.InDelta(t, 0.5, room(time.Hour, "flood"), 1e-9)
}

// What a caller loses while nobody else has anything under way, as with an engine that is killed, keeps no room; and
// what is kept is given up in the end, with what was learned.
func TestRoomIsKeptFromNobodyForAFault(t *testing.T) {
	var s Shares
	for range 100 {
		var e Entry
		s.Enter("busy", 1, &e, false)
		e.End()
		e.End()
	}
	var one, other Entry
	s.Enter("quiet", 1, &one, false)
	s.Refused(0, "quiet", 1, 1)
	left, _ := s.Room(0, "busy", 1)
	assert.Zero(t, left)
	s.Enter("busy", 1, &other, false)
	s.Refused(0, "quiet", 1, 2)
	left, full := s.Room(0, "busy", 1)
	assert.InDelta(t, 1.0/16, left, 1e-9)
	assert.InDelta(t, 2, full, 1e-9)
	left, full = s.Room(10500*ms, "busy", 1)
	assert.Zero(t, left)
	assert.Zero(t, full)
	s.Refused(11*time.Second, "quiet", 1, 90)
	_, full = s.Room(11*time.Second, "busy", 1)
	assert.InDelta(t, 90, full, 1e-9)
	one.End()
	other.End()
	assert.Zero(t, s.under)
}

func TestLeavingTwiceChangesNothing(t *testing.T) {
	var s Shares
	var a, b Entry
	a.Leave()
	s.Enter("x", 1, &a, false)
	s.Enter("x", 1, &b, false)
	b.Leave()
	b.Leave()
	for range 40 {
		var e Entry
		s.Enter("x", 1, &e, false)
		e.Leave()
	}
	require.Same(t, &a, s.Displace("y", 1))
	require.Nil(t, s.Displace("y", 1), "nobody waits")
}

func TestSharesTakeNoMemoryForEach(t *testing.T) {
	var s Shares
	var e Entry
	s.Enter("x", 1, &e, false)
	e.Leave()
	require.Zero(t, testing.AllocsPerRun(100, func() {
		s.Enter("x", 1, &e, false)
		e.Leave()
		s.Displace("x", 1)
	}))
}
