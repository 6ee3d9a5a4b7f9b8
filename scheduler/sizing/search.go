package sizing

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/arrivals"
	"github.com/harpagon/harpagon/pipelines/quantity"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/policies"
	"github.com/harpagon/harpagon/scheduler/simulate"
)

// How a plan for random arrivals is looked for.
const (
	sizingConfidence = 0.95      // that a plan attains at least what is asked for
	sizingRequests   = 20_000    // that are simulated at the least
	sizingMost       = 1_000_000 // and at the most
	sizingMisses     = 200       // that should be expected among them
	sizingSeed       = 1
	sizingSteps      = 5  // of bisection for the whole pipeline
	sizingModule     = 3  // and for each module
	mostSpare        = 32 // times the rate that a plan is made for
)

// sizer looks for the cheapest plan that attains the target.
type sizer struct {
	problem plan.Problem
	options Options
	budgets plan.Budgets
	base    plan.Plan
	load    simulate.Load
	rates   map[string]float64
	target  float64
	length  time.Duration
	seen    map[string]plan.Expectation // by what a plan runs
	best    *plan.Plan
	nearest float64       // the most that was attained
	end     time.Duration // by the clock of the options, when the search must end; 0 for never
	cut     bool          // the search was ended
	err     error
}

// halted says that the search must end with what it has.
func (s *sizer) halted() bool {
	if s.options.Stop != nil && s.options.Stop() || s.end > 0 && watch(s.options) >= s.end {
		s.cut = true
	}
	return s.cut
}

func newSizer(p plan.Problem, o Options, b plan.Budgets, base plan.Plan) (*sizer, error) {
	arrivals, err := arrivals.Declared(&p.Pipeline)
	if err != nil {
		return nil, err
	}
	s := &sizer{
		problem: p, options: o, budgets: b, base: base, target: p.Pipeline.Target(), rates: p.Pipeline.Rates(),
		load: simulate.Load{Pipeline: p.Pipeline, Arrivals: arrivals, Rate: p.Pipeline.Rate}, seen: map[string]plan.Expectation{},
	}
	if o.TimeLimit > 0 && o.Clock != nil {
		s.end = watch(o) + o.TimeLimit
	}
	n := float64(sizingRequests)
	if s.target > 0 && s.target < 1 {
		n = math.Max(n, sizingMisses/(1-s.target))
	}
	if _, span := arrivals.Recorded(); span > 0 {
		n = math.Max(n, s.load.Rate*span.Seconds())
	}
	s.length = time.Duration(math.Min(n, sizingMost) / s.load.Rate * float64(time.Second))
	return s, nil
}

func (s *sizer) solve() (plan.Plan, error) {
	if s.target == 0 {
		e, err := s.expect(&s.base)
		if errors.Is(err, simulate.ErrStopped) {
			s.base.CutShort = true
			return s.base, nil
		}
		s.base.Expected = &e
		return s.base, err
	}
	if s.meets(&s.base) {
		return s.result()
	}
	for _, cut := range []float64{1, 0.85, 0.7} {
		s.grow(cut)
	}
	if s.err != nil {
		return plan.Plan{}, s.err
	}
	if s.best == nil && s.cut {
		return plan.Plan{}, &plan.InfeasibleError{Pipeline: s.base.Pipeline, SLO: s.base.SLO, Unfinished: true, Reason: fmt.Sprintf(
			"the search for a plan that answers %s of %s arrivals in time was ended before it found one; give it more time, or ask for none of it with attainment = 0",
			quantity.Percent(s.target), s.load.Arrivals)}
	}
	if s.best == nil {
		return plan.Plan{}, &plan.InfeasibleError{Pipeline: s.base.Pipeline, SLO: s.base.SLO, Reason: fmt.Sprintf(
			"no plan was found that answers %s of %s arrivals within the SLO of %s; the nearest answers %s. Raise the SLO, lower the rate or the attainment, or allow more devices",
			quantity.Percent(s.target), s.load.Arrivals, quantity.Duration(s.base.SLO), quantity.Percent(s.nearest))}
	}
	return s.result()
}

// result is the best plan, as one that was made for even arrivals.
func (s *sizer) result() (plan.Plan, error) {
	out := *s.best
	if out.Sound {
		out.Proof = s.base.Proof
	}
	if out.Cost > s.base.Cost || s.base.Status != plan.Optimal {
		out.Status = plan.Feasible
	}
	out.CutShort = out.CutShort || s.base.CutShort || s.cut
	out.LowerBound, out.Restriction, out.HeadroomCost = s.base.LowerBound, s.base.Restriction, s.base.HeadroomCost
	if out.LowerBound > 0 && out.Restriction == "" {
		out.Restriction = "even arrivals"
	}
	return out, s.err
}

