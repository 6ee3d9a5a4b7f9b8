package division

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/flow"
)

// linear is a module with l(b) = each·b + fixed milliseconds.
func linear(name, above string, each, fixed, most int) pipelines.Module {
	m := pipelines.Module{Name: name, Fanout: 1, Inputs: []pipelines.Binding{{Name: "x", From: pipelines.Ref{Module: above, Port: "y"}}}}
	for b := 1; b <= most; b++ {
		m.Profile.Points = append(m.Profile.Points, pipelines.Point{Hardware: "gpu", Batch: b, Concurrency: 1, Duration: time.Duration(each*b+fixed) * time.Millisecond})
	}
	return m
}

// TestLeastWorkTwin: no choice of batches does less work within the objective, on
// a chain and on a fork.
func TestLeastWorkTwin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := pipelines.Pipeline{Name: "p", Rate: float64(rapid.IntRange(1, 200).Draw(t, "rate")), SLO: time.Duration(rapid.IntRange(20, 300).Draw(t, "slo")) * time.Millisecond}
		above := []string{"", "m0", rapid.SampledFrom([]string{"m0", "m1"}).Draw(t, "above")}
		for i := range rapid.IntRange(1, 3).Draw(t, "modules") {
			p.Modules = append(p.Modules, linear(fmt.Sprintf("m%d", i), above[i], rapid.IntRange(1, 10).Draw(t, "each"), rapid.IntRange(0, 20).Draw(t, "fixed"), 6))
			p.Modules[i].Fanout = float64(rapid.IntRange(1, 3).Draw(t, "fanout"))
		}
		want := brute(&p, above)
		d, err := Of(p, "gpu", 0)
		if math.IsInf(want, 1) {
			require.ErrorContains(t, err, "cannot be met")
			return
		}
		require.NoError(t, err)
		require.InEpsilon(t, want, d.Work, 1e-6)
		require.LessOrEqual(t, d.Bound, want*(1+1e-9))
		require.InEpsilon(t, want, d.Bound, 1e-5)
		require.LessOrEqual(t, d.Least, want*(1+1e-9))
		for _, longest := range paths(&p, above) {
			sum := time.Duration(0)
			for _, m := range longest {
				sum += d.Budgets[m]
			}
			require.LessOrEqual(t, sum, p.SLO)
		}
	})
}

// paths are those from the first module to each.
func paths(p *pipelines.Pipeline, above []string) [][]string {
	var all [][]string
	for i := range p.Modules {
		path := []string{p.Modules[i].Name}
		for k := i; above[k] != ""; {
			path = append(path, above[k])
			k = int(above[k][1] - '0')
		}
		all = append(all, path)
	}
	return all
}

func brute(p *pipelines.Pipeline, above []string) float64 {
	best, rates := math.Inf(1), p.Rates()
	batch := make([]int, len(p.Modules))
	for {
		need, work := map[string]float64{}, 0.0
		for i, b := range batch {
			name := p.Modules[i].Name
			l := flow.DurationTable(&p.Modules[i], "gpu")[b].Seconds()
			need[name] = l + float64(b)/rates[name]
			work += rates[name] * l / float64(b+1)
		}
		fits := true
		for _, path := range paths(p, above) {
			sum := 0.0
			for _, m := range path {
				sum += need[m]
			}
			fits = fits && sum <= p.SLO.Seconds()+1e-12
		}
		if fits {
			best = min(best, work)
		}
		i := 0
		for ; i < len(batch); i++ {
			if batch[i]++; batch[i] < 6 {
				break
			}
			batch[i] = 0
		}
		if i == len(batch) {
			return best
		}
	}
}

// TestOneModule: a pipeline of one module has its whole objective, and l(b)·(1+1/n)
// bounds its batch: the setting of Symphony's table 4.
func TestOneModule(t *testing.T) {
	m := linear("m", "", 0, 0, 0)
	for b := 1; b <= 64; b++ {
		m.Profile.Points = append(m.Profile.Points, pipelines.Point{Hardware: "gpu", Batch: b, Concurrency: 1, Duration: time.Duration(5072+1053*b) * time.Microsecond})
	}
	d, err := Of(pipelines.Pipeline{Name: "p", SLO: 25 * time.Millisecond, Rate: 5839, Modules: []pipelines.Module{m}}, "gpu", 0)
	require.NoError(t, err)
	assert.Equal(t, 25*time.Millisecond, d.Budgets["m"])
	assert.InDelta(t, 8, d.Work, 0.01) // devices that take turns with batches of 16
	_, err = Of(pipelines.Pipeline{Name: "p", SLO: time.Second, Rate: 1, Modules: []pipelines.Module{m}}, "tpu", 0)
	assert.ErrorContains(t, err, `no profile on "tpu"`)
}

// A short module may have to wait for a device that is busy with a long one, even where
// all the time could buy longer batches: as long as the longest takes for one request,
// or its part of half of what is left.
func TestEveryModuleHasTimeToWait(t *testing.T) {
	for _, slo := range []time.Duration{500 * time.Millisecond, 120 * time.Millisecond} {
		p := pipelines.Pipeline{Name: "p", SLO: slo, Rate: 1, Modules: []pipelines.Module{linear("short", "", 0, 1, 1), linear("batches", "short", 1, 20, 64)}}
		long := pipelines.Pipeline{Modules: []pipelines.Module{linear("long", "", 0, 90, 1)}}
		blocking := Blocking("gpu", p, long)
		assert.Equal(t, 90*time.Millisecond, blocking)
		d, err := Of(p, "gpu", blocking)
		require.NoError(t, err)
		wait := min(blocking, (slo-22*time.Millisecond)/4)
		assert.GreaterOrEqual(t, d.Budgets["short"], time.Millisecond+wait)
		assert.GreaterOrEqual(t, d.Budgets["batches"], 21*time.Millisecond+wait)
		assert.LessOrEqual(t, d.Budgets["short"]+d.Budgets["batches"], slo)
	}
}
