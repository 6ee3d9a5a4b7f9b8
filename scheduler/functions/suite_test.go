package functions

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/harpagon/harpagon/pipelines"
)

// vgg19 are the coefficients that the authors of HarmonyBatch released for
// VGG-19 (their program's conf/model.json), to six digits.
func vgg19() pipelines.FunctionProfile {
	curve := func(b int, avg, most pipelines.Curve) pipelines.CPUCurves {
		return pipelines.CPUCurves{Batch: b, Avg: avg, Max: most}
	}
	type k = pipelines.Curve
	return pipelines.FunctionProfile{
		CPU: []pipelines.CPUCurves{
			curve(1, k{Alpha: 1.82607, Beta: 0.528373, Gamma: 0.180154}, k{Alpha: 2.80468, Beta: 0.486197, Gamma: 0.248602}),
			curve(2, k{Alpha: 4.84907, Beta: 0.432251, Gamma: 0.364475}, k{Alpha: 4.92190, Beta: 0.489093, Gamma: 0.393280}),
			curve(3, k{Alpha: 6.52504, Beta: 0.459234, Gamma: 0.533468}, k{Alpha: 6.94390, Beta: 0.505163, Gamma: 0.569539}),
			curve(4, k{Alpha: 8.92256, Beta: 0.448473, Gamma: 0.756989}, k{Alpha: 9.65160, Beta: 0.465926, Gamma: 0.828771}),
		},
		GPU: &pipelines.GPULine{Xi1: 0.00167984, Xi2: 0.00211309, Slice: 0.002, WholeGB: 24, Thresholds: []int{0}},
	}
}

// cloud has the prices and sizes of the paper (section V-A): dollars of
// November 2023.
func cloud() pipelines.Provider {
	return pipelines.Provider{
		Name: "cloud", VCPUSecond: 1.3e-5, GPUGBSecond: 1.5e-5, Invocation: 1.3e-7,
		VCPU:      pipelines.Grid{Min: 0.05, Max: 16, Step: 0.05},
		GPUMemory: pipelines.Grid{Min: 1, Max: 24, Step: 1}, GPUSlice: 2 * time.Millisecond,
	}
}

// ask makes a problem of pairs of objective (seconds) and rate.
func ask(pairs ...float64) Problem {
	f := pipelines.Function{Name: "vgg19", Provider: "cloud", Profile: vgg19()}
	for i := 0; i+1 < len(pairs); i += 2 {
		slo := time.Duration(math.Round(pairs[i] * 1e9))
		f.Applications = append(f.Applications, pipelines.Application{Name: fmt.Sprintf("app%d", i/2+1), SLO: slo, Rate: pairs[i+1]})
	}
	return Problem{Function: f, Provider: cloud()}
}

// drawn is the i-th input of the random suite: a model between the sizes of
// BERT and VideoMAE, 2 to most applications, prices around the paper's, billing
// as it is, by 100 ms or by the second.
func drawn(seed uint64, i, most int) Problem {
	r := rand.New(rand.NewPCG(seed, uint64(i)))
	between := func(low, high float64) float64 { return low * math.Pow(high/low, r.Float64()) }
	p := Problem{Function: pipelines.Function{Name: fmt.Sprintf("f%d", i), Provider: "cloud"}, Provider: cloud()}
	p.Provider.GPUGBSecond *= between(0.3, 12) // both platforms get their turn
	p.Provider.Billing = []time.Duration{0, 0, 100 * time.Millisecond, time.Second}[r.IntN(4)]
	scale := between(0.3, 4)
	for b := 1; b <= 4; b++ {
		share := scale * float64(b) * between(0.75, 1)
		beta := between(0.3, 2.5)
		avg := pipelines.Curve{Alpha: 2 * share, Beta: beta, Gamma: 0.18 * share}
		most := pipelines.Curve{Alpha: avg.Alpha * between(1, 1.5), Beta: beta * between(1, 1.2), Gamma: avg.Gamma * between(1.05, 1.4)}
		p.Function.Profile.CPU = append(p.Function.Profile.CPU, pipelines.CPUCurves{Batch: b, Avg: avg, Max: most})
	}
	p.Function.Profile.GPU = &pipelines.GPULine{
		Xi1: scale * between(0.0005, 0.02), Xi2: scale * between(0.001, 0.05), Slice: 0.002, WholeGB: 24,
		Thresholds: [][]int{nil, {0}, {0, 4, 6, 12, 14}}[r.IntN(3)],
	}
	fastest, _ := p.Function.Fastest(&p.Provider)
	load := between(0.05, 10)
	for k := range 2 + r.IntN(most-1) {
		slo := time.Duration(float64(fastest) * between(1.02, 12))
		p.Function.Applications = append(p.Function.Applications, pipelines.Application{
			Name: fmt.Sprintf("app%d", k+1), SLO: slo, Rate: load * between(0.1, 10),
		})
	}
	return p
}
