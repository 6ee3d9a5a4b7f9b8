package experiments

import (
	"fmt"
	"math/rand/v2"
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

// Probe is what random modules say about Theorem 1 of the Harpagon paper: how
// often Algorithm 1 claims a worst case that no dispatcher can keep, by how
// much, and what its plans cost over the cheapest ones.
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
