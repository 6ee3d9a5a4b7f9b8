package size

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// serve plays a load, in devices that it needs, against the advice: flat-top
// behaviour as in the paper's figure 5.
func serve(c *Cluster, devices int, span time.Duration, spans int, load func(time.Duration) float64) (changes int, used, oracle float64) {
	at := time.Unix(0, 0)
	for range spans {
		at = at.Add(span)
		need := load(at.Sub(time.Unix(0, 0)))
		m := Measures{End: at, Devices: devices, Bad: max(0, 1-float64(devices)/need), Idle: max(0, 1-need/float64(devices))}
		used, oracle = used+float64(devices), oracle+need
		if a := c.Observe(m); a.Change != 0 {
			devices += a.Change
			changes++
		}
	}
	return changes, used, oracle
}

func TestThePapersTwoSignals(t *testing.T) {
	var c Cluster
	a := c.Observe(Measures{End: time.Unix(10, 0), Devices: 24, Bad: 0.25})
	assert.Equal(t, 8, a.Change, "24·0.25/0.75")
	assert.Contains(t, a.Describe(), "8 more devices")
	c = Cluster{Options: Options{Shrink: 10 * time.Second, Min: 10, Max: 25}}
	assert.Zero(t, c.Observe(Measures{End: time.Unix(10, 0), Devices: 24, Idle: 0.5}).Change, "not at once")
	assert.Equal(t, -11, c.Observe(Measures{End: time.Unix(20, 0), Devices: 24, Idle: 0.5}).Change, "24·0.5, less 5 % of the 12 that stay busy")
	assert.Equal(t, 1, c.Observe(Measures{End: time.Unix(30, 0), Devices: 24, Bad: 1}).Change, "no more than Max")
}

// TestASquareWaveDoesNotFlap: of any period from ten seconds to ten minutes the
// size changes at most twice a period.
func TestASquareWaveDoesNotFlap(t *testing.T) {
	for _, period := range []time.Duration{10 * time.Second, 30 * time.Second, time.Minute, 3 * time.Minute, 10 * time.Minute} {
		var c Cluster
		length := 10 * 10 * time.Minute
		changes, used, oracle := serve(&c, 20, 5*time.Second, int(length/(5*time.Second)), func(at time.Duration) float64 {
			if at%period < period/2 {
				return 20
			}
			return 40
		})
		t.Logf("period %v: %d changes, %.2f of an oracle's devices", period, changes, used/oracle)
		assert.LessOrEqual(t, changes, max(4, 2*int(length/period)), period)
	}
}

// TestTheSizeStaysInBounds whatever is measured.
func TestTheSizeStaysInBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Cluster{Options: Options{Min: rapid.IntRange(0, 4).Draw(t, "min"), Max: rapid.IntRange(4, 9).Draw(t, "max"), Shrink: 20 * time.Second}}
		devices, at := rapid.IntRange(max(1, c.Options.Min), c.Options.Max).Draw(t, "devices"), 0
		high, half := rapid.Float64Range(1, 1000).Draw(t, "high"), rapid.IntRange(1, 20).Draw(t, "half")
		for i := range 200 {
			at += 5 * rapid.SampledFrom([]int{1, 1, 1, 1, 2, 7}).Draw(t, "spans")
			rate := high
			if i/half%2 == 1 {
				rate *= 0.3
			}
			a := c.Observe(Measures{
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
