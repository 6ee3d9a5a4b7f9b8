package simulate

import (
	"math"
	"math/rand/v2"
	"slices"
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

// workers says how long a worker on the same machine takes until it serves.
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

// TestASquareWaveCosts: of any period it costs at most 1.3 times what somebody pays who knows the
// wave beforehand and has the least devices that keep 99 % at either height, paying for those
// that start, too; the size changes at most twice a period, and hardly a request waits for devices.
// A wave between the peak and half of it costs no more before it is known, either.
func TestASquareWaveCosts(t *testing.T) {
	const high, most, start, learning = 900.0, 8, 5 * time.Second, 4
	least := func(rate float64) float64 {
		for n := 1; ; n++ {
			r, err := OnCluster([]Load{{Pipeline: inception(), Arrivals: arrivals.Process{Kind: pipelines.ArrivalsPoisson}, Rate: rate}}, gpus(n), Options{Seed: 2})
			require.NoError(t, err)
			if r.Least() >= DefaultAttainment {
				return float64(n)
			}
		}
	}
	many := least(high)
	for _, low := range []float64{450, 225} {
		few := least(low)
		for _, period := range []int{10, 30, 38, 60, 130, 300, 600} {
			periods := learning + max(2, 360/period)
			span := time.Duration(periods*period) * time.Second
			r := scaledRun(t, most, span, Scaling{Start: start}, func(at time.Duration) float64 {
				if int(at.Seconds())%period < period/2 {
					return low
				}
				return high
			})
			oracle := min(many, (few+many)/2+(many-few)*start.Seconds()/float64(period))
			known := slices.IndexFunc(r.Sizes, func(s Size) bool { return s.At > time.Duration(learning*period)*time.Second })
			sum := func(sizes []Size) (cost, changes, lost float64) {
				came := 0.0
				for _, s := range sizes {
					if s.Advice != 0 {
						changes += float64(period) / (DefaultEvery.Seconds() * float64(len(sizes)))
					}
					cost += float64(s.Paid) / float64(len(sizes)) / oracle
					came, lost = came+float64(s.Requests), lost+float64(s.Missed)
				}
				return cost, changes, lost / came
			}
			before, _, missed := sum(r.Sizes[:known])
			cost, changes, lost := sum(r.Sizes[known:])
			t.Logf("between %g and %g, period %d s: %.3f times an oracle's %.2f devices, %.2f changes a period, %.2f %% lost; before that %.3f times, %.2f %%",
				low, high, period, cost, oracle, changes, 100*lost, before, 100*missed)
			const rounding = 1e-9
			assert.LessOrEqual(t, cost, 1.3, "low %g, period %d", low, period)
			assert.LessOrEqual(t, changes, 2+rounding, "low %g, period %d", low, period)
			assert.LessOrEqual(t, lost, 0.005, "low %g, period %d", low, period)
			if low == high/2 {
				assert.LessOrEqual(t, before, 1.3, "low %g, period %d", low, period)
			}
		}
	}
}
