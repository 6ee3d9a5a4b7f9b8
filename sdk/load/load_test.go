package load

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/internal/osutil"
	"github.com/harpagon/harpagon/wire"
)

func TestRunCountsEveryRequestOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sent atomic.Int64
		report, err := Run(t.Context(), Options{
			Pipeline: "p", SLO: 100 * time.Millisecond, Rate: 10, Duration: 10 * time.Second, Warmup: 2 * time.Second, Seed: 1, Sleep: osutil.SleepTimer,
		}, func(ctx context.Context, n int) (*wire.InferResponse, error) {
			sent.Add(1)
			switch n % 4 {
			case 0:
				return nil, wire.Errorf(wire.CodeDeadline, "detect", "late")
			case 1:
				time.Sleep(200 * time.Millisecond)
			case 2:
				return nil, errors.New("connection refused")
			}
			time.Sleep(10 * time.Millisecond)
			return &wire.InferResponse{Stages: []wire.Stage{{Module: "detect", Items: 1, Batch: 2, Compute: 10 * time.Millisecond}}}, nil
		})
		require.NoError(t, err)
		assert.EqualValues(t, 120, sent.Load())
		assert.Equal(t, 100, report.Requests)
		assert.Equal(t, 25, report.Completed)
		assert.Equal(t, 25, report.Late)
		assert.Equal(t, map[string]int{"deadline": 25, "unavailable": 25}, report.Errors)
		assert.InDelta(t, 0.25, report.Attainment, 1e-9)
		assert.Equal(t, 2.0, report.Stages[0].MeanBatch)
	})
}

func TestLatencyCountsFromTheIntendedInstant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// A target that stalls for its caller: the generator must not wait for it.
		report, err := Run(t.Context(), Options{Pipeline: "p", SLO: time.Second, Rate: 100, Duration: time.Second, Seed: 1, Sleep: osutil.SleepTimer},
			func(ctx context.Context, n int) (*wire.InferResponse, error) {
				time.Sleep(500 * time.Millisecond)
				return &wire.InferResponse{}, nil
			})
		require.NoError(t, err)
		assert.Equal(t, 100, report.Completed)
		assert.InDelta(t, 0.5, report.Latency.P99.Seconds(), 0.01)
		assert.InDelta(t, 1.49, report.Elapsed.Seconds(), 0.001) // the last is sent at 0.99 s
	})
}

func TestRunEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		report, err := Run(ctx, Options{Pipeline: "p", SLO: time.Second, Rate: 10, Duration: time.Hour, Seed: 1, Sleep: osutil.SleepTimer},
			func(ctx context.Context, n int) (*wire.InferResponse, error) { return &wire.InferResponse{}, nil })
		require.NoError(t, err)
		assert.InDelta(t, 30, report.Requests, 1)
	})
}

// TestCallers has two callers send one request after the other, which takes 50 ms.
func TestCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		report, err := Run(t.Context(), Options{Pipeline: "p", SLO: time.Second, Callers: 2, Warmup: time.Second, Duration: 10 * time.Second, Sleep: osutil.SleepTimer},
			func(ctx context.Context, n int) (*wire.InferResponse, error) {
				return &wire.InferResponse{}, osutil.SleepTimer(ctx, 50*time.Millisecond)
			})
		require.NoError(t, err)
		assert.Equal(t, 2*10*20, report.Completed)
		assert.Equal(t, 40.0, report.Rate)
		assert.InDelta(t, 0.05, report.Latency.P50.Seconds(), 0.005)
		assert.Contains(t, report.Describe(), "p: 400 requests from 2 callers")
	})
}

func TestReportAsTextAndJSON(t *testing.T) {
	r := &Report{Pipeline: "traffic", SLO: 400 * time.Millisecond, Offered: 8, Requests: 4, Completed: 3, Errors: map[string]int{"overloaded": 1},
		Reasons: map[string]string{"overloaded": "at detect: the queue is full"}, Attainment: 0.75, Latency: Percentiles{P50: 20 * time.Millisecond}, Stages: []Stage{{Module: "detect", Items: 1, MeanBatch: 1.5}}}
	assert.Contains(t, r.Describe(), "attainment 0.7500: 3 in time")
	assert.Contains(t, r.Describe(), "1 overloaded")
	assert.Contains(t, r.Describe(), "  the first overloaded: at detect: the queue is full\n")
	raw, err := json.Marshal(r)
	require.NoError(t, err)
	var back map[string]any
	require.NoError(t, json.Unmarshal(raw, &back))
	assert.Equal(t, 400.0, back["slo_ms"])
	assert.Equal(t, 0.75, back["attainment"])
}

