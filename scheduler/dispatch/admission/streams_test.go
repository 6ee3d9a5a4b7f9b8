package admission

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/pipelines"
)

func TestFramesThatComeTooSoon(t *testing.T) {
	for rule, want := range map[string][]string{
		// One goes in at 0, and one at 100.
		pipelines.StaleOldest:    {"enters", "drops", "drops", "waits", "waits, not 3", "waits, not 4", "waits, not 5"},
		pipelines.StaleNewest:    {"enters", "drops", "drops", "waits", "drops", "drops", "drops"},
		pipelines.StaleAlternate: {"enters", "drops", "drops", "waits", "drops", "waits, not 3", "drops"},
	} {
		t.Run(rule, func(t *testing.T) {
			r := StreamRules{pipelines.Stream{Rate: 10, Stale: rule, Count: 1}}
			var s Streams
			s.Open(0, &r, "a")
			var got []string
			for i, at := range []Time{0, 1 * ms, 74 * ms, 75 * ms, 80 * ms, 90 * ms, 99 * ms} {
				v, dropped, until := s.Arrive(at, &r, StreamFrame{Stream: "a", Frame: i})
				text := map[StreamVerdict]string{StreamEnters: "enters", StreamWaits: "waits", StreamDrops: "drops"}[v]
				if dropped != nil {
					text += fmt.Sprintf(", not %v", dropped)
				}
				if v == StreamWaits {
					assert.Equal(t, 100*ms, until)
				}
				got = append(got, text)
			}
			assert.Equal(t, want, got)
		})
	}
	var s Streams
	r := StreamRules{pipelines.Stream{Rate: 10, Count: 1}}
	s.Open(0, &r, "a")
	for at, want := range map[Time]StreamVerdict{0: StreamEnters} {
		v, _, _ := s.Arrive(at, &r, StreamFrame{Stream: "a", Frame: 1})
		assert.Equal(t, want, v)
	}
	v, _, _ := s.Arrive(80*ms, &r, StreamFrame{Stream: "a", Frame: 2, Deadline: 100 * ms})
	assert.Equal(t, StreamDrops, v, "it cannot be in time")
}

// A frame too many costs the stream no more than the next one.
func TestOneFrameTooManyIsForgiven(t *testing.T) {
	for _, at := range []Time{1 * ms, 50 * ms, 76 * ms, 99 * ms} {
		r := StreamRules{pipelines.Stream{Rate: 10, Count: 1}}
		var s Streams
		s.Open(0, &r, "a")
		lost := 0
		for k := range 20 {
			now := Time(k) * 100 * ms
			if s.open["a"] != nil && s.open["a"].held != nil {
				s.Release(now, &r, "a", s.open["a"].held)
			}
			if v, _, _ := s.Arrive(now, &r, StreamFrame{Stream: "a", Frame: k}); v != StreamEnters {
				lost++
			}
			if k == 0 {
				s.Arrive(at, &r, StreamFrame{Stream: "a", Frame: -1})
			}
		}
		assert.LessOrEqual(t, lost, 1, "%v", at)
	}
}

// A stream is over a while after its last frame, or a period after one that says so.
func TestStreamsThatAreOver(t *testing.T) {
	r := StreamRules{pipelines.Stream{Rate: 10, Count: 2}}
	var s Streams
	arrive := func(at Time, name string, last bool) StreamVerdict {
		v, _, _ := s.Arrive(at, &r, StreamFrame{Stream: name, Last: last, Frame: 0})
		return v
	}
	expire := func(at Time) (over []string) { over, _ = s.Expire(at, &r); return over }
	assert.Equal(t, StreamRefused, arrive(0, "a", false))
	s.Open(0, &r, "a")
	s.Open(0, &r, "b")
	assert.Equal(t, StreamEnters, arrive(0, "a", false))
	assert.Equal(t, StreamEnters, arrive(0, "b", true))
	assert.Empty(t, expire(50*ms), "b might have sent until now")
	assert.Equal(t, []string{"b"}, expire(100*ms))
	assert.Empty(t, expire(9*time.Second))
	s.Count("a", true)
	assert.Equal(t, StreamShares{Open: 1, Most: 2, Worst: 1, Median: 1, WorstName: "a"}, s.Shares(&r))
	assert.Equal(t, []string{"a"}, expire(10*time.Second))
	assert.Zero(t, s.Shares(&r).Open)
	_, next := s.Expire(10*time.Second, &r)
	assert.Zero(t, next)
}

