package experiments

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/scheduler/autoscale/size"
)

// played is what a cluster did under a load.
type played struct{ paid, changes, lost float64 }

// playWave plays a load, in devices that it needs in every second, against the advice, with
// devices that serve start seconds after they were requested and are paid for meanwhile. It
// counts from that second on.
func playWave(c *follower, most, start, from, to int, load func(int) float64) (p played) {
	const span = 5
	serving, coming, at := most, 0, 0
	var need, bad float64
	quiet := 0
	for s := range to {
		if coming > 0 && s == at {
			serving, coming, quiet = serving+coming, 0, s
		}
		l := load(s)
		need, bad = need+l/span, bad+max(0, l-float64(serving))/span
		if s >= from {
			p.paid += float64(serving + coming)
			p.lost += max(0, l-float64(serving)) / l
		}
		if (s+1)%span != 0 {
			continue
		}
		m := size.Measures{End: time.Unix(int64(s+1), 0), Span: span * time.Second, Rate: 100 * need, Devices: serving, Bad: bad / need,
			Idle: max(0, 1-(need-bad)/float64(serving))}
		need, bad = 0, 0
		if coming > 0 || quiet > s+1-span {
			continue
		}
		change := c.Observe(m).Change
		if change != 0 && s >= from {
			p.changes++
		}
		if change > 0 {
			coming, at = change, s+1+start
		} else if change < 0 {
			serving, quiet = serving+change, s+1
		}
	}
	return p
}

// square is a wave of that period in devices that it needs.
func square(period int, low, high float64) func(int) float64 {
	return func(s int) float64 {
		if s%period < period/2 {
			return low
		}
		return high
	}
}

// TestAWaveIsLearned: from the fifth period on a square wave between a peak and a quarter of it or
// more costs at most 1.3 times what an oracle pays, at any period from ten seconds to ten
// minutes; the size changes at most twice a period, and no request waits for devices.
func TestAWaveIsLearned(t *testing.T) {
	const most, start, learning = 8, 5, 4
	for _, low := range []float64{2.8, 3.8, 5} {
		worst := 0.0
		for period := 10; period <= 600; period += 2 {
			periods := max(12, 600/period)
			c := newFollower(0, most)
			few := math.Ceil(low * (1 + size.DefaultSpare))
			p := playWave(c, most, start, learning*period, (learning+periods)*period, square(period, low, 7.5))
			spent := float64(periods * period)
			cost := p.paid / spent / min(most, (few+most)/2+(most-few)*start/float64(period))
			worst = max(worst, cost)
			assert.LessOrEqual(t, cost, 1.3, "low %g, period %d", low, period)
			assert.LessOrEqual(t, p.changes, 2*float64(periods), "low %g, period %d", low, period)
			assert.LessOrEqual(t, p.lost/spent, 0.005, "low %g, period %d", low, period)
		}
		t.Logf("low %g: at most %.3f", low, worst)
	}
}

// TestALearnedWaveIsPaidBack counts from the first period on, in which no wave can be
// detected: at any period it costs at most 1.3 times what an oracle pays, even over the
// first period where the low half needs half of the devices, and over six periods where it
// needs three of eight; and the size changes at most four times more than twice a period.
func TestALearnedWaveIsPaidBack(t *testing.T) {
	const most, start = 8, 5
	for _, row := range []struct {
		low     float64
		periods int
		limit   float64
	}{{3.8, 1, 1.3}, {3.8, 4, 1.3}, {3.8, 5, 1.3}, {3.8, 6, 1.3}, {3.8, 8, 1.3}, {2.8, 1, 1.41}, {2.8, 4, 1.39}, {2.8, 5, 1.33}, {2.8, 6, 1.3}, {2.8, 8, 1.3}} {
		few, worst := math.Ceil(row.low*(1+size.DefaultSpare)), 0.0
		for period := 10; period <= 600; period += 2 {
			c := newFollower(0, most)
			p := playWave(c, most, start, 0, row.periods*period, square(period, row.low, 7.5))
			cost := p.paid / float64(row.periods*period) / min(most, (few+most)/2+(most-few)*start/float64(period))
			worst = max(worst, cost)
			assert.LessOrEqual(t, cost, row.limit, "low %g, period %d", row.low, period)
			assert.LessOrEqual(t, p.changes, 2*float64(row.periods)+4, "low %g, period %d", row.low, period)
		}
		t.Logf("low %g, %d periods: at most %.3f", row.low, row.periods, worst)
	}
}

// TestAWaveThatEndsCostsOnce: a low half that goes on finds all devices back a little before it
// should have ended, which then go as those of any cluster that idles; and a load that rises too
// soon is followed as without memory. After two halves of the new length these are expected.
func TestAWaveThatEndsCostsOnce(t *testing.T) {
	const most, start = 8, 5
	wave, ends := square(240, 3, 7.5), 5*240
	c := newFollower(0, most)
	low := playWave(c, most, start, ends, ends+1200, func(s int) float64 {
		if s >= ends {
			return 3
		}
		return wave(s)
	})
	assert.LessOrEqual(t, low.changes, 3.0)
	assert.LessOrEqual(t, low.paid, 4.0*1200+4*(60+2*120))

	c = newFollower(0, most)
	soon := square(120, 3, 7.5)
	after := playWave(c, most, start, ends+3*120, ends+20*120, func(s int) float64 {
		if s >= ends {
			return soon(s)
		}
		return wave(s)
	})
	assert.LessOrEqual(t, after.lost, 0.005*17*120)
}

