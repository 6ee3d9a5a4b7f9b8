package experiments

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/policies"
)

const (
	// DefaultModules is how many random modules a probe draws.
	DefaultModules = 3000
	// replayed is how many requests Replay sends through a plan.
	replayed = 5000
)

// Probe is the result of trying Theorem 1 of the Harpagon paper on random modules: how
// often Algorithm 1 claims a worst case that no dispatcher can keep, by how much, and what
// its plans cost over the cheapest ones.
type Probe struct {
	Variant  string
	Modules  int     // drawn
	Plans    int     // found
	Several  int     // of these, with more than one group
	Fail     int     // plans that fail the demand test
	NoProof  int     // of these, without any latency that can be promised
	Missing  float64 // the largest part of the SLO by which proven exceeds it
	Passed   int     // several-group plans that pass the test
	Kept     int     // of these, kept request by request
	Compared int     // modules with a plan on whole devices by this and by exact
	Saving   float64 // part of the cost on whole devices that exact saves, on average
	Worst    float64
}

// Sample is one module of a probe.
type Sample struct {
	found, several, sound, kept bool
	proven, slo                 time.Duration
	ratio                       float64 // on whole devices, over exact; 0 when one has no plan
}

// ProbeVariants are Algorithm 1 by itself and with the paper's steps for the
// rest of the load.
func ProbeVariants() []Variant {
	return []Variant{
		{Name: "Algorithm 1", Options: plan.Options{Policy: plan.PolicyHarpagon, Without: []string{"dummy", "reassign"}}},
		{Name: "with dummy requests", Options: plan.Options{Policy: plan.PolicyHarpagon}},
	}
}

// Module draws the problem of a pipeline of one module: module i of a seed is
// always the same. It is drawn as the suite's are.
func Module(seed uint64, i int) plan.Problem {
	d := drawer{rand.New(rand.NewPCG(seed, uint64(i))), wide()}
	devices := d.devices()
	m := pipelines.Module{Name: "module", Fanout: 1, Profile: pipelines.Profile{Points: d.points(d.family(), devices, d.batches())}}
	p := plan.Problem{Hardware: drawnHardware(devices), Pipeline: pipelines.Pipeline{
		Name: fmt.Sprintf("module-%d", i), Rate: d.logarithmic(d.from.Rate[0], d.from.Rate[1]), Modules: []pipelines.Module{m},
	}}
	_, fastest, _ := p.Pipeline.FastestPath(p.Hardware) // one module is no cycle
	p.Pipeline.SLO = time.Duration(float64(fastest) * d.between(d.from.SLO[0], d.from.SLO[1]))
	return p
}

// Sample plans one module.
func (v Variant) Sample(p plan.Problem) Sample {
	o := v.Options
	o.CostModel = plan.CostProportional
	found := policies.Solve(p, o)
	s := Sample{slo: p.Pipeline.SLO}
	if found.Status != plan.Infeasible {
		m := found.Modules[0]
		s.found, s.several, s.sound, s.proven = true, several(m), found.Sound, m.Proven
		if s.several && s.sound {
			s.kept = Replay(m, replayed) == nil
		}
	}
	o.CostModel = plan.CostWhole
	whole := policies.Solve(p, o)
	best := policies.Solve(p, plan.Options{Policy: plan.PolicyExact, CostModel: plan.CostWhole})
	if whole.Status != plan.Infeasible && best.Status != plan.Infeasible && best.Cost > 0 {
		s.ratio = whole.Cost / best.Cost
	}
	return s
}

// NewProbe sums up samples of a variant.
func NewProbe(v Variant, samples []Sample) Probe {
	p := Probe{Variant: v.Name, Modules: len(samples)}
	for _, s := range samples {
		p.add(s)
	}
	if p.Compared > 0 {
		p.Saving /= float64(p.Compared)
	}
	return p
}

func (p *Probe) add(s Sample) {
	if s.ratio > 0 {
		p.Compared++
		p.Saving += 1 - 1/s.ratio
		p.Worst = max(p.Worst, s.ratio)
	}
	if !s.found {
		return
	}
	p.Plans++
	if s.several {
		p.Several++
	}
	switch {
	case s.sound && s.several:
		p.Passed++
		if s.kept {
			p.Kept++
		}
	case !s.sound:
		p.Fail++
		if s.proven == 0 {
			p.NoProof++
		} else {
			p.Missing = max(p.Missing, float64(s.proven-s.slo)/float64(s.slo))
		}
	}
}