// TestAGeneratorThatFallsBehindReportsIt stalls the whole process for a second, as on a
// machine whose processors are taken: requests due in that time are left out, and counted.
func TestAGeneratorThatFallsBehindReportsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &runner{o: Options{Pipeline: "p", SLO: 100 * time.Millisecond, Rate: 10, Duration: 4 * time.Second, Sleep: osutil.SleepTimer}, start: time.Now()}
		r.send = func(context.Context, int) (*wire.InferResponse, error) { return &wire.InferResponse{}, nil }
		r.counts = newCounts(r.o)
		r.inFlight = make(chan struct{}, maxInFlight)
		time.Sleep(2 * time.Second)
		for n := range 40 {
			at := time.Duration(n) * 100 * time.Millisecond
			r.sleepUntil(t.Context(), r.start.Add(at))
			r.offer(t.Context(), n, at)
		}
		r.wg.Wait()
		report := r.counts.report(time.Since(r.start))
		assert.Equal(t, 20, report.Unsent)
		assert.Equal(t, 20, report.Requests)
		assert.Equal(t, 20, report.Completed)
		assert.Equal(t, 0.5, report.Attainment, "what was not sent has no answer")
		assert.Contains(t, report.Describe(), "left out 20 of 40 requests")
		assert.Contains(t, report.Describe(), "about 5/s")
	})
}

func TestAGeneratorWithoutAProcessorToSpareSaysSo(t *testing.T) {
	r := &Report{Pipeline: "p", Callers: 2, Cores: 1.7, Most: 2, Rate: 400, Completed: 4000, Requests: 4000, Attainment: 1}
	assert.Contains(t, r.Describe(), "the generator used 1.7 of 2 cores")
	assert.Contains(t, Sweep([]*Report{r}), "may be what limits the rate")
	r.Cores, r.Errors = 0.4, map[string]int{"deadline": 3}
	assert.NotContains(t, r.Describe(), "the generator used")
	assert.Equal(t, "callers in time/s attainment p50 p90 p99 late failed 2 400 1.0000 0 ms 0 ms 0 ms 0 3", strings.Join(strings.Fields(Sweep([]*Report{r})), " "))
}

// TestARefusedStreamStaysRefused: frames that were under way when the first was refused are
// dropped, and change nothing.
func TestARefusedStreamStaysRefused(t *testing.T) {
	report, err := Feed(t.Context(), FeedOptions{Pipeline: "p", SLO: time.Second, Streams: 1, Rate: 100, Duration: time.Second}, func(int, string) FrameStream {
		return &refusing{sent: make(chan struct{}, 100), after: 3}
	})
	require.NoError(t, err)
	assert.Equal(t, 1, report.Refused)
	assert.Equal(t, 3, report.Streams[0].NoPlace)
	assert.Contains(t, report.Describe(), "\n3 frames refused: their stream has no place\n")
}

// refusing refuses frames, once so many have been sent.
type refusing struct {
	sent          chan struct{}
	after, waited int
}

func (r *refusing) Send(int, bool) error { r.sent <- struct{}{}; return nil }
func (r *refusing) Close()               { close(r.sent) }
func (r *refusing) Shift() time.Duration { return 0 }
func (r *refusing) Receive() (int, error) {
	for ; r.waited < r.after; r.waited++ {
		<-r.sent
	}
	if r.after == 0 {
		return 0, io.EOF
	}
	r.after, r.waited = r.after-1, r.after-1
	return 0, &wire.Error{Code: wire.CodeOverloaded, Reason: "0 more fit", Cause: wire.CauseNoPlace}
}

