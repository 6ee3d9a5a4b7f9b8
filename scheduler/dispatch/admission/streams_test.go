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
		// At 0, 30, 40, 60, 70 and 80 ms, of which one goes in at 0 and one at 100.
		pipelines.StaleOldest:    {"enters", "waits", "waits, not 1", "waits, not 2", "waits, not 3", "waits, not 4"},
		pipelines.StaleNewest:    {"enters", "waits", "drops", "drops", "drops", "drops"},
		pipelines.StaleAlternate: {"enters", "waits", "drops", "waits, not 1", "drops", "waits, not 3"},
	} {
		t.Run(rule, func(t *testing.T) {
			r := StreamRules{pipelines.Stream{Rate: 10, Stale: rule}, 1}
			var s Streams
			var got []string
			for i, at := range []Time{0, 30 * ms, 40 * ms, 60 * ms, 70 * ms, 80 * ms} {
				v, dropped, until := s.Arrive(at, &r, "a", i, false)
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
}

func TestStreamsBeyondThePlan(t *testing.T) {
	r := StreamRules{pipelines.Stream{Rate: 10}, 2}
	var s Streams
	arrive := func(at Time, name string, last bool) StreamVerdict {
		v, _, _ := s.Arrive(at, &r, name, 0, last)
		return v
	}
	assert.Equal(t, StreamEnters, arrive(0, "a", false))
	assert.Equal(t, StreamEnters, arrive(0, "b", true))
	assert.Equal(t, StreamRefused, arrive(50*ms, "c", false), "b might have sent until now")
	assert.Equal(t, StreamEnters, arrive(100*ms, "c", false))
	assert.Equal(t, StreamRefused, arrive(time.Second, "d", false))
	assert.Equal(t, StreamEnters, arrive(9*time.Second, "c", false))
	assert.Equal(t, StreamEnters, arrive(11*time.Second, "d", false), "a is silent")
	s.Answer("d")
	assert.Equal(t, StreamShares{Open: 2, Most: 2, Worst: 0, Median: 0, WorstName: "c"}, s.Shares(11*time.Second, &r))
	_, open := s.IsOpen("a")
	assert.False(t, open)
	assert.Zero(t, s.Shares(time.Hour, &r).Open)
}

// Whatever comes, what goes in keeps to what a plan covers: of a stream at most ceil((u + J)/G) in
// any time of u, and streams no more than were planned for in any period.
func TestWhatGoesInIsCovered(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := StreamRules{pipelines.Stream{Rate: 10, Jitter: time.Duration(rapid.IntRange(0, 99).Draw(t, "jitter")) * ms, Stale: rapid.SampledFrom(pipelines.Stales()).Draw(t, "stale")}, rapid.IntRange(1, 3).Draw(t, "most")}
		var s Streams
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
			v, dropped, until := s.Arrive(now, &r, name, i, rapid.IntRange(0, 9).Draw(t, "ends") == 0)
			frames++
			if dropped != nil {
				delete(waits, dropped.(int))
				outcomes++
			}
			switch v {
			case StreamEnters:
				in, outcomes = append(in, frame{name, now}), outcomes+1
			case StreamWaits:
				require.Greater(t, until, now)
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
			require.LessOrEqual(t, len(streams), r.Most)
		}
	})
}
