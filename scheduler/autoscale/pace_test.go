package autoscale

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/pipelines"
)

const ms = time.Millisecond

// detect is profiled at 8 ms and 0.75 ms for each request of a batch.
func detect() pipelines.Module {
	m := pipelines.Module{Name: "detect"}
	for _, b := range []int{1, 2, 4, 8} {
		m.Profile.Points = append(m.Profile.Points, pipelines.Point{Hardware: "cpu", Batch: b, Concurrency: 1, Duration: 8*ms + time.Duration(b)*750*time.Microsecond, Others: 0.9})
	}
	return m
}

func took(size int, batches int64, p50, p95 time.Duration) BatchDuration {
	return BatchDuration{Hardware: "cpu", Size: size, Batches: batches, P50: p50, P95: p95}
}

// watch lets a Pace see the same durations every five seconds, as a workflow
// that carries it through JSON would, until it advises something.
func watch(t require.TestingT, p *Pace, from time.Time, span time.Duration, m pipelines.Module, runs ...BatchDuration) (PaceAdvice, time.Duration) {
	for at := 5 * time.Second; at <= span; at += 5 * time.Second {
		raw, err := json.Marshal(p)
		require.NoError(t, err)
		*p = Pace{}
		require.NoError(t, json.Unmarshal(raw, p))
		advice := p.Observe(Measures{From: from.Add(at - 10*time.Second), To: from.Add(at), Modules: []ModuleMeasures{{Name: "detect", Durations: runs}}}, []pipelines.Module{m})
		if len(advice) > 0 {
			return advice[0], at
		}
	}
	return PaceAdvice{}, 0
}

func TestSlowerBatchesVoidThePromise(t *testing.T) {
	p, m := NewPace(PaceOptions{}), detect()
	_, at := watch(t, &p, start, time.Minute, m, took(8, 50, 15*ms, 20*ms))
	require.Zero(t, at, "little slower than profiled")
	require.Empty(t, p.Void())

	from := start.Add(time.Minute)
	a, at := watch(t, &p, from, time.Minute, m, took(8, 50, 31*ms, 40*ms), took(1, 20, 9*ms, 9*ms))
	require.LessOrEqual(t, at, 25*time.Second)
	assert.True(t, a.Slower)
	assert.Equal(t, "detect takes 31 ms, profiled 14 ms (batches of 8 on cpu, for 15s)", a.Describe())
	require.Len(t, p.Void(), 1)
	assert.Equal(t, a.Describe(), p.Void()[0].Describe())
	assert.Equal(t, []time.Duration{9, 9, 15, 28}, millis(a.Points), "twice as long at most; what is far from it changes less")
	assert.Zero(t, a.Points[3].Others)
	assert.InDelta(t, float64(28*ms)*9/31/2, float64(a.Points[3].Spread), float64(ms))

	m.Profile.Points = a.Points
	p.Reset(from.Add(at))
	require.Empty(t, p.Void())
	_, at = watch(t, &p, from.Add(at), time.Minute, m, took(8, 50, 31*ms, 40*ms))
	require.Zero(t, at, "planned with what was measured")
}

func TestAWrongStartHealsWithinAMinute(t *testing.T) {
	p, m := NewPace(PaceOptions{}), detect()
	from, end := start, start.Add(time.Minute)
	var last PaceAdvice
	for from.Before(end) {
		a, at := watch(t, &p, from, end.Sub(from), m, took(8, 50, 6*ms, 7*ms), took(3, 50, 5*ms, 6*ms))
		if at == 0 {
			break
		}
		from = from.Add(at)
		p.Reset(from)
		m.Profile.Points, last = a.Points, a
	}
	assert.False(t, last.Slower)
	assert.Equal(t, []time.Duration{6, 6, 6, 7}, millis(m.Profile.Points), "half of 14 ms: a step, and near enough to 6 ms")
	assert.Contains(t, last.Describe(), "detect takes 6 ms, profiled 14 ms")
}

// millis are durations in whole milliseconds, rounded down.
func millis(points []pipelines.Point) (all []time.Duration) {
	for _, p := range points {
		all = append(all, p.Duration/ms)
	}
	return all
}