// grow looks for the least spare capacity, under budgets cut to a part.
func (s *sizer) grow(cut float64) {
	low, high := 0.0, 0.0
	for spare := 1.0; spare <= mostSpare; spare *= 1.5 {
		if s.try(s.all(spare), cut) {
			high = spare
			break
		}
		low = spare
		if s.err != nil || s.halted() {
			return
		}
	}
	if high == 0 {
		return
	}
	if low > 0 {
		high = bisect(low, high, sizingSteps, func(x float64) bool { return s.try(s.all(x), cut) })
	}
	spare := s.all(high)
	for _, m := range s.problem.Pipeline.Modules {
		with := func(x float64) map[string]float64 {
			less := maps.Clone(spare)
			less[m.Name] = x
			return less
		}
		least := spare[m.Name]
		bisect(1, least, sizingModule, func(x float64) bool {
			was := s.best
			dear := s.try(with(x), cut)
			if s.best != was {
				least = x
			}
			return dear
		})
		spare = with(least)
	}
}

// bisect is the least x found between low, which does not do, and high, which
// does.
func bisect(low, high float64, steps int, does func(float64) bool) float64 {
	for range steps {
		middle := (low + high) / 2
		if does(middle) {
			high = middle
		} else {
			low = middle
		}
	}
	return high
}

func (s *sizer) all(spare float64) map[string]float64 {
	by := map[string]float64{}
	for _, m := range s.problem.Pipeline.Modules {
		by[m.Name] = spare
	}
	return by
}

// try makes a plan and keeps it where it is cheaper than the best and attains
// the target. It reports whether to look at less capacity next: where this attains
// the target, or costs too much anyway.
func (s *sizer) try(spare map[string]float64, cut float64) bool {
	if s.halted() {
		return false
	}
	p, err := s.plan(spare, cut)
	return err == nil && (s.best != nil && p.Cost >= s.best.Cost || s.meets(&p))
}

// plan plans every module for more than the rate that comes to it.
func (s *sizer) plan(spare map[string]float64, cut float64) (plan.Plan, error) {
	p := s.problem
	p.Pipeline.Modules = append([]pipelines.Module(nil), p.Pipeline.Modules...)
	budgets := plan.Budgets{}
	for i := range p.Pipeline.Modules {
		m := &p.Pipeline.Modules[i]
		if m.Rate = s.rates[m.Name] * spare[m.Name]; m.Rate == 0 {
			m.Fanout = 0 // a rate of zero would count as none given
		}
		budgets[m.Name] = time.Duration(float64(s.budgets[m.Name]) * cut)
	}
	out, err := policies.ScheduleModules(p, s.options.Options, budgets)
	if err != nil || out.Status == plan.Infeasible {
		return out, fmt.Errorf("sizing: no such plan: %w", err)
	}
	for i := range out.Modules {
		s.rescale(&out.Modules[i])
	}
	return out, nil
}

// rescale says of a module what it really receives. Its groups keep their
// windows and periods: batches leave partly filled.
func (s *sizer) rescale(m *plan.Module) {
	if m.Rate == 0 {
		return
	}
	by := s.rates[m.Name] / m.Rate
	m.Rate, m.DummyRate = m.Rate*by, m.DummyRate*by
	for i := range m.Groups {
		m.Groups[i].Rate *= by
		m.Groups[i].DummyRate *= by
	}
}

// meets simulates a plan, unless one that runs the same was before.
func (s *sizer) meets(p *plan.Plan) bool {
	if s.err != nil {
		return false
	}
	key := signature(p)
	e, known := s.seen[key]
	if !known {
		var err error
		if e, err = s.expect(p); errors.Is(err, simulate.ErrStopped) {
			s.cut = true
			return false
		} else if err != nil {
			s.err = err
			return false
		}
		s.seen[key] = e
	}
	s.nearest = math.Max(s.nearest, e.Attainment)
	if e.Low < s.target && !(s.target == 1 && e.Attainment == 1) {
		return false
	}
	kept := *p
	kept.Expected = &e
	s.best = &kept
	return true
}

// signature is what of a plan matters to a simulation.
func signature(p *plan.Plan) string {
	text := ""
	for i := range p.Modules {
		text += fmt.Sprintf("%s %d", p.Modules[i].Name, p.Modules[i].Budget)
		for _, g := range p.Modules[i].Groups {
			text += fmt.Sprintf("|%s %d %d %v %d %d %d", g.Hardware, g.Batch, g.Concurrency, g.Machines, g.Period, g.Window, g.Deadline)
		}
	}
	return text
}

// expect simulates a plan under the arrivals declared.
func (s *sizer) expect(p *plan.Plan) (plan.Expectation, error) {
	o := simulate.Options{Duration: s.length, Seed: sizingSeed, Confidence: 2*sizingConfidence - 1, Dispatch: s.problem.Pipeline.Dispatch, Eager: true, Admission: true, Stop: s.options.Stop, Policies: s.options.Dispatch}
	r, err := simulate.OnPlans([]simulate.Load{s.load}, []plan.Plan{*p}, o)
	if err != nil {
		return plan.Expectation{}, err
	}
	one := r.Pipelines[0]
	return plan.Expectation{
		Arrivals: one.Arrivals, Dispatch: one.Dispatch, Attainment: one.Attainment, Low: one.Interval.Low, High: one.Interval.High,
		Confidence: sizingConfidence, Requests: one.Requests, Target: s.target,
	}, nil
}

func watch(o Options) time.Duration {
	if o.Clock == nil {
		return 0
	}
	return o.Clock()
}