// spareArrivals is how many inter-arrival times a batch may be late in Replay:
// the demand test treats the stream as a fluid, requests are counted singly.
const spareArrivals = 1

const (
	clockSlack  = 1e-6 // seconds; windows are whole nanoseconds
	periodSlack = 1e-6 // planningShare of a period that is rounding
	fillSlack   = 1e-9 // planningShare of a number of requests that is rounding
)

// Replay cuts batches from an evenly paced stream request by request, as a
// dispatcher would that gives each request to the open batch that is due first,
// and reports whether every batch of the module was full by its due date, over so
// many requests. Dummy requests are part of the stream. The error names the
// first batch that was late.
//
// Batch k of a group is open from k·P on and due at k·P + W. A full batch waits
// for its due date, so that batches start exactly P apart and machines are free
// when they are needed; its first request came after k·P and so starts within
// W. Where a group starts batches faster than they fill, P is shorter than b
// over its rate, and a batch takes the requests that its rate brings in P.
func Replay(m plan.Module, requests int) error {
	rate := m.Rate + m.DummyRate
	var open []collecting
	for _, g := range m.Groups {
		if busy := g.Rate + g.DummyRate; busy > 0 {
			open = append(open, newCollecting(g, busy))
		}
	}
	if len(open) == 0 {
		return nil
	}
	queue := 0 // requests that came before the next batch opened
	for i := range requests {
		now := float64(i+1) / rate
		for queue++; queue > 0; queue-- {
			next := earliest(open, now)
			if next == nil {
				break
			}
			if err := next.check(now, rate); err != nil {
				return err
			}
			next.held++
			next.close()
		}
		if queue > len(open) {
			return fmt.Errorf("%d requests wait at %.6f s for a batch to open", queue, now)
		}
		for k := range open {
			if err := open[k].check(now, rate); err != nil {
				return err
			}
		}
	}
	return nil
}

// collecting is a group and the batch that it fills.
type collecting struct {
	fill   float64 // requests of a batch, on average
	period float64 // seconds
	window float64 // seconds
	number int     // of the batch, from 0
	held   int
}

func newCollecting(g plan.Group, rate float64) collecting {
	c := collecting{fill: float64(g.Batch), period: float64(g.Batch) / rate, window: g.Window.Seconds()}
	if p := g.Period.Seconds(); p > 0 && p < c.period*(1-periodSlack) {
		c.fill, c.period = rate*p, p
	}
	c.close()
	return c
}

// check is an error when the batch should have been full by now.
func (c *collecting) check(now, rate float64) error {
	if now-c.due() <= spareArrivals/rate+clockSlack {
		return nil
	}
	return fmt.Errorf("batch %d of a group of batches of %.4g, due at %.6f s, has %d of %d requests at %.6f s", c.number, c.fill, c.due(), c.held, c.need(), now)
}

// need is what batch number takes: whole requests that add up to the average.
func (c *collecting) need() int {
	upTo := func(n int) int { return int(math.Floor(c.fill * float64(n) * (1 + fillSlack))) }
	return upTo(c.number+1) - upTo(c.number)
}

// close goes on to the next batch when this one has all of its requests.
func (c *collecting) close() {
	for c.held >= c.need() {
		c.number, c.held = c.number+1, 0
	}
}

func (c *collecting) release() float64 { return float64(c.number) * c.period }
func (c *collecting) due() float64     { return c.release() + c.window }

// earliest is the open batch that is due first; nil when none is open.
func earliest(all []collecting, now float64) *collecting {
	best := -1
	for i := range all {
		if all[i].release() <= now && (best < 0 || all[i].due() < all[best].due()) {
			best = i
		}
	}
	if best < 0 {
		return nil
	}
	return &all[best]
}

// several reports whether the module has more than one group with requests.
func several(m plan.Module) bool {
	idle := func(g plan.Group) bool { return g.Rate+g.DummyRate <= 0 }
	return len(slices.DeleteFunc(slices.Clone(m.Groups), idle)) > 1
}