func TestWhatIsNoChangeOfPace(t *testing.T) {
	short := detect()
	for i := range short.Profile.Points {
		short.Profile.Points[i].Duration /= 100
	}
	for name, test := range map[string]struct {
		module pipelines.Module
		runs   []BatchDuration
	}{
		"as profiled":                  {detect(), []BatchDuration{took(8, 50, 14*ms, 60*ms)}},
		"too few batches":              {detect(), []BatchDuration{took(8, 2, 90*ms, 90*ms)}},
		"a few small ones":             {detect(), []BatchDuration{took(8, 50, 14*ms, 14*ms), took(1, 60, 50*ms, 60*ms)}},
		"partly filled, not padded":    {detect(), []BatchDuration{took(7, 50, 11*ms, 12*ms)}},
		"partly filled, padded":        {detect(), []BatchDuration{took(5, 50, 14*ms, 15*ms)}},
		"microseconds":                 {short, []BatchDuration{took(8, 50, 500*time.Microsecond, ms)}},
		"hardware that is not planned": {detect(), []BatchDuration{{Hardware: "gpu", Size: 8, Batches: 50, P50: 90 * ms}}},
		"nothing":                      {detect(), nil},
	} {
		t.Run(name, func(t *testing.T) {
			p := NewPace(PaceOptions{})
			_, at := watch(t, &p, start, 10*time.Minute, test.module, test.runs...)
			assert.Zero(t, at)
			assert.Empty(t, p.Void())
		})
	}
}

func TestPaceComesAndGoes(t *testing.T) {
	p, m := NewPace(PaceOptions{}), detect()
	from := start
	for range 20 { // ten seconds slow, ten as profiled
		for _, d := range []time.Duration{31 * ms, 14 * ms} {
			_, at := watch(t, &p, from, 10*time.Second, m, took(8, 50, d, d))
			require.Zero(t, at)
			from = from.Add(10 * time.Second)
		}
	}
}

// Whatever is measured, a healed profile is a profile: above zero, rising with
// the batch, at most a step away from the old one where that rose, too; and
// what was measured exactly as profiled changes nothing.
func TestHealedProfiles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, m := NewPace(PaceOptions{}), detect()
		runs := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) BatchDuration {
			d := time.Duration(rapid.IntRange(1, 100_000).Draw(t, "µs")) * time.Microsecond
			return took(rapid.IntRange(1, 9).Draw(t, "size"), 50, d, d+time.Duration(rapid.IntRange(0, 1000).Draw(t, "more")))
		}), 1, 5).Draw(t, "runs")
		healed := p.heal(m.Profile.Points, "cpu", runs)
		require.Len(t, healed, 4)
		var last time.Duration
		for i, at := range healed {
			old := float64(m.Profile.Points[i].Duration)
			require.GreaterOrEqual(t, float64(at.Duration), float64(m.Profile.Points[0].Duration)/DefaultStep-1)
			require.LessOrEqual(t, float64(at.Duration), old*DefaultStep+1)
			require.GreaterOrEqual(t, at.Duration, last)
			require.GreaterOrEqual(t, at.Spread, time.Duration(0))
			last = at.Duration
		}
		same := p.heal(m.Profile.Points, "cpu", []BatchDuration{took(4, 50, 11*ms, 11*ms)})
		require.Equal(t, m.Profile.Points[2].Duration, same[2].Duration)
	})
}

// TestBatchesBesideEachOther are compared with what the profile states of so many at a time, and
// are no faster than it because some of them happen to run alone.
func TestBatchesBesideEachOther(t *testing.T) {
	m := detect()
	for _, p := range detect().Profile.Points {
		p.Concurrency, p.Duration = 4, 3*p.Duration
		m.Profile.Points = append(m.Profile.Points, p)
	}
	beside := func(p50 time.Duration) BatchDuration {
		r := took(8, 50, p50, p50)
		r.Concurrency = 4
		return r
	}
	for _, as := range []time.Duration{42 * ms, 14 * ms, 5 * ms} { // as profiled four at a time, and alone
		p := NewPace(PaceOptions{})
		_, at := watch(t, &p, start, 2*time.Minute, m, beside(as))
		require.Zero(t, at, "%v", as)
		require.Empty(t, p.Void())
	}
	p := NewPace(PaceOptions{})
	a, at := watch(t, &p, start, time.Minute, m, beside(84*ms))
	require.NotZero(t, at)
	require.Equal(t, "detect takes 84 ms, profiled 42 ms (batches of 8, 4 at a time, on cpu, for 15s)", a.Describe())
	for i, point := range a.Points {
		if point.Concurrency == 4 {
			require.Greater(t, point.Duration, 3*detect().Profile.Points[i%4].Duration, "%v", point)
		} else {
			require.Contains(t, detect().Profile.Points, point, "of one at a time nothing was seen")
		}
	}
}
