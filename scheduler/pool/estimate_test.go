package pool

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/experiments/published"
)

// Tolerances against published figures.
const (
	rounding = 1e-6 // of bounds recomputed from the same rounded inputs
	noisy    = 0.15 // of throughputs, ours from straight lines instead of measurements
	noisyCut = 0.04 // of shares, for the same reason: the size that violates moves
)

// printed is the allocator's input for one model as it was published with the
// paper (boringlee24/hpdc23-kairos fa20590, allocator_profile.json): queries per
// second of one base instance, and for c5n.2xlarge, r5n.large and t3.xlarge
// their queries per second, share of queries, and share of the base's time.
// limited holds queries per second up to the limit of a stronger type: of r5n
// up to that of c5n, of t3 up to that of c5n and of r5n.
type printed struct {
	model   string
	base    float64
	types   [3][3]float64
	limited [3]float64
	top     map[[4]int]float64 // upper bounds by Eq. 15
	choice  []int
}

func printedModels() []printed {
	return []printed{
		{"ncf", 861.33, [3][3]float64{{690.13, 0.985, 0.973}, {499.0, 0.967, 0.942}, {407.0, 0.858, 0.756}}, [3]float64{486.14, 317.16, 335.46},
			map[[4]int]float64{{1, 0, 13, 0}: 7180.6206, {1, 0, 12, 1}: 7021.3086, {1, 1, 10, 0}: 6345.2271}, []int{1, 0, 13, 0}},
		{"rm2", 15.04, [3][3]float64{{10.73, 0.989, 0.959}, {10.39, 0.984, 0.941}, {6.39, 0.837, 0.614}}, [3]float64{10.27, 4.74, 4.83},
			map[[4]int]float64{{1, 0, 13, 0}: 144.2076, {1, 0, 12, 1}: 138.8905, {1, 1, 9, 1}: 119.667}, []int{1, 0, 13, 0}},
		{"wnd", 246.18, [3][3]float64{{126.04, 0.971, 0.940}, {106.1, 0.951, 0.903}, {67.98, 0.804, 0.700}}, [3]float64{102.08, 52.74, 54.11},
			map[[4]int]float64{{1, 0, 13, 0}: 1555.8623, {2, 0, 9, 0}: 1399.0632, {1, 1, 10, 0}: 1356.4062}, []int{1, 0, 13, 0}},
		{"mtwnd", 167.36, [3][3]float64{{100.18, 0.934, 0.877}, {89.4, 0.877, 0.792}, {57.27, 0.745, 0.635}}, [3]float64{82.47, 41.94, 45.39},
			map[[4]int]float64{{2, 0, 9, 0}: 1061.3371, {1, 1, 10, 0}: 1035.7966, {2, 0, 8, 1}: 1021.5926, {1, 1, 9, 1}: 997.74}, []int{2, 0, 8, 1}},
		{"dien", 105.56, [3][3]float64{{69.52, 0.873, 0.808}, {63.06, 0.857, 0.788}, {41.45, 0.741, 0.657}}, [3]float64{61.44, 32.76, 33.52},
			map[[4]int]float64{{2, 0, 9, 0}: 732.9654, {2, 0, 8, 1}: 705.8038, {2, 1, 6, 0}: 616.6564}, []int{2, 0, 9, 0}},
	}
}

// estimate is Eq. 15 on the published inputs.
func (p printed) estimate(counts []int) float64 {
	strongest := -1
	for i := range p.types {
		if counts[1+i] > 0 && (strongest < 0 || p.types[i][1] > p.types[strongest][1]) {
			strongest = i
		}
	}
	if strongest < 0 {
		return float64(counts[0]) * p.base
	}
	share, spent := p.types[strongest][1], p.types[strongest][2]
	r := rates{Base: p.base, Share: share, Large: p.base * (1 - share) / (1 - spent)}
	for i := range p.types {
		rate := p.types[i][0]
		switch {
		case i == 1 && strongest == 0:
			rate = p.limited[0]
		case i == 2 && strongest < 2:
			rate = p.limited[1+strongest]
		}
		r.Auxiliary = append(r.Auxiliary, rate)
	}
	return r.Estimate(counts[0], counts[1:])
}

