package functions

import (
	"cmp"
	"slices"
)

// Tolerances.
const (
	// costTolerance is the relative difference up to which two costs are the
	// same; of such offers the faster one is kept.
	costTolerance = 1e-12
	// billingTolerance, in billing steps, keeps a time of exactly k steps from
	// being billed as k+1.
	billingTolerance = 1e-9
	// memoryTolerance is the relative excess of a size over the device's that
	// still counts as the whole device.
	memoryTolerance = 1e-6
)

// Platform of a function.
type Platform string

// The platforms, as printed.
const (
	CPU Platform = "cpu"
	GPU Platform = "gpu"
)

// Offer is one function that can be bought, with the batch that it runs.
type Offer struct {
	Platform  Platform
	VCPU      float64 // 0 on GPU
	GPUMemory float64 // GB; 0 on CPU
	Host      float64 `json:",omitempty"` // GB of host memory, where it is billed
	Batch     int
	Avg, Max  float64 // latencies of a batch, seconds
	Cost      float64 // money per request, when batches are full
}

// Offers lists every function of the provider that can run the model, with
// every batch size that fits it (equations 1 to 4 and 6).
// A call takes longer at most than the model says, by the overhead of the provider or
// what was measured of the way there, which is not billed.
func Offers(p Problem) []Offer {
	all := append(cpuOffers(p), gpuOffers(p)...)
	for i := range all {
		all[i].Max += p.Function.CallOverhead(&p.Provider).Seconds()
	}
	return all
}

func cpuOffers(p Problem) []Offer {
	var all []Offer
	cloud := &p.Provider
	for _, curves := range p.Function.Profile.CPU {
		for i := range cloud.VCPU.Len() {
			o := Offer{Platform: CPU, VCPU: cloud.VCPU.At(i), Batch: curves.Batch}
			o.Avg, o.Max = curves.Avg.At(o.VCPU), curves.Max.At(o.VCPU)
			var fits bool
			if o.Host, fits = p.Function.Profile.Memory.OnCPU(cloud, o.VCPU, o.Batch); !fits {
				continue
			}
			o.Cost = o.cost(cloud)
			all = append(all, o)
		}
	}
	return all
}

func gpuOffers(p Problem) []Offer {
	var all []Offer
	cloud, line := &p.Provider, p.Function.Profile.GPU
	if line == nil {
		return nil
	}
	device := line.Device(cloud)
	for i := range cloud.GPUMemory.Len() {
		m := cloud.GPUMemory.At(i)
		if m > device.Memory*(1+memoryTolerance) {
			break
		}
		for b := 1; b <= line.Batches() && line.Memory(b) <= m; b++ {
			o := Offer{Platform: GPU, GPUMemory: m, Batch: b, Avg: line.Avg(b, m, device), Max: line.Max(b, m, device), Host: p.Function.Profile.Memory.GPUGB}
			o.Cost = o.cost(cloud)
			all = append(all, o)
		}
	}
	return all
}

// catalogue holds the offers that can be the cheapest of a group: one frontier a
// batch size, the one with the cheapest last step first.
type catalogue struct {
	frontiers []frontier
	offers    []Offer // all of them
	batch     int     // the largest
}

// frontier is the Pareto frontier of one batch size: in rising order of maximum
// latency, every step is cheaper than all before it.
type frontier struct {
	batch int
	steps []Offer
}

func newCatalogue(offers []Offer) *catalogue {
	byBatch := map[int][]Offer{}
	for _, o := range offers {
		byBatch[o.Batch] = append(byBatch[o.Batch], o)
	}
	c := &catalogue{offers: offers}
	for batch, list := range byBatch {
		c.batch = max(c.batch, batch)
		slices.SortStableFunc(list, func(a, b Offer) int {
			return cmp.Or(cmp.Compare(a.Max, b.Max), cmp.Compare(a.Cost, b.Cost))
		})
		s := frontier{batch: batch}
		for _, o := range list {
			if n := len(s.steps); n == 0 || o.Cost < s.steps[n-1].Cost*(1-costTolerance) {
				s.steps = append(s.steps, o)
			}
		}
		c.frontiers = append(c.frontiers, s)
	}
	slices.SortFunc(c.frontiers, func(a, b frontier) int {
		return cmp.Or(cmp.Compare(a.floor(), b.floor()), cmp.Compare(a.batch, b.batch))
	})
	return c
}

// floor is the least cost of the frontier.
func (s *frontier) floor() float64 { return s.steps[len(s.steps)-1].Cost }

// within is the cheapest step that takes no longer than limit; nil when all do.
func (s *frontier) within(limit float64) *Offer {
	low, high := 0, len(s.steps)
	for low < high {
		mid := (low + high) / 2
		if s.steps[mid].Max <= limit {
			low = mid + 1
		} else {
			high = mid
		}
	}
	if low == 0 {
		return nil
	}
	return &s.steps[low-1]
}
