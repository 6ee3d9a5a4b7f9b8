package functions

import (
	"math"
	"time"

	"github.com/harpagon/harpagon/pipelines"
)

// cost is equation 6: what one request pays of an invocation that runs for the
// average time.
func (o Offer) cost(p *pipelines.Provider) float64 {
	return (o.billed(p, o.Avg)*o.PerSecond(p) + p.Invocation) / float64(o.Batch)
}

// billed rounds a time up to the provider's granularity.
func (o Offer) billed(p *pipelines.Provider, seconds float64) float64 {
	step := p.Billing.Seconds()
	if o.Platform == GPU && p.GPUBilling > 0 {
		step = p.GPUBilling.Seconds()
	}
	if step == 0 {
		return seconds
	}
	return math.Ceil(seconds/step-billingTolerance) * step
}

// PerSecond is what a second of the function costs.
func (o Offer) PerSecond(p *pipelines.Provider) float64 {
	return (o.VCPU+o.GPUMemory*p.GPUVCPUPerGB)*p.VCPUSecond + o.GPUMemory*p.GPUGBSecond + o.Host*p.MemoryGBSecond
}

// Bill is what the provider bills an invocation that ran for so long: the time,
// rounded up to the provider's granularity, and the money.
func Bill(p *pipelines.Provider, o Offer, ran time.Duration) (time.Duration, float64) {
	seconds := o.billed(p, ran.Seconds())
	return time.Duration(seconds * float64(time.Second)), seconds*o.PerSecond(p) + p.Invocation
}

// Latency is how long n requests take on the function of an offer, on average
// and at most, in seconds. On CPU functions a batch may be filled up with
// nothing to the next larger one that was profiled, or to the full one, should
// that be faster.
func (p Problem) Latency(o Offer, n int) (avg, most float64) {
	profile := &p.Function.Profile
	if o.Platform == GPU {
		d := profile.GPU.Device(&p.Provider)
		return profile.GPU.Avg(n, o.GPUMemory, d), profile.GPU.Max(n, o.GPUMemory, d)
	}
	avg, most = o.Avg, o.Max
	for _, c := range profile.CPU {
		if c.Batch >= n && c.Batch < o.Batch && c.Max.At(o.VCPU) < most {
			return c.Avg.At(o.VCPU), c.Max.At(o.VCPU)
		}
	}
	return avg, most
}

// Find is the function of that size on offer, with the latencies of a batch of
// n; false where the provider or the profile has none, or n does not fit.
func (p Problem) Find(s pipelines.FunctionSize, n int) (Offer, bool) {
	profile, cloud := &p.Function.Profile, &p.Provider
	o := Offer{Platform: Platform(s.Platform), VCPU: s.VCPU, GPUMemory: s.GPUMemory, Batch: n}
	switch o.Platform {
	case CPU:
		if !cloud.VCPU.Has(s.VCPU) {
			return o, false
		}
		o.GPUMemory, o.Max = 0, math.Inf(1)
		o.Host, _ = profile.Memory.OnCPU(cloud, o.VCPU, n)
		for _, c := range profile.CPU {
			if most := c.Max.At(o.VCPU); c.Batch >= n && most < o.Max {
				o.Avg, o.Max = c.Avg.At(o.VCPU), most
			}
		}
		return o, !math.IsInf(o.Max, 1)
	case GPU:
		line := profile.GPU
		if line == nil || !cloud.GPUMemory.Has(s.GPUMemory) || line.Memory(n) > s.GPUMemory || n > line.Batches() {
			return o, false
		}
		d := line.Device(cloud)
		o.VCPU, o.Host, o.Avg, o.Max = 0, profile.Memory.GPUGB, line.Avg(n, s.GPUMemory, d), line.Max(n, s.GPUMemory, d)
		return o, s.GPUMemory <= d.Memory*(1+memoryTolerance)
	}
	return o, false
}