func TestUpperBoundsOfThePaper(t *testing.T) {
	for i, p := range printedModels() {
		t.Run(p.model, func(t *testing.T) {
			for counts, want := range p.top {
				assert.InEpsilon(t, want, p.estimate(counts[:]), rounding, counts)
			}
			m, err := newMarket(problem(published.KairosModels()[i]))
			require.NoError(t, err)
			all, err := m.configurations()
			require.NoError(t, err)
			require.Len(t, all, 331)
			for i := range all {
				all[i].rate = p.estimate(all[i].counts)
			}
			m.rank(all)
			assert.Equal(t, p.choice, choose(all, 0).counts)
		})
	}
}

// TestEstimatesFromProfiles holds that profile and mix lead to the published
// inputs and to the same choices. A type serves the sizes below the first that
// violates the objective; the published inputs count that size, too, so theirs
// are the rates of one size more.
func TestEstimatesFromProfiles(t *testing.T) {
	for i, p := range printedModels() {
		t.Run(p.model, func(t *testing.T) {
			m, err := newMarket(problem(published.KairosModels()[i]))
			require.NoError(t, err)
			assert.InEpsilon(t, p.base, m.throughput(0, 0, len(m.sizes)), noisy)
			for g, want := range p.types {
				reach := min(m.kinds[1+g].serves+1, len(m.sizes))
				assert.InEpsilon(t, want[0], m.throughput(1+g, 0, reach), noisy, "queries per second of %s", m.kinds[1+g].name)
				assert.InDelta(t, want[1], m.share(reach), noisyCut, "share of %s", m.kinds[1+g].name)
			}
			all, err := m.configurations()
			require.NoError(t, err)
			s := solver{market: m}
			assert.Equal(t, p.choice, s.kairosChoice(all).counts)
		})
	}
}

func TestPaperMix(t *testing.T) {
	m := published.KairosMix()
	assert.InDelta(t, 1, m.Total(), rounding)
	assert.InDelta(t, 243, m.Mean(), 1, "as published")
	below := 0.0
	for _, s := range m {
		if s.Size <= 200 {
			below += s.Weight
		}
	}
	assert.InDelta(t, 0.729, below, 0.002, "as published")
}

func TestEstimateByHand(t *testing.T) {
	r := rates{Base: 10, Large: 4, Auxiliary: []float64{8}, Share: 0.8}
	assert.Equal(t, 20.0, r.Estimate(2, []int{0}), "no auxiliary instance")
	assert.InDelta(t, 4/0.2, r.Estimate(1, []int{3}), rounding, "the base is the bottleneck: C = 24·0.2/0.8 = 6")
	assert.InDelta(t, 8/0.8+(4-2)/4.0*10, r.Estimate(1, []int{1}), rounding, "the auxiliary type is: C = 2")
	r.Share = 1
	assert.Equal(t, 26.0, r.Estimate(1, []int{2}), "it serves all sizes")
	r.Share = 0
	assert.Equal(t, 10.0, r.Estimate(1, []int{2}), "it serves none")
}

func TestChoose(t *testing.T) {
	ranked := func(all ...[]int) (c []configuration) {
		for _, counts := range all {
			c = append(c, configuration{counts: counts})
		}
		return c
	}
	assert.Equal(t, []int{2, 9}, choose(ranked([]int{2, 9}, []int{2, 8}, []int{2, 7}, []int{1, 9}), 0).counts)
	assert.Equal(t, []int{2, 7}, choose(ranked([]int{2, 9}, []int{1, 9}, []int{2, 7}, []int{2, 6}, []int{3, 6}), 0).counts, "the middle")
	assert.Equal(t, []int{1, 0}, choose(ranked([]int{1, 0}), 0).counts)
}
