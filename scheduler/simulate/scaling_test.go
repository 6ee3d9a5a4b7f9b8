package simulate

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/arrivals"
)

// course is a Poisson process whose rate changes from second to second.
func course(span time.Duration, rate func(time.Duration) float64) arrivals.Process {
	random := rand.New(rand.NewPCG(1, 14))
	p := arrivals.Process{Kind: pipelines.ArrivalsTrace, Trace: &pipelines.Trace{}}
	for s := range int(span / time.Second) {
		p.Trace.Seconds = append(p.Trace.Seconds, int64(s))
		p.Trace.Counts = append(p.Trace.Counts, float64(DrawPoisson(random, rate(time.Duration(s)*time.Second))))
	}
	return p
}

// inception is the other model of Symphony's table 4.
func inception() pipelines.Pipeline {
	return linear("inception", 5090*time.Microsecond, 18368*time.Microsecond, 70*ms, 16)
}

func scaledRun(t *testing.T, devices int, span time.Duration, s Scaling, rate func(time.Duration) float64) Result {
	t.Helper()
	load := Load{Pipeline: inception(), Arrivals: course(span, rate)}
	r, err := OnCluster([]Load{load}, []Devices{{Hardware: "gpu", Count: devices}}, Options{Duration: span, Seed: 1, Scaling: &s})
	require.NoError(t, err)
	return r
}

// workers states how long a worker on the same machine takes until it serves.
const workers = 2 * time.Second

// TestALoadThatDoublesIsCaught: within 60 s of the begin of a rise that takes 30 s all is served
// again, and of the requests in that minute at most 1 % is lost. Devices that take longer to
// serve lose more, and the figures are logged.
func TestALoadThatDoublesIsCaught(t *testing.T) {
	for _, start := range []time.Duration{workers, 5 * time.Second, 10 * time.Second} {
		r := scaledRun(t, 8, 3*time.Minute, Scaling{Start: start}, func(at time.Duration) float64 {
			return 930 * (1 + math.Min(1, math.Max(0, (at-time.Minute).Seconds()/30)))
		})
		var lost, came, after int64
		for _, s := range r.Sizes {
			switch {
			case s.At > 2*time.Minute:
				after += s.Missed
			case s.At > time.Minute:
				lost, came = lost+s.Missed, came+s.Requests
			}
		}
		share := float64(lost) / float64(came)
		t.Logf("devices serve after %v: %.2f %% of the requests lost in the minute from the begin of the rise, %d later", start, 100*share, after)
		assert.Less(t, float64(after), 0.01*930*2*60)
		if start == workers {
			assert.LessOrEqual(t, share, 0.01)
		}
	}
}