// After another plan a stream's frames come at its pace at once, and its silence is that of the plan.
func TestStreamsAtAnotherRate(t *testing.T) {
	slow, fast := StreamRules{pipelines.Stream{Rate: 0.1, Count: 1}}, StreamRules{pipelines.Stream{Rate: 10, Count: 1}}
	var s Streams
	arrive := func(at Time, r *StreamRules) StreamVerdict {
		v, _, _ := s.Arrive(at, r, StreamFrame{Stream: "a", Frame: 0})
		return v
	}
	s.Open(0, &slow, "a")
	assert.Equal(t, StreamEnters, arrive(0, &slow))
	assert.Equal(t, StreamDrops, arrive(time.Second, &slow))
	assert.Equal(t, StreamEnters, arrive(time.Second, &fast))
	assert.Equal(t, StreamEnters, arrive(1100*ms, &fast))
	assert.Equal(t, StreamDrops, arrive(2*time.Second, &slow))
	over, _ := s.Expire(50*time.Second, &slow)
	assert.Empty(t, over)
	over, _ = s.Expire(50*time.Second, &fast)
	assert.Equal(t, []string{"a"}, over)
}

// Of a stream that is refused no more counts as load than it may send, however often it tries.
func TestRefusedStreamsAreOneLoadEach(t *testing.T) {
	r := StreamRules{pipelines.Stream{Rate: 10, Count: 2}}
	var s Streams
	count := func(name string, every Time) (n int) {
		for at := Time(0); at < 10*time.Second; at += every {
			if s.Refuse(at, &r, name) {
				n++
			}
		}
		return n
	}
	assert.Equal(t, 100, count("at its pace", 100*ms))
	assert.Equal(t, 101, count("in haste", ms))
	assert.Equal(t, 10, count("seldom", time.Second))
}

// Whatever comes, what goes in keeps to what a plan covers: of a stream at most ceil((u + J)/G) in
// any time of u, and streams no more than were planned for in any period.
func TestWhatGoesInIsCovered(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := StreamRules{pipelines.Stream{Rate: 10, Jitter: time.Duration(rapid.IntRange(0, 99).Draw(t, "jitter")) * ms, Stale: rapid.SampledFrom(pipelines.Stales()).Draw(t, "stale"), Count: rapid.IntRange(1, 3).Draw(t, "most")}}
		var s Streams
		var places Places
		places.Plan(0, r.Stream)
		type frame struct {
			stream string
			at     Time
		}
		type held struct {
			name  string
			until Time
		}
		var in []frame
		waits := map[int]held{}
		outcomes, frames, now := 0, 0, Time(0)
		release := func(to Time) {
			for {
				next, at := -1, to+1
				for i, h := range waits {
					if h.until < at || h.until == at && i < next {
						next, at = i, h.until
					}
				}
				if next < 0 {
					return
				}
				require.True(t, s.Release(at, &r, waits[next].name, next))
				in, outcomes = append(in, frame{waits[next].name, at}), outcomes+1
				delete(waits, next)
			}
		}
		for i := range rapid.IntRange(1, 60).Draw(t, "frames") {
			now += Time(rapid.IntRange(0, 80).Draw(t, "gap")) * ms
			release(now)
			name := rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "stream")
			over, _ := s.Expire(now, &r)
			for _, name := range over {
				places.Close(name, "door")
			}
			if places.Open(now, name, "door", false, 0)[0].Open {
				s.Open(now, &r, name)
			}
			v, dropped, until := s.Arrive(now, &r, StreamFrame{Stream: name, Last: rapid.IntRange(0, 9).Draw(t, "ends") == 0, First: rapid.IntRange(0, 5).Draw(t, "begins") == 0, Frame: i})
			frames++
			if dropped != nil {
				delete(waits, dropped.(int))
				outcomes++
			}
			switch v {
			case StreamEnters:
				in, outcomes = append(in, frame{name, now}), outcomes+1
			case StreamWaits:
				require.GreaterOrEqual(t, until, now)
				waits[i] = held{name, until}
			default:
				outcomes++
			}
		}
		release(now + time.Hour)
		require.Equal(t, frames, outcomes, "each has one outcome")
		const period = 100 * ms
		for i, from := range in {
			perStream, streams := map[string]int{}, map[string]bool{}
			for _, f := range in[i:] {
				u := f.at - from.at
				if perStream[f.stream]++; f.stream == from.stream {
					require.LessOrEqual(t, perStream[f.stream], int((u+r.Jitter)/period)+1)
				}
				if u < period-r.Jitter {
					streams[f.stream] = true
				}
			}
			require.LessOrEqual(t, len(streams), r.Count)
		}
	})
}