// TestLoadsWithoutAWaveAreNotForetold: of random loads, steady ones and ramps nothing is expected.
func TestLoadsWithoutAWaveAreNotForetold(t *testing.T) {
	for name, rate := range map[string]func(i int, r *rand.Rand) float64{
		"steady":  func(_ int, r *rand.Rand) float64 { return float64(draw(r, 500)) },
		"few":     func(_ int, r *rand.Rand) float64 { return float64(draw(r, 1)) },
		"by day":  func(i int, r *rand.Rand) float64 { return float64(draw(r, 500+400*math.Sin(float64(i)/700))) },
		"nothing": func(int, *rand.Rand) float64 { return 0 },
	} {
		r := rand.New(rand.NewPCG(1, 2))
		c := newFollower(0, 50)
		devices := 20
		for i := range 5000 {
			offered := rate(i, r)
			need := offered / 5 / 8
			a := c.Observe(size.Measures{
				End: time.Unix(int64(5*i), 0), Span: 5 * time.Second, Rate: offered / 5, Devices: devices,
				Bad: max(0, 1-float64(devices)/need), Idle: max(0, 1-need/float64(devices)),
			})
			devices += a.Change
		}
		assert.Zero(t, c.foretold, name)
	}
}

// draw is how many of a Poisson process come where the mean is so many, about.
func draw(r *rand.Rand, mean float64) int {
	return max(0, int(math.Round(mean+math.Sqrt(mean)*r.NormFloat64())))
}

// TestARememberedWaveStaysInBounds whatever is measured.
func TestARememberedWaveStaysInBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newFollower(rapid.IntRange(0, 4).Draw(t, "min"), rapid.IntRange(4, 9).Draw(t, "max"))
		c.Options.Shrink = 20 * time.Second
		devices, at := rapid.IntRange(max(1, c.Options.Min), c.Options.Max).Draw(t, "devices"), 0
		high, half := rapid.Float64Range(1, 1000).Draw(t, "high"), rapid.IntRange(1, 20).Draw(t, "half")
		for i := range 200 {
			at += 5 * rapid.SampledFrom([]int{1, 1, 1, 1, 2, 7}).Draw(t, "spans")
			rate := high
			if i/half%2 == 1 {
				rate *= 0.3
			}
			a := c.Observe(size.Measures{
				End: time.Unix(int64(at), 0), Span: 5 * time.Second, Rate: rate, Devices: devices,
				Bad:  rapid.SampledFrom([]float64{0, 0, 0, 0.02, 1}).Draw(t, "bad"),
				Idle: rapid.Float64Range(0, 1).Draw(t, "idle"),
			})
			devices += a.Change
			require.LessOrEqual(t, devices, c.Options.Max)
			require.GreaterOrEqual(t, devices, max(1, c.Options.Min))
		}
	})
}

// TestASquareWaveCosts: of any period, once detected, it costs at most 1.3 times what an
// oracle pays that has the least devices that keep 99 % at either height, paying for those
// that start, too; and hardly a request waits for devices. A wave between the peak and half
// of it costs no more before it is detected, either. By neither rule the size changes more
// than twice a period.
func TestASquareWaveCosts(t *testing.T) {
	many, err := least(wavePeak, nil)
	require.NoError(t, err)
	for _, low := range []float64{0.5, 0.25} {
		few, err := least(low*wavePeak, nil)
		require.NoError(t, err)
		for _, period := range []int{10, 30, 38, 60, 130, 300, 600} {
			const rounding = 0.01 // of changes at the ends
			w := Wave{time.Duration(period) * time.Second, low}
			first, then, err := w.Play(few, many, newFollower(0, math.MaxInt32).Observe, nil)
			require.NoError(t, err)
			assert.LessOrEqual(t, then.Paid/then.Oracle, 1.3, "low %g, period %d", low, period)
			assert.LessOrEqual(t, then.Changes, 2+rounding, "low %g, period %d", low, period)
			assert.LessOrEqual(t, then.Lost, 0.005, "low %g, period %d", low, period)
			if low == 0.5 {
				assert.LessOrEqual(t, first.Paid/first.Oracle, 1.3, "low %g, period %d", low, period)
			}
			_, then, err = w.Play(few, many, nil, nil)
			require.NoError(t, err)
			assert.LessOrEqual(t, then.Changes, 2+rounding, "by its own rule, low %g, period %d", low, period)
			assert.LessOrEqual(t, then.Lost, 0.035, "by its own rule, low %g, period %d", low, period)
		}
	}
}
