package functions

import (
	"math"
	"slices"

	"github.com/harpagon/harpagon/pipelines"
)

// What a model is fitted from: more sizes and batches than coefficients, so that the
// report can tell how far the curves are off.
const (
	surveyCPUSizes = 5
	surveyGPUSizes = 3
	surveyCPUBatch = 4  // the largest on CPU functions
	surveyRange    = 64 // of the largest CPU function; smaller ones take too long
)

// Survey lists the functions of a provider, with batches, that are called to learn how
// long a model takes: sizes from the smallest to the largest in even ratios, batches
// in powers of two up to maxBatch. Functions of one size follow each other, the
// smallest batch first. Latencies and costs of the offers are open.
func Survey(p *pipelines.Provider, memory pipelines.HostMemory, maxBatch int) []Offer {
	var all []Offer
	for _, size := range spread(p.VCPU, math.Max(p.VCPU.Min, p.VCPU.Max/surveyRange), surveyCPUSizes) {
		for b := 1; b <= min(maxBatch, surveyCPUBatch); b *= 2 {
			if host, fits := memory.OnCPU(p, size, b); fits {
				all = append(all, Offer{Platform: CPU, VCPU: size, Host: host, Batch: b})
			}
		}
	}
	for _, size := range spread(p.GPUMemory, p.GPUMemory.Min, surveyGPUSizes) {
		for b := 1; b <= maxBatch; b *= 2 {
			all = append(all, Offer{Platform: GPU, GPUMemory: size, Host: memory.GPUGB, Batch: b})
		}
	}
	return all
}

// spread is n values of a grid from one on, or as many as there are, in even ratios.
func spread(g pipelines.Grid, from float64, n int) []float64 {
	if g.Len() == 0 {
		return nil
	}
	var all []float64
	for i := range n {
		at := from * math.Pow(g.Max/from, float64(i)/float64(n-1))
		k := int(math.Round((at - g.Min) / g.Step))
		all = append(all, g.At(max(0, min(k, g.Len()-1))))
	}
	return slices.Compact(all)
}