// Every frame comes to one end, and what the generator causes is kept apart from what the
// server does.
func TestFramesByTheirEnds(t *testing.T) {
	overloaded := func(cause wire.Cause) error { return &wire.Error{Code: wire.CodeOverloaded, Cause: cause} }
	const ms = time.Millisecond
	frames := []struct {
		blocks time.Duration // of the generator, which sends the next one later
		takes  time.Duration
		err    error
		end    FrameEnd
	}{
		{120 * ms, 30 * ms, nil, InTime},
		{0, 190 * ms, nil, SentLate},
		{0, 250 * ms, nil, Late},
		{0, 10 * ms, errors.New("gone"), Failed},
		{0, 10 * ms, &wire.Error{Code: wire.CodeInternal}, Failed},
		{0, 10 * ms, &wire.Error{Code: wire.CodeDeadline}, Dropped},
		{0, 10 * ms, overloaded(""), Dropped},
		{0, 10 * ms, overloaded(wire.CauseTooFast), TooFast},
		{140 * ms, 10 * ms, nil, InTime},
		{0, 10 * ms, nil, InTime},
		{0, 10 * ms, overloaded(wire.CauseTooFast), SentFast},
		{180 * ms, 10 * ms, nil, InTime},
		{0, 0, nil, Unsent},
		{0, 10 * ms, overloaded(wire.CauseNoPlace), NoPlace},
		{0, 10 * ms, nil, InTime},
	}
	want := map[FrameEnd]int{}
	for _, f := range frames {
		want[f.end]++
	}
	for _, fixed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var ends []FrameFed
			s := &scripted{sent: make(chan sentAt, len(frames)), takes: func(n int) (time.Duration, time.Duration, error) {
				return frames[n].blocks, frames[n].takes, frames[n].err
			}, answers: func(n int) int {
				if n == 8 {
					return 3
				}
				return n
			}}
			report, err := Feed(t.Context(), FeedOptions{
				Pipeline: "p", SLO: 200 * ms, Streams: 1, Rate: 10, Planned: 10, Jitter: 5 * ms, Duration: time.Duration(len(frames)) * 100 * ms, Together: true, Fixed: fixed, sleep: osutil.SleepTimer,
				Ended: func(stream string, f FrameFed) {
					assert.Equal(t, "camera-1", stream)
					ends = append(ends, f)
				},
			}, func(int, string) FrameStream { return s })
			require.NoError(t, err)
			for i, f := range ends {
				assert.Equal(t, i, f.Number)
				assert.Equal(t, frames[i].end, f.End, "frame %d", i)
				assert.Equal(t, time.Duration(i)*100*ms, f.Due)
			}
			require.Len(t, ends, len(frames))
			for _, end := range FrameEnds() {
				assert.Equal(t, want[end], report.Ends[end], end)
				assert.NotEmpty(t, end.Describe())
			}
			assert.Equal(t, 1, report.Misplaced)
			assert.Equal(t, []int{3, -1}, []int{ends[8].Answer, ends[10].Answer})
			fed := report.Streams[0]
			assert.Equal(t, len(frames)-1, fed.Sent)
			assert.Equal(t, fed.Sent, fed.InTime+fed.Late+fed.SentLate+fed.TooFast+fed.SentFast+fed.Dropped+fed.NoPlace+fed.Failed)
			assert.Len(t, fed.Missed, len(frames)-want[InTime])
			assert.False(t, fed.Refused, "its first frame was answered")
			assert.Zero(t, report.Refused)
			text := report.Describe()
			for _, line := range []string{"1 frame late\n", "1 frame late by this program", "1 frame dropped as faster than planned, though", "1 frame dropped as faster than planned, as this", "2 frames dropped: they", "1 answer not of the frame"} {
				assert.Contains(t, text, "\n"+line)
			}
			assert.NotContains(t, text, "frames in time\n", "these are no misses")
		})
	}
}

type sentAt struct {
	n  int
	at time.Time
}

// scripted answers frames by a script, in their order.
type scripted struct {
	sent    chan sentAt
	takes   func(n int) (blocks, takes time.Duration, err error)
	answers func(n int) int
}

func (s *scripted) Send(n int, _ bool) error {
	s.sent <- sentAt{n, time.Now()}
	blocks, _, _ := s.takes(n)
	time.Sleep(blocks)
	return nil
}
func (s *scripted) Close()               { close(s.sent) }
func (s *scripted) Shift() time.Duration { return 0 }
func (s *scripted) Receive() (int, error) {
	f, ok := <-s.sent
	if !ok {
		return 0, io.EOF
	}
	_, takes, err := s.takes(f.n)
	time.Sleep(time.Until(f.at.Add(takes)))
	return s.answers(f.n), err
}

// A frame is uneven where a gateway drops it, or the one that waits, and one that is dropped takes no
// time of the next.
func TestPaceOfFramesThatAreSent(t *testing.T) {
	const ms = time.Millisecond
	var p paceOf
	sent := []time.Duration{0, 95 * ms, 196 * ms, 270 * ms, 360 * ms, 400 * ms, 450 * ms, 500 * ms, 575 * ms, 590 * ms, 700 * ms}
	var uneven []*atomic.Bool
	for _, at := range sent {
		uneven = append(uneven, p.sends(at, 10, 5*ms))
	}
	for i, want := range []bool{false, false, false, false, true, false, true, false, true, true, false} {
		assert.Equal(t, want, uneven[i].Load(), "%v", sent[i])
	}
}
