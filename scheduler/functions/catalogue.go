package functions

import (
	"cmp"
	"math"
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
// The maximum of a call exceeds the model's by the overhead of the provider or the measured
// transfer, which are not billed.
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

// batchTolerance is how far the expected number of requests within the
// equivalent timeout may stay below what the batch needs, and still fill it.
const batchTolerance = 1e-9

// demand is what a group requires of any function: applications folded into one, in rising
// order of objectives.
//
// With timeouts T = slo - latency, equation 5 folds two applications into
//
//	T1 + (r2/(r1+r2)) · (1 - exp(-r1·(T2-T1))) / r1
//
// and T2-T1 = slo2-slo1, whatever the latency. So the fold is done once, over
// objectives, and the equivalent timeout is the equivalent objective less the
// latency.
type demand struct {
	rate  float64 // requests per second
	first float64 // shortest objective, seconds
	equiv float64 // equivalent objective, seconds
}

// alone is the demand of one application.
func alone(slo, rate float64) demand { return demand{rate: rate, first: slo, equiv: slo} }

// join folds in an application whose objective is not shorter than any that was
// folded before (equation 5).
func (d demand) join(slo, rate float64) demand {
	total := d.rate + rate
	if total == 0 || rate == 0 {
		d.rate = total
		return d
	}
	gap := slo - d.equiv
	wait := gap // the limit of the formula as d.rate goes to zero
	if d.rate > 0 {
		wait = -math.Expm1(-d.rate*gap) / d.rate
	}
	d.equiv += rate / total * wait
	d.rate = total
	return d
}

// limit is the longest maximum latency of a function that keeps every objective
// of the group (constraint 10) and leaves time for b requests to come: the
// first opens the batch, and b-1 more arrive within the equivalent timeout
// (constraint 9).
func (d demand) limit(b int) float64 {
	if b <= 1 {
		return d.first
	}
	if d.rate == 0 {
		return math.Inf(-1)
	}
	return math.Min(d.first, d.equiv-(float64(b-1)-batchTolerance)/d.rate)
}

// timeout is the equivalent timeout of the group for a function of that maximum
// latency, in seconds.
func (d demand) timeout(latency float64) float64 { return d.equiv - latency }

// best is the cheapest offer that keeps the objectives of the group with full
// batches; nil when there is none.
//
// It is exact: an offer fits when its maximum latency is at most
// demand.limit(batch), and within one batch size slower is cheaper, so the last
// step of the frontier below the limit is the cheapest that fits. Frontiers are in
// order of their least costs, so the search ends when no later one can win.
// The paper proves as much for its formulas step by step (Theorems 1 and 2),
// which billing in steps would break; frontiers allow for that.
func (c *catalogue) best(d demand) *Offer {
	var found *Offer
	least := math.Inf(1)
	for i := range c.frontiers {
		s := &c.frontiers[i]
		if s.floor() >= least {
			break
		}
		if o := s.within(d.limit(s.batch)); o != nil && o.Cost < least {
			found, least = o, o.Cost
		}
	}
	return found
}

// spending is what the group costs at best, in money per second; infinite when
// no offer fits.
func (c *catalogue) spending(d demand) float64 {
	return spending(c.best(d), d)
}

func spending(o *Offer, d demand) float64 {
	if o == nil {
		return math.Inf(1)
	}
	return o.Cost * d.rate
}
