// Package published has the inputs of experiments, and of tests of the packages that they
// drive: numbers that the papers and their artefacts print, and inputs that are drawn
// around them. It imports the declaration alone, so that the tests of every package can use
// it.
package published

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/harpagon/harpagon/pipelines"
)

// VGG19 are the coefficients that the authors of HarmonyBatch released for
// VGG-19 (their program's conf/model.json), to six digits.
func VGG19() pipelines.FunctionProfile {
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

// HarmonyBatch are the four of the paper's Table III, by the coefficients that its
// authors released with their program (conf/model.json), to six digits. The
// share of BERT's time on GPU functions that their program takes for CPU time
// is not in the paper's equations, and not here.
func HarmonyBatch() map[string]pipelines.FunctionProfile {
	type k = pipelines.Curve
	return map[string]pipelines.FunctionProfile{
		"VGG-19": VGG19(),
		"BERT": {
			CPU: []pipelines.CPUCurves{
				{Batch: 1, Avg: k{Alpha: 1.98691, Beta: 0.298263, Gamma: 0.123642}, Max: k{Alpha: 1.80273, Beta: 0.442076, Gamma: 0.169411}},
				{Batch: 2, Avg: k{Alpha: 3.00984, Beta: 0.356766, Gamma: 0.192034}, Max: k{Alpha: 2.86393, Beta: 0.461025, Gamma: 0.260424}},
				{Batch: 3, Avg: k{Alpha: 3.67084, Beta: 0.39572, Gamma: 0.257587}, Max: k{Alpha: 3.63918, Beta: 0.488974, Gamma: 0.338585}},
				{Batch: 4, Avg: k{Alpha: 4.55862, Beta: 0.408975, Gamma: 0.321899}, Max: k{Alpha: 5.09401, Beta: 0.447957, Gamma: 0.422202}},
			},
			GPU: &pipelines.GPULine{Xi1: 0.00102927, Xi2: 0.00157641, Slice: 0.002, WholeGB: 24},
		},
		"GPT-2": {
			CPU: []pipelines.CPUCurves{
				{Batch: 1, Avg: k{Alpha: 14.8637, Beta: 0.38518, Gamma: 0.708232}, Max: k{Alpha: 18.0637, Beta: 0.376591, Gamma: 0.868924}},
				{Batch: 2, Avg: k{Alpha: 36.3689, Beta: 0.330048, Gamma: 1.21814}, Max: k{Alpha: 55.0401, Beta: 0.295548, Gamma: 1.56531}},
				{Batch: 3, Avg: k{Alpha: 33.1826, Beta: 0.360603, Gamma: 1.23594}, Max: k{Alpha: 46.9028, Beta: 0.328031, Gamma: 1.5702}},
				{Batch: 4, Avg: k{Alpha: 35.0735, Beta: 0.36335, Gamma: 1.49228}, Max: k{Alpha: 48.3286, Beta: 0.33315, Gamma: 1.80592}},
			},
			GPU: &pipelines.GPULine{Xi1: 0.00102143, Xi2: 0.200695, Slice: 0.002, WholeGB: 24, Thresholds: []int{27}},
		},
		"VideoMAE": {
			CPU: []pipelines.CPUCurves{
				{Batch: 1, Avg: k{Alpha: 4.71065, Beta: 2.43353, Gamma: 0.812329}, Max: k{Alpha: 5.67767, Beta: 2.11338, Gamma: 1.09775}},
				{Batch: 2, Avg: k{Alpha: 7.9996, Beta: 2.6169, Gamma: 1.59239}, Max: k{Alpha: 5.8491, Beta: 3.32663, Gamma: 2.01376}},
				{Batch: 3, Avg: k{Alpha: 10.2055, Beta: 2.99118, Gamma: 2.07311}, Max: k{Alpha: 8.14902, Beta: 3.63437, Gamma: 2.57616}},
				{Batch: 4, Avg: k{Alpha: 14.6988, Beta: 2.93184, Gamma: 2.60637}, Max: k{Alpha: 21.0079, Beta: 2.17621, Gamma: 3.5933}},
			},
			GPU: &pipelines.GPULine{Xi1: 0.0326338, Xi2: -0.00045, Slice: 0.002, WholeGB: 24, Thresholds: []int{0, 4, 6, 12, 14}},
		},
	}
}

// Cloud has the prices and sizes of the paper (section V-A): dollars of
// November 2023.
func Cloud() pipelines.Provider {
	return pipelines.Provider{
		Name: "cloud", VCPUSecond: 1.3e-5, GPUGBSecond: 1.5e-5, Invocation: 1.3e-7,
		VCPU:      pipelines.Grid{Min: 0.05, Max: 16, Step: 0.05},
		GPUMemory: pipelines.Grid{Min: 1, Max: 24, Step: 1}, GPUSlice: 2 * time.Millisecond,
	}
}

// DrawFunction draws the i-th input of a random suite: a model between the sizes of
// BERT and VideoMAE, 2 to most applications, prices around the paper's, billing
// as it is, by 100 ms or by the second.
func DrawFunction(seed uint64, i, most int) (pipelines.Function, pipelines.Provider) {
	r := rand.New(rand.NewPCG(seed, uint64(i)))
	between := func(low, high float64) float64 { return low * math.Pow(high/low, r.Float64()) }
	f, p := pipelines.Function{Name: fmt.Sprintf("f%d", i), Provider: "cloud"}, Cloud()
	p.GPUGBSecond *= between(0.3, 12) // both platforms get their turn
	p.Billing = []time.Duration{0, 0, 100 * time.Millisecond, time.Second}[r.IntN(4)]
	scale := between(0.3, 4)
	for b := 1; b <= 4; b++ {
		share := scale * float64(b) * between(0.75, 1)
		beta := between(0.3, 2.5)
		avg := pipelines.Curve{Alpha: 2 * share, Beta: beta, Gamma: 0.18 * share}
		most := pipelines.Curve{Alpha: avg.Alpha * between(1, 1.5), Beta: beta * between(1, 1.2), Gamma: avg.Gamma * between(1.05, 1.4)}
		f.Profile.CPU = append(f.Profile.CPU, pipelines.CPUCurves{Batch: b, Avg: avg, Max: most})
	}
	f.Profile.GPU = &pipelines.GPULine{
		Xi1: scale * between(0.0005, 0.02), Xi2: scale * between(0.001, 0.05), Slice: 0.002, WholeGB: 24,
		Thresholds: [][]int{nil, {0}, {0, 4, 6, 12, 14}}[r.IntN(3)],
	}
	fastest, _ := f.Fastest(&p)
	load := between(0.05, 10)
	for k := range 2 + r.IntN(most-1) {
		slo := time.Duration(float64(fastest) * between(1.02, 12))
		f.Applications = append(f.Applications, pipelines.Application{
			Name: fmt.Sprintf("app%d", k+1), SLO: slo, Rate: load * between(0.1, 10),
		})
	}
	return f, p
}

// AuthorsCloud has the terms of the program that the authors of HarmonyBatch released: yuan,
// GPU functions billed by whole seconds with a third of a vCPU for each GB and host memory, and
// longest latencies 1.2 times as long on a part of a GPU.
func AuthorsCloud() pipelines.Provider {
	p := Cloud()
	p.VCPUSecond, p.GPUGBSecond, p.Invocation = 9e-5, 1.1e-4, 9e-7
	p.MemoryGBSecond, p.MemoryPerVCPU = 9e-6, pipelines.Grid{Min: 1, Max: 4, Step: 1.0 / 16}
	p.GPUBilling, p.GPUVCPUPerGB, p.GPULatencyFactor = time.Second, 1.0/3, 1.2
	return p
}

// VGG19Memory is what that program takes VGG-19 to need of main memory.
func VGG19Memory() pipelines.HostMemory {
	return pipelines.HostMemory{PerRequestMB: 36.57142857, FixedMB: 807.6190476, GPUGB: 0.5}
}
