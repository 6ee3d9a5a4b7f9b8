package autoscale

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/autoscale/size"
)

// followed plays a service that follows its load: a new plan serves with a delay after it
// was requested, and gateways report four times a second.
type followed struct {
	of      pipelines.Pipeline
	rate    Drift
	rise    Rise
	reports size.Reports
	so      size.Counts
	plan    float64
	asked   float64
	serves  time.Time
	buffer  float64 // requests that wait
	by      [][2]float64

	changes []time.Time
	reasons []string
}

const (
	look  = 250 * time.Millisecond
	plans = time.Second
	bears = 1.1 // times what it is for: those that come by chance
)

func follow(planned float64, every time.Duration) *followed {
	f := &followed{of: pipelines.Pipeline{Rate: planned, SLO: 400 * time.Millisecond, Arrivals: pipelines.ArrivalsPoisson}, reports: size.Reports{Every: every}, plan: planned}
	f.rate, f.rise = NewDrift(planned, DriftOptions{}), Rise{Planned: planned}
	f.rate.Reset(planned, start)
	return f
}

// pass lets one look pass, in which so many requests come.
func (f *followed) pass(now time.Time, came float64) {
	served := min(f.buffer+came, bears*f.plan*look.Seconds())
	f.buffer += came - served
	lost := max(0, f.buffer-bears*f.plan*f.of.SLO.Seconds()/2)
	f.buffer -= lost
	f.so = f.so.Add(size.Counts{Arrived: int64(came), Ended: int64(served + lost), Lost: int64(lost)})
	f.by = append(f.by, [2]float64{came, lost})
	if !f.serves.IsZero() && !now.Before(f.serves) {
		base := f.rate.Base(f.asked)
		f.plan, f.of.Rate, f.serves = f.asked, f.asked, time.Time{}
		f.rate.Reset(base, now)
		f.rise = Rise{Planned: f.plan, Last: now}
	}
	latest, due := f.reports.Look(now, f.so)
	if !due || !f.serves.IsZero() {
		return
	}
	m := Measures{To: now, Latest: &latest}
	for _, one := range f.by[max(0, len(f.by)-40):] {
		m.Arrived += int64(one[0])
	}
	m.From = now.Add(-look * time.Duration(min(40, len(f.by))))
	m.Offered = float64(m.Arrived) / m.Span().Seconds()
	if m.Arrived == 0 {
		return // gateways report no service without requests
	}
	a, changed := f.rate.ObserveLoad(m)
	a.Reschedule = changed
	if fast := f.rise.Observe(m, f.rate.Options, &f.of); fast.Reschedule || changed {
		a = f.rise.Follow(fast, a, &f.rate, m, &f.of)
	}
	if a.Reschedule {
		f.asked, f.serves = a.Wanted(), now.Add(plans)
		f.changes, f.reasons = append(f.changes, now), append(f.reasons, a.Describe())
	}
}

// play offers a load and reports which share is lost of what comes from some instant to another.
func (f *followed) play(rng *rand.Rand, span time.Duration, from, to time.Duration, load func(time.Duration) float64) float64 {
	var came, lost float64
	for at := look; at <= span; at += look {
		n := poisson(rng, load(at), look.Seconds(), 1)[0] * look.Seconds()
		f.pass(start.Add(at), n)
		if at > from && at <= to {
			came, lost = came+n, lost+f.by[len(f.by)-1][1]
		}
	}
	return lost / math.Max(1, came)
}

// TestADoubledLoadIsServedAtOnce: at any rate from 5 a second on and any phase of the
// reports, a doubled load is planned for in one step, and at most a tenth of the requests
// of 15 seconds is lost.
func TestADoubledLoadIsServedAtOnce(t *testing.T) {
	for _, planned := range []float64{5, 10, 20, 40, 100, 300, 1000} {
		worst, mean, over, latest, twice := 0.0, 0.0, 0.0, time.Duration(0), 0
		for seed := range uint64(40) {
			rng := rand.New(rand.NewPCG(seed, 7))
			step := time.Minute + time.Duration(rng.Float64()*float64(5*time.Second))
			f := follow(planned, 5*time.Second)
			lost := f.play(rng, 3*time.Minute, step, step+15*time.Second, func(at time.Duration) float64 {
				if at > step {
					return 2 * planned
				}
				return planned * 0.95
			})
			require.NotEmpty(t, f.changes, planned)
			served := f.changes[0].Add(plans).Sub(start.Add(step))
			worst, mean, latest = max(worst, lost), mean+lost/40, max(latest, served)
			over += f.plan / (2 * planned) / 40
			if len(f.changes) > 1 {
				twice++
			}
		}
		t.Logf("%g/s: served after %v at the latest, %.1f %% lost at most, %.1f %% in the mean, planned for %.2f of it, in two steps %d of 40 times", planned, latest, 100*worst, 100*mean, over, twice)
		assert.LessOrEqual(t, latest, map[bool]time.Duration{true: 15 * time.Second, false: 40 * time.Second}[planned >= 10], planned)
		assert.LessOrEqual(t, twice, 4, "of 40")
		if planned >= 20 {
			assert.LessOrEqual(t, mean, 0.1, planned)
		}
	}
}

// TestASquareWaveOfRatesChangesThePlanTwiceAPeriod at most, whatever its period and its height from
// ten a second on: all waves together, and each by itself but for what chance adds now and then.
func TestASquareWaveOfRatesChangesThePlanTwiceAPeriod(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 45))
	between := func(low, high float64) float64 { return low * math.Pow(high/low, rng.Float64()) }
	changes, all := 0.0, 0.0
	for range 400 {
		period := time.Duration(between(2, 1500) * float64(time.Second))
		high := between(10, 500)
		low := high * between(0.02, 1)
		f := follow(high*between(0.3, 2), 5*time.Second)
		span := max(8*period, 20*time.Minute)
		f.play(rng, span, 0, span, func(at time.Duration) float64 {
			if at%period < period/2 {
				return low
			}
			return high
		})
		periods := span.Seconds() / period.Seconds()
		assert.LessOrEqual(t, float64(len(f.changes)), 2.25*periods+3, "%g to %g/s every %v: %v", low, high, period, f.reasons)
		if period > 5*time.Minute && low < high/2 { // those that are followed
			changes, all = changes+float64(len(f.changes))-3, all+periods
		}
	}
	t.Logf("%.3g changes a period", changes/all)
	assert.LessOrEqual(t, changes/all, 2.0)
}
