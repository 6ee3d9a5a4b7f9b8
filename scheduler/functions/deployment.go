package functions

import (
	"fmt"
	"math"
	"time"

	"github.com/harpagon/harpagon/pipelines"
)

// Deployment is what a gateway needs to serve a function: the plan, and whom to
// call.
type Deployment struct {
	Generation int
	Function   pipelines.Function
	Provider   pipelines.Provider
	Plan       Plan
}

// Check says what keeps the deployment from being served.
func (d Deployment) Check() error {
	switch {
	case d.Plan.Status == Infeasible:
		return fmt.Errorf("functions: function %q has no plan: %s", d.Function.Name, d.Plan.Reason)
	case len(d.Plan.Groups) == 0:
		return fmt.Errorf("functions: the plan of function %q has no groups", d.Function.Name)
	}
	for i := range d.Plan.Groups {
		if _, err := d.URL(i); err != nil {
			return fmt.Errorf("functions: function %q: %w", d.Function.Name, err)
		}
	}
	return nil
}

// URL is where a group's batches go.
func (d Deployment) URL(group int) (string, error) {
	return d.Provider.CallURL(d.Plan.Groups[group].at(d.Function.Name))
}

func (o Offer) at(function string) pipelines.FunctionSize {
	return pipelines.FunctionSize{
		Function: function, Platform: string(o.Platform), VCPU: o.VCPU, GPUMemory: o.GPUMemory, Batch: o.Batch,
	}
}

// Describe is the size of the function in words, such as "2 GB GPU".
func (o Offer) Describe() string { return o.size() }

// PerSecond is what a second of the function costs.
func (o Offer) PerSecond(p *pipelines.Provider) float64 {
	return o.VCPU*p.VCPUSecond + o.GPUMemory*p.GPUGBSecond
}

// Bill is what the provider bills an invocation that ran for so long: the time,
// rounded up to the provider's granularity, and the money.
func Bill(p *pipelines.Provider, o Offer, ran time.Duration) (time.Duration, float64) {
	seconds := billed(p, ran.Seconds())
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
		o.VCPU, o.Avg, o.Max = 0, line.Avg(n, s.GPUMemory, d), line.Max(n, s.GPUMemory, d)
		return o, s.GPUMemory <= d.Memory*(1+memoryTolerance)
	}
	return o, false
}
