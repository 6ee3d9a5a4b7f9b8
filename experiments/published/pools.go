package published

import (
	"math"
	"time"

	"github.com/harpagon/harpagon/pipelines"
)

// What the Kairos paper was measured on. Prices and objectives are those of
// its tables 3 and 4; the lines are least-squares fits of latency (ms) over
// query size to the measurements that were published with it
// (boringlee24/hpdc23-kairos fa20590, Zenodo 7888058).

// KairosBudget is money per hour.
const KairosBudget = 2.5

// KairosTypes are the kinds of instances, the base first.
func KairosTypes() []string { return []string{"g4dn.xlarge", "c5n.2xlarge", "r5n.large", "t3.xlarge"} }

// KairosPrices are those of KairosTypes per hour.
func KairosPrices() []float64 { return []float64{0.526, 0.432, 0.149, 0.1664} }

// KairosModel is a model that a pool serves.
type KairosModel struct {
	Name  string
	slo   time.Duration
	lines [4][2]float64 // ms per item, ms, by type
}

// KairosModels are the five of the paper.
func KairosModels() []KairosModel {
	return []KairosModel{
		{"ncf", 5 * time.Millisecond, [4][2]float64{{0.001800, 0.7129}, {0.005724, 0.1677}, {0.006347, 0.5399}, {0.013001, 0.1376}}},
		{"rm2", 350 * time.Millisecond, [4][2]float64{{0.257456, 3.6991}, {0.386595, 2.5968}, {0.400926, 3.9046}, {0.882743, 2.8267}}},
		{"wnd", 25 * time.Millisecond, [4][2]float64{{0.007037, 2.3413}, {0.031765, 0.8475}, {0.036892, 1.6885}, {0.061783, 5.4913}}},
		{"mtwnd", 25 * time.Millisecond, [4][2]float64{{0.010213, 3.5031}, {0.043443, 0.9227}, {0.050087, 1.8089}, {0.075440, 8.6445}}},
		{"dien", 35 * time.Millisecond, [4][2]float64{{0.012383, 6.5618}, {0.076287, 0.5248}, {0.081780, 0.8427}, {0.127075, 7.6749}}},
	}
}

// Pool is the model's pool under the paper's budget, and what its hardware
// costs.
func (m KairosModel) Pool() (pipelines.Pool, []pipelines.Hardware) {
	p := pipelines.Pool{Name: m.Name, SLO: m.slo, Budget: KairosBudget, Base: KairosTypes()[0], Hardware: KairosTypes(), Sizes: KairosMix()}
	var all []pipelines.Hardware
	for g, name := range KairosTypes() {
		all = append(all, pipelines.Hardware{Name: name, Price: KairosPrices()[g]})
		for size := 10; size <= 1000; size += 10 {
			ms := m.lines[g][0]*float64(size) + m.lines[g][1]
			p.Profile.Points = append(p.Profile.Points, pipelines.Point{
				Hardware: name, Batch: size, Concurrency: 1, Duration: time.Duration(ms * float64(time.Millisecond)),
			})
		}
	}
	return p, all
}

// KairosMix is the published sampler of query sizes, worked out: with chance
// 8/99 uniform in 1..99, 22/99 in 200..599, 5/99 in 600..999, else lognormal
// (5.1, 0.2) kept to 100..200 and otherwise uniform in 190..199; rounded up to a
// multiple of ten.
func KairosMix() pipelines.Mix {
	weight := map[int]float64{}
	uniform := func(low, high int, share float64) {
		for x := low; x <= high; x++ {
			weight[(x+9)/10*10] += share / float64(high-low+1)
		}
	}
	uniform(1, 99, 8.0/99)
	uniform(200, 599, 22.0/99)
	uniform(600, 999, 5.0/99)
	below := func(x float64) float64 { return math.Erfc(-(math.Log(x)-5.1)/(0.2*math.Sqrt2)) / 2 }
	rest := 64.0 / 99
	for x := 100; x < 200; x += 10 {
		weight[x+10] += rest * (below(float64(x+10)) - below(float64(x)))
	}
	uniform(190, 199, rest*(1-below(200)+below(100)))
	var m pipelines.Mix
	for size := 10; size <= 1000; size += 10 {
		if weight[size] > 0 {
			m = append(m, pipelines.Size{Size: size, Weight: weight[size]})
		}
	}
	return m
}
