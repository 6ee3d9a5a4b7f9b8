package pipelines

import (
	"encoding/json"
	"math"
	"time"
)

// FunctionProfile is what a model takes as a function: one entry for every
// batch size that CPU functions may run, and the model's line on a GPU.
type FunctionProfile struct {
	CPU []CPUCurves // in rising order of batch
	GPU *GPULine    // nil where the model does not run on GPUs

	Memory HostMemory `json:",omitzero"` // for providers that bill it
	Calls  CallTimes  `json:",omitzero"` // measured beside the model
}

// CallTimes is what 99 of 100 calls take no longer for besides the model, in seconds;
// not billed.
type CallTimes struct {
	Way       float64 // to the provider and back
	ColdStart float64 // until a new instance runs
}

// CallOverhead is what a call takes at most besides the model, in every plan: what the
// provider declares, or what was measured where that is longer.
func (f *Function) CallOverhead(p *Provider) time.Duration {
	return max(p.Overhead, time.Duration(f.Profile.Calls.Way*float64(time.Second)))
}

// HostMemory is what a model needs of a function's main memory.
type HostMemory struct {
	PerRequestMB float64 // MiB for each request of a batch, on CPU functions
	FixedMB      float64 // MiB besides
	GPUGB        float64 // GB of a GPU function, whatever the batch
}

// OnCPU is the memory in GB of a CPU function with so many vCPUs that runs batches of
// b, in whole steps of what the provider offers; false where it offers too little.
func (m HostMemory) OnCPU(p *Provider, vcpu float64, b int) (float64, bool) {
	const mebibytes = 1024
	need := (m.PerRequestMB*float64(b) + m.FixedMB) / mebibytes
	g := p.MemoryPerVCPU
	up := func(x float64) float64 {
		if g.Step > 0 {
			return math.Ceil(x/g.Step-GridTolerance) * g.Step
		}
		return x
	}
	has := math.Max(up(need), up(g.Min*vcpu))
	return has, g.Max == 0 || has <= g.Max*vcpu*(1+GridTolerance)
}

// CPUCurves are the latencies of one batch on CPU functions.
type CPUCurves struct {
	Batch    int
	Avg, Max Curve
}

// Curve is a latency that falls exponentially with the vCPUs that a function
// has (HarmonyBatch, equation 1).
type Curve struct {
	Alpha float64 // seconds
	Beta  float64 // vCPU
	Gamma float64 // seconds
}

// At is the latency with c vCPUs, in seconds.
func (k Curve) At(c float64) float64 { return k.Alpha*math.Exp(-c/k.Beta) + k.Gamma }

// GPULine is the latency of a batch on a whole GPU, which rises in a straight
// line with the batch (HarmonyBatch, equation 2), and what is known of the GPU.
type GPULine struct {
	Xi1, Xi2   float64 // seconds per request, and seconds
	Slice      float64 // seconds per GB and round, where the provider says nothing
	WholeGB    float64 // memory of the whole device; 0 where only the provider knows
	Thresholds []int   // batches up to Thresholds[i] fit i+1 GB; larger ones need one GB more than there are thresholds
	MaxBatch   int     // largest batch to plan with; DefaultGPUBatch when 0
}

// DefaultGPUBatch is the largest batch that plans consider on GPUs, as in the
// paper.
const DefaultGPUBatch = 32

// DefaultGPUSlice is the length of a time slice for one GB of GPU memory, in
// seconds, where neither provider nor profile says otherwise (the paper's
// measurement on cGPU).
const DefaultGPUSlice = 0.002

// sliceTolerance keeps a demand of exactly k slices from counting as k+1.
const sliceTolerance = 1e-9

// GPUDevice is how a provider shares one GPU among functions.
type GPUDevice struct {
	Memory float64 // GB of the whole device
	Slice  float64 // seconds per GB and round
	Factor float64 // of the longest latency on a part of it; 0 means 1
}

// Device that the function runs on: the provider's slice goes before the
// profile's, and the device that was profiled before the largest size on offer.
func (g *GPULine) Device(p *Provider) GPUDevice {
	d := GPUDevice{Memory: g.WholeGB, Slice: p.GPUSlice.Seconds(), Factor: p.GPULatencyFactor}
	if d.Memory == 0 {
		d.Memory = p.GPUMemory.Max
	}
	if d.Slice == 0 {
		d.Slice = g.Slice
	}
	if d.Slice == 0 {
		d.Slice = DefaultGPUSlice
	}
	return d
}

