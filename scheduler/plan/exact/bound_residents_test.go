package exact

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/demand"
)

// No two groups that pass the processor-demand test start batches on a shared device more
// seldom than beside allows.
func TestBesideAgainstTheDemandTest(t *testing.T) {
	draw(t, "10000") // of which three come near the bound in a hundred
	sound, near := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		m := &resident{ModuleProblem: &plan.ModuleProblem{Rate: rapid.Float64Range(5, 200).Draw(t, "rate")}}
		config := func(name string) *plan.Config {
			c := &plan.Config{}
			c.Batch, c.Concurrency = rapid.IntRange(1, 32).Draw(t, name+" batch"), 1
			c.Duration = time.Duration(rapid.IntRange(5, 200).Draw(t, name+" ms")) * time.Millisecond
			return c
		}
		own, shared := config("own"), config("shared")
		n := float64(rapid.IntRange(1, 4).Draw(t, "devices"))
		latency := own.Duration.Seconds() * rapid.Float64Range(1.1, 3).Draw(t, "latency")
		takes := latency * rapid.Float64Range(0.05, 0.9).Draw(t, "takes")
		most := m.beside(own, n, shared, latency, takes)

		a := demand.Group{Period: own.Interval() / n * rapid.SampledFrom([]float64{1, 1, 1.1, 1.5, 2}).Draw(t, "slower"), Window: latency - own.Duration.Seconds()}
		b := demand.Group{Window: latency - takes}
		b.Period = a.Period * rapid.SampledFrom([]float64{0.25, 1.0 / 3, 0.5, 2.0 / 3, 0.75, 1, 4.0 / 3, 1.5, 2, 2.5, 3, 4, 5}).Draw(t, "ratio")
		part := rapid.Float64Range(0.01, 0.99).Draw(t, "part")
		a.Batch, b.Batch = part*m.Rate*a.Period, (1-part)*m.Rate*b.Period
		if a.Batch > float64(own.Batch) || b.Batch > float64(shared.Batch) || !demand.Test(m.Rate, []demand.Group{a, b}).Sound {
			return
		}
		require.LessOrEqual(t, b.Period, most*(1+1e-9))
		if sound++; b.Period > most/2 {
			near++
		}
	})
	t.Logf("of %d pairs that are sound %d come within a factor of two", sound, near)
	assert.Positive(t, near)
}

// Of a kind of which very many serve a module alone, a device that it shares may save more
// than one: they are not counted, and cost no more than a plan with both does.
func TestManyOwnDevicesBesideASharedOne(t *testing.T) {
	config := func(hardware string, batch int, ms float64) plan.Config {
		c := plan.Config{}
		c.Hardware, c.Batch, c.Concurrency, c.Duration = hardware, batch, 1, time.Duration(ms*1e6)
		return c
	}
	s := &devices{problems: []*plan.Prepared{{}}, kinds: []boundDevice{{"slow", 1}, {"fast", 20}}}
	m := &plan.ModuleProblem{Rate: 1600, Configs: []plan.Config{config("slow", 2, 100), config("fast", 80, 100)}}
	r := &residents{s: s, known: map[boundGroup]*uses{}, modules: []resident{s.resident(0, 0, m, time.Second)}}
	other := r.modules[0]
	r.modules = append(r.modules, other)
	i := len(r.modules[0].budgets) - 1
	x := &node{set: 0b11, sites: []site{{kind: 0, members: 0b11}, {kind: 1, members: 0b11}}, from: []int{0, 0}, to: []int{i, i}, low: []float64{1, 0}, top: []float64{100, 100}}
	require.Greater(t, r.modules[0].counts[0][i], residentCounts)
	u := r.running(x, 0)
	for _, price := range []float64{1, 5, 20} {
		// Half of the stream on 40 slow devices, half on a fast one.
		assert.LessOrEqual(t, u.at(i, []float64{1e6, price}, nil), 40+price+1e-9)
	}
}
