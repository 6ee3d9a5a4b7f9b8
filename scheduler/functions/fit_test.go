package functions

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/experiments/published"
	"github.com/harpagon/harpagon/pipelines"
)

// measured draws calls of a model from its coefficients: for every configuration an average
// and a maximum, so that the mean is right.
func measured(p pipelines.FunctionProfile, noise float64, r *rand.Rand) []Sample {
	var all []Sample
	call := func(platform Platform, size float64, batch int, avg, most float64) {
		shake := func(x float64) float64 { return x * (1 + noise*r.NormFloat64()) }
		most = max(avg, most)
		const calls = 100
		for range calls - 1 {
			all = append(all, Sample{platform, size, batch, shake((calls*avg - most) / (calls - 1))})
		}
		all = append(all, Sample{platform, size, batch, shake(most)})
	}
	for _, c := range p.CPU {
		for _, size := range []float64{0.5, 0.75, 1, 1.5, 2, 3, 4} {
			call(CPU, size, c.Batch, c.Avg.At(size), c.Max.At(size))
		}
	}
	if g := p.GPU; g != nil {
		d := pipelines.GPUDevice{Memory: g.WholeGB, Slice: g.Slice}
		for _, m := range []float64{2, 4, 8, g.WholeGB} {
			for _, b := range []int{1, 4, 8, 16, 32} {
				call(GPU, m, b, g.Avg(b, m, d), max(g.Avg(b, m, d), g.Max(b, m, d)))
			}
		}
	}
	return all
}

func TestFitFindsTheCoefficients(t *testing.T) {
	want := published.VGG19()
	got, report, err := Fit(measured(want, 0, rand.New(rand.NewPCG(1, 1))), 0)
	require.NoError(t, err)
	require.Len(t, got.CPU, 4)
	for i, c := range got.CPU {
		assert.InEpsilon(t, want.CPU[i].Avg.Alpha, c.Avg.Alpha, 1e-3)
		assert.InEpsilon(t, want.CPU[i].Avg.Beta, c.Avg.Beta, 1e-3)
		assert.InEpsilon(t, want.CPU[i].Avg.Gamma, c.Avg.Gamma, 1e-3)
		assert.InEpsilon(t, want.CPU[i].Max.Beta, c.Max.Beta, 0.05)
	}
	assert.InEpsilon(t, want.GPU.Xi1, got.GPU.Xi1, 1e-6)
	assert.InEpsilon(t, want.GPU.Xi2, got.GPU.Xi2, 1e-6)
	assert.InEpsilon(t, want.GPU.Slice, got.GPU.Slice, 0.05)
	assert.Less(t, report.Worst(), 0.05)
	assert.Contains(t, report.Describe(), "cpu, batch 3, maximum")
}

func TestFitOfNoisyCalls(t *testing.T) {
	want := published.VGG19()
	got, report, err := Fit(measured(want, 0.05, rand.New(rand.NewPCG(1, 2))), 24)
	require.NoError(t, err)
	for i, c := range got.CPU {
		for _, size := range []float64{0.5, 1, 1.6, 4} {
			assert.InEpsilon(t, want.CPU[i].Avg.At(size), c.Avg.At(size), 0.03)
		}
	}
	assert.InEpsilon(t, want.GPU.Whole(16), got.GPU.Whole(16), 0.02)
	assert.Less(t, report.Worst(), 0.25)
}

// TestFitIsNoWorseThanTheTruth: least squares means that no coefficients have
// smaller squares, those that made the measurements included.
func TestFitIsNoWorseThanTheTruth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := pipelines.Curve{
			Alpha: rapid.Float64Range(0.1, 20).Draw(t, "alpha"), Beta: rapid.Float64Range(0.2, 4).Draw(t, "beta"), Gamma: rapid.Float64Range(0.05, 3).Draw(t, "gamma"),
		}
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		var sizes, latency []float64
		for c := 0.5; c <= 8; c += 0.5 {
			sizes, latency = append(sizes, c), append(latency, k.At(c)*(1+0.05*r.Float64()))
		}
		got := fitCurve(sizes, latency)
		assert.LessOrEqual(t, relativeSquares(sizes, latency, got.At), relativeSquares(sizes, latency, k.At)*(1+1e-6))
	})
}

func TestFitRefuses(t *testing.T) {
	for want, samples := range map[string][]Sample{
		"no measurements": nil,
		`platform "tpu"`:  {{"tpu", 1, 1, 1}},
		"above zero":      {{CPU, 1, 1, 0}},
		"three":           {{CPU, 1, 1, 1}, {CPU, 2, 1, 1}},
		"two batch sizes": {{GPU, 24, 1, 1}, {GPU, 12, 1, 2}},
		"smaller batches": {{GPU, 24, 8, 1}, {GPU, 24, 16, 5}},
	} {
		_, _, err := Fit(samples, 0)
		assert.ErrorContains(t, err, want)
	}
	_, _, err := Fit([]Sample{{GPU, 24, 1, 1}, {GPU, 24, 2, 2}}, 16)
	assert.ErrorContains(t, err, "device of 16 GB")
}

func ExampleFit() {
	calls := measured(published.VGG19(), 0, rand.New(rand.NewPCG(1, 1)))
	p, report, err := Fit(calls, 24)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%d batch sizes on CPU functions, GPU %.5f s per request; at most %.0f %% off\n", len(p.CPU), p.GPU.Xi1, 100*report.Worst())
	// Output:
	// 4 batch sizes on CPU functions, GPU 0.00168 s per request; at most 0 % off
}

// Where all measured functions are large enough, the curve is still valid for smaller ones,
// and a profile can hold it.
func TestFitOfLargeFunctions(t *testing.T) {
	var samples []Sample
	for i, size := range []float64{2, 4, 6, 10, 16} {
		for _, off := range []float64{0.99, 1.01} {
			samples = append(samples, Sample{Platform: CPU, Size: size, Batch: 1, Seconds: 0.18*off + []float64{0.04, 0, 0, 0, 0}[i]})
		}
	}
	p, _, err := Fit(samples, 0)
	require.NoError(t, err)
	for _, k := range []pipelines.Curve{p.CPU[0].Avg, p.CPU[0].Max} {
		assert.LessOrEqual(t, k.Alpha, 86400.0)
		assert.InEpsilon(t, 0.22, k.At(2), 0.03)
		assert.InEpsilon(t, 0.18, k.At(16), 0.03)
	}
}