// Batches is the largest batch to plan with.
func (g *GPULine) Batches() int {
	if g.MaxBatch > 0 {
		return g.MaxBatch
	}
	return DefaultGPUBatch
}

// Memory is the least that a batch of b needs, in GB.
func (g *GPULine) Memory(b int) float64 {
	for i, most := range g.Thresholds {
		if b <= most {
			return float64(i + 1)
		}
	}
	return float64(len(g.Thresholds) + 1)
}

// Whole is the latency of a batch of b that has the device to itself, in
// seconds (equation 2).
func (g *GPULine) Whole(b int) float64 { return g.Xi1*float64(b) + g.Xi2 }

// Avg is the average latency of a batch of b with m GB of the device: it gets
// the share m of every round (equation 3).
func (g *GPULine) Avg(b int, m float64, d GPUDevice) float64 { return d.Memory / m * g.Whole(b) }

// Max is the longest that a batch of b takes with m GB: it needs a number of
// slices, and waits for everybody else's before each (equation 4).
func (g *GPULine) Max(b int, m float64, d GPUDevice) float64 {
	whole := g.Whole(b)
	slices := math.Ceil(whole/(m*d.Slice) - sliceTolerance)
	most := slices*(d.Memory-m)*d.Slice + whole
	if d.Factor > 0 && m < d.Memory*(1-GridTolerance) {
		most *= d.Factor
	}
	return most
}

// Known reports whether a profile was read.
func (p FunctionProfile) Known() bool { return len(p.CPU) > 0 || p.GPU != nil }

type curveJSON struct {
	Batch int     `json:"batch"`
	Alpha float64 `json:"alpha"`
	Beta  float64 `json:"beta"`
	Gamma float64 `json:"gamma"`
}

type gpuJSON struct {
	Xi1        float64 `json:"xi1"`
	Xi2        float64 `json:"xi2"`
	Slice      float64 `json:"tau_s,omitempty"`
	WholeGB    float64 `json:"Mmax_gb,omitempty"`
	Thresholds []int   `json:"batch_thresholds_for_gpu_mem,omitempty"`
	MaxBatch   int     `json:"max_batch,omitempty"`
}

type memoryJSON struct {
	PerRequestMB float64 `json:"per_request_mb,omitempty"`
	FixedMB      float64 `json:"fixed_mb,omitempty"`
	GPUGB        float64 `json:"gpu_gb,omitempty"`
}

type callsJSON struct {
	Way       float64 `json:"way_s,omitempty"`
	ColdStart float64 `json:"cold_start_s,omitempty"`
}

// JSON prints the profile as ReadFunctionProfile reads it.
func (p FunctionProfile) JSON() ([]byte, error) {
	var out struct {
		Avg    []curveJSON `json:"cpu_avg,omitempty"`
		Max    []curveJSON `json:"cpu_max,omitempty"`
		GPU    *gpuJSON    `json:"gpu,omitempty"`
		Memory *memoryJSON `json:"memory,omitempty"`
		Calls  *callsJSON  `json:"calls,omitempty"`
	}
	for _, c := range p.CPU {
		out.Avg = append(out.Avg, curveJSON{Batch: c.Batch, Alpha: c.Avg.Alpha, Beta: c.Avg.Beta, Gamma: c.Avg.Gamma})
		out.Max = append(out.Max, curveJSON{Batch: c.Batch, Alpha: c.Max.Alpha, Beta: c.Max.Beta, Gamma: c.Max.Gamma})
	}
	if g := p.GPU; g != nil {
		out.GPU = &gpuJSON{Xi1: g.Xi1, Xi2: g.Xi2, Slice: g.Slice, WholeGB: g.WholeGB, Thresholds: g.Thresholds, MaxBatch: g.MaxBatch}
	}
	if m := p.Memory; m != (HostMemory{}) {
		out.Memory = &memoryJSON{PerRequestMB: m.PerRequestMB, FixedMB: m.FixedMB, GPUGB: m.GPUGB}
	}
	if c := p.Calls; c != (CallTimes{}) {
		out.Calls = &callsJSON{Way: c.Way, ColdStart: c.ColdStart}
	}
	text, err := json.MarshalIndent(out, "", "  ")
	return append(text, '\n'), err
}
