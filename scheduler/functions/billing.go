package functions

import (
	"math"
	"slices"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/simulate"
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

// expectedWindows is how many windows of a batch are looked at for each application that
// its first request may be of: quantiles, alike in probability.
const expectedWindows = 32

// expectedLatencies is how many latencies of a call are looked at, in the same way: what
// is billed is rounded up.
const expectedLatencies = 64

// expected is what a request of the group costs on average when requests come at random
// (Poisson), as the provider bills it. Group.Cost takes every batch for full; here a
// batch holds its first request and those that come within its window, up to the batch
// size, and a call takes a time around the average, rounded up. Instances that have to
// start cost nothing more: a cold start is not billed.
//
// The window ends with the first timeout of any request in the batch. Let the first
// request be of application k, at 0, and a_j be when the first request of application j
// comes after it. The window is min(T_k, min over j with T_j < T_k of a_j + T_j); so
//
//	P(window > x) = exp(-sum over those j of r_j·max(0, x - T_j)),  x < T_k ,
//
// and given a window of x the requests of application j that come within it, besides the
// one that ends it, are Poisson distributed around r_j·min(x, T_j).
func (p Problem) expected(g *Group) float64 {
	if g.Rate <= 0 {
		return g.Cost
	}
	one := make([]float64, g.Batch+1) // money for a call of n requests
	for n := 1; n <= g.Batch; n++ {
		avg, most := p.Latency(g.Offer, n)
		for _, took := range simulate.DrawLatencies(secondsUp(avg), secondsUp(most), expectedLatencies) {
			_, money := Bill(&p.Provider, g.Offer, took)
			one[n] += money / expectedLatencies
		}
	}
	money, size := 0.0, 0.0
	add := func(share float64, held int, mean float64) {
		each, rest := share*math.Exp(-mean), share
		for n := held; n < g.Batch; n++ {
			money, size = money+each*one[n], size+each*float64(n)
			rest -= each
			each *= mean / float64(n-held+1)
		}
		rest = math.Max(0, rest)
		money, size = money+rest*one[g.Batch], size+rest*float64(g.Batch)
	}
	w := newWindows(g)
	for k, a := range w.apps {
		for q := range expectedWindows {
			x, cut := w.quantile(k, (float64(q)+0.5)/expectedWindows)
			held := 1
			if cut {
				held = min(2, g.Batch) // the request that ends the window, too
			}
			add(a.Rate/w.rate/expectedWindows, held, w.mean(x))
		}
	}
	return money / size
}

// windows are the applications of a group in rising order of their timeouts, with sums
// of rates and of rates times timeouts before each.
type windows struct {
	apps        []Share
	rate        float64
	rates, held []float64
}

func newWindows(g *Group) *windows {
	w := &windows{apps: slices.Clone(g.Applications), rates: []float64{0}, held: []float64{0}}
	slices.SortFunc(w.apps, func(a, b Share) int { return int(a.Timeout - b.Timeout) })
	for i, a := range w.apps {
		w.rate += a.Rate
		w.rates = append(w.rates, w.rates[i]+a.Rate)
		w.held = append(w.held, w.held[i]+a.Rate*a.Timeout.Seconds())
	}
	return w
}

// below is the number of applications whose timeouts are shorter than x.
func (w *windows) below(x float64) int {
	n, _ := slices.BinarySearchFunc(w.apps, x, func(a Share, x float64) int {
		if a.Timeout.Seconds() < x {
			return -1
		}
		return 1
	})
	return n
}

// mean is how many requests come within a window of x, each application's for as long
// as its own timeout at the most.
func (w *windows) mean(x float64) float64 {
	n := w.below(x)
	return w.held[n] + (w.rate-w.rates[n])*x
}

// quantile is the window of a batch that begins with application k which a share of them
// exceeds; cut means that a request of another application ends it.
func (w *windows) quantile(k int, exceeds float64) (x float64, cut bool) {
	left := -math.Log(exceeds) // of the hazard, which is the sum of the rates of shorter timeouts
	most := w.apps[k].Timeout.Seconds()
	for n := 1; n <= k; n++ {
		from, to := w.apps[n-1].Timeout.Seconds(), most
		if n < k {
			to = math.Min(to, w.apps[n].Timeout.Seconds())
		}
		if more := w.rates[n] * (to - from); more < left {
			left -= more
			continue
		}
		return from + left/w.rates[n], true
	}
	return most, false
}

// expect adds what requests cost where they come at random.
func (p *Plan) expect(of Problem) {
	sum := 0.0
	for i := range p.Groups {
		sum += of.expected(&p.Groups[i]) * p.Groups[i].Rate
	}
	if p.ExpectedCost = p.CostPerRequest; p.Rate > 0 {
		p.ExpectedCost = sum / p.Rate
	}
}
