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

// TestAGeneratorThatFallsBehindSaysSo stalls the whole process for a second, as a machine
// does whose processors are taken: what was to be sent then is left out, and told.
func TestAGeneratorThatFallsBehindSaysSo(t *testing.T) {
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
		assert.Equal(t, 0.5, report.Attainment, "nobody answered what was not sent")
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
	assert.Equal(t, 3, report.Streams[0].Dropped)
}

// refusing refuses frames, once so many have been sent.
type refusing struct {
	sent          chan struct{}
	after, waited int
}

func (r *refusing) Send(int, bool) error { r.sent <- struct{}{}; return nil }
func (r *refusing) Close()               { close(r.sent) }
func (r *refusing) Shift() time.Duration { return 0 }
func (r *refusing) Receive() error {
	for ; r.waited < r.after; r.waited++ {
		<-r.sent
	}
	if r.after == 0 {
		return io.EOF
	}
	r.after, r.waited = r.after-1, r.after-1
	return wire.Errorf(wire.CodeOverloaded, "", "0 more fit")
}