func TestWhatStreamsLatelyAttained(t *testing.T) {
	r := StreamRules{pipelines.Stream{Rate: 10, Count: 2}}
	var s Streams
	for _, name := range []string{"a", "b"} {
		s.Open(0, &r, name)
		for n := range looking * (mostRecent + 2) {
			s.Arrive(Time(n)*100*ms, &r, StreamFrame{Stream: name, Frame: n})
			s.Count(name, name == "a" || n%2 == 0)
		}
	}
	lines := s.Lines(5)
	assert.Equal(t, []string{"b", "a"}, []string{lines[0].Name, lines[1].Name})
	assert.Len(t, lines[0].Recent, mostRecent)
	assert.InDelta(t, 0.5, lines[0].Recent[mostRecent-1], 0)
	assert.InDelta(t, 1, lines[1].Recent[0], 0)
	assert.InDelta(t, 0.5, lines[0].Attainment, 0.01)
	assert.Len(t, s.Lines(1), 1)
}

// Frames that come too fast count apart, each once, and the share is that of the others.
func TestFramesTooFastCountApart(t *testing.T) {
	for _, rule := range pipelines.Stales() {
		r := StreamRules{pipelines.Stream{Rate: 10, Stale: rule, Count: 2}}
		var s Streams
		s.Open(0, &r, "a")
		s.Open(0, &r, "b")
		assert.Empty(t, s.Lines(2), "nothing has come")
		entered := 0
		for i, at := range []Time{0, 1 * ms, 74 * ms, 75 * ms, 80 * ms, 90 * ms} {
			if v, _, _ := s.Arrive(at, &r, StreamFrame{Stream: "a", Frame: i}); v == StreamEnters {
				entered++
				s.Count("a", true)
			}
		}
		require.True(t, s.Release(100*ms, &r, "a", s.open["a"].held))
		s.Count("a", false)
		assert.Equal(t, 1, entered)
		assert.Equal(t, []StreamLine{{Name: "a", Frames: 2, Attainment: 0.5, TooFast: 4}}, s.Lines(2), rule)
		shares := s.Shares(&r)
		assert.Equal(t, StreamShares{Open: 2, Most: 2, Worst: 0.5, WorstName: "a", Median: 0.5, TooFast: 4}, shares)
		assert.Contains(t, shares.Describe(), "; 4 frames dropped beside these that came faster than planned")
		assert.EqualValues(t, 8, shares.Add(shares).TooFast)
	}
	assert.NotContains(t, StreamShares{Open: 1, Most: 1}.Describe(), "faster")
}

// Of several kinds those of each are kept beside all of them, of one gateway and of several together.
func TestSharesOfKinds(t *testing.T) {
	fast := StreamShares{Kind: "fast", Open: 1, Most: 2, Worst: 0.75, WorstName: "a", Median: 0.75, TooFast: 1}
	slow := StreamShares{Kind: "slow", Open: 3, Most: 4, Worst: 0.5, WorstName: "b", Median: 1}
	assert.Equal(t, fast, SharesOfKinds([]StreamShares{fast}))
	here := SharesOfKinds([]StreamShares{fast, slow})
	kinds := []StreamShares{fast, slow}
	assert.Equal(t, StreamShares{Open: 4, Most: 6, Worst: 0.5, WorstName: "b", Median: 0.9375, TooFast: 1, Kinds: kinds}, here)
	there := SharesOfKinds([]StreamShares{{Kind: "fast", Open: 1, Most: 2, Worst: 0.25, WorstName: "c", Median: 0.25}, {Kind: "slow", Most: 4, Worst: 1, Median: 1}})
	both := here.Add(there)
	assert.Equal(t, StreamShares{Kind: "fast", Open: 2, Most: 2, Worst: 0.25, WorstName: "c", Median: 0.5, TooFast: 1}, both.Kinds[0])
	assert.Equal(t, slow, both.Kinds[1])
	assert.Equal(t, []int{5, 6}, []int{both.Open, both.Most})
	assert.Equal(t, kinds, here.Kinds, "as they were")
	assert.Equal(t, "fast streams: 2 of 2 open; of the worst, \"c\", 25 % in time, of the median 50 %; 1 frame dropped beside these that came faster than planned\n"+
		"slow streams: 3 of 4 open; of the worst, \"b\", 50 % in time, of the median 100 %", both.Describe())
	assert.Equal(t, both.Kinds, both.Each())
	assert.Equal(t, []StreamShares{fast}, fast.Each())
	assert.Empty(t, (*StreamShares)(nil).Each())
}
