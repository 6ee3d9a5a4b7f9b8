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
	confidence  = 0.99      // that a plan attains at least its target
	trust       = 0.8       // the same while plans are compared
	doubt       = 0.9       // that one does not
	likely      = 0.8       // of the misses allowed, with which a plan that is not certain to hold is taken to
	trialMisses = 80        // that a simulation should see at the most, while plans are compared
	finalMisses = 320       // and for the last word on a plan
	trialLook   = 4         // of them, one in so many before it is first judged
	finalLook   = 2         // and for the last word
	fewestCalm  = 20_000    // requests that are simulated where no miss may be expected
	mostOf      = 1_000_000 // that are simulated at the most
	slicesApart = 32        // objectives that pass before a simulation is first judged
	trialSeed   = 1         // of the requests that all plans are compared on
	finalSeed   = 2         // of those that the cheapest is judged on
	finals      = 8         // plans that are judged on them at the most
	sizingSteps = 5         // of bisection for the whole pipeline
	moduleSteps = 3         // and for each module
	mostSpare   = 1024      // times the rate that a plan is made for
	mostAdded   = 16        // ways to add devices that are tried
	mostMisses  = 2         // times those allowed, which other windows and budgets for the same groups may mend,
	mostAlike   = 2         // of which so many are tried
	mostChanged = 16        // changes of the best plan that are tried
)

// cuts are the parts of their budgets that modules are planned for: what is left is time to wait
// for a device.
func cuts() [3]float64 { return [...]float64{1, 0.85, 0.7} }

// sizer looks for the cheapest plan that attains the target.
type sizer struct {
	problem plan.Problem
	options Options
	splits  []plan.Budgets // ways to divide the objective
	budgets plan.Budgets   // the one that is looked at
	base    plan.Plan
	load    simulate.Load
	rates   map[string]float64
	target  float64
	queues  map[string]queue
	plans   map[string]plan.Plan // by the spare and the budgets that they are made for
	seen    map[string]trial     // by what a plan runs, and when
	alike   map[string]alike     // of those that run the same
	whole   *sizer               // that shares no devices, where this one does
	best    *plan.Plan
	nearest float64       // the most that was attained
	end     time.Duration // by the clock of the options, when the search must end; 0 for never
	cut     bool          // the search was ended
	err     error
}

// alike are plans with the same groups but other windows and budgets: how many have failed, and
// what the last of them missed.
type alike struct {
	failed int
	missed float64
}

// trial is what a plan is taken to attain, and whether that is enough.
type trial struct {
	plan.Expectation
	holds bool
}

// halted reports that the search must end with what it has.
func (s *sizer) halted() bool {
	if s.options.Stop != nil && s.options.Stop() || s.end > 0 && watch(s.options) >= s.end {
		s.cut = true
	}
	return s.cut
}

func newSizer(p plan.Problem, o Options, base plan.Plan) (*sizer, error) {
	arrivals, err := arrivals.Declared(&p.Pipeline)
	if err != nil {
		return nil, err
	}
	s := &sizer{
		problem: p, options: o, base: base, target: p.Pipeline.Target(), rates: p.Pipeline.Rates(),
		load: simulate.Load{Pipeline: p.Pipeline, Arrivals: arrivals, Rate: p.Pipeline.Rate}, plans: map[string]plan.Plan{}, seen: map[string]trial{}, alike: map[string]alike{},
	}
	if !arrivals.Random() && base.Policy != plan.PolicyExact {
		s.target = 0 // the papers' policies size for mean rates
	}
	s.queues = s.estimates()
	if o.TimeLimit > 0 && o.Clock != nil {
		s.end = watch(o) + o.TimeLimit
	}
	return s, nil
}

// solve looks for the cheapest plan on the same requests for all, and judges it on others.
// Where it does not hold there, it is out, and the next best is.
func (s *sizer) solve() (plan.Plan, error) {
	if s.target == 0 {
		e, err := s.simulate(&s.base, finalSeed, 0, 0, confidence)
		if errors.Is(err, simulate.ErrStopped) {
			s.base.CutShort = true
			return s.base, nil
		}
		s.base.Expected = &e.Expectation
		return s.base, err
	}
	for round := 1; round <= finals; round++ {
		s.best = nil
		s.search()
		if s.err != nil || s.best == nil {
			break
		}
		if e, ok := s.trial(s.best, finalSeed, finalMisses, finalLook, 1-(1-confidence)/math.Exp2(float64(round))); ok && e.Low >= s.target || e.holds && s.target == 1 {
			e.Confidence = confidence
			s.best.Expected = &e.Expectation
			return s.result()
		}
		s.seen[signature(s.best, true)], s.alike[signature(s.best, false)] = trial{}, alike{failed: mostAlike}
	}
	switch {
	case s.err != nil:
		return plan.Plan{}, s.err
	case s.cut:
		return plan.Plan{}, &plan.InfeasibleError{Pipeline: s.base.Pipeline, SLO: s.base.SLO, Unfinished: true, Reason: fmt.Sprintf(
			"the search for a plan that answers %s of %s arrivals in time was ended before it found one; give it more time, or ask for none of it with attainment = 0",
			quantity.Percent(s.target), s.load.Arrivals)}
	}
	return plan.Plan{}, &plan.InfeasibleError{Pipeline: s.base.Pipeline, SLO: s.base.SLO, Reason: fmt.Sprintf(
		"no plan was found that answers %s of %s arrivals within the SLO of %s; the nearest answers %s. Raise the SLO, lower the rate or the attainment, or allow more devices",
		quantity.Percent(s.target), s.load.Arrivals, quantity.Duration(s.base.SLO), quantity.Percent(s.nearest))}
}

// search leaves the cheapest plan that holds, of those that are not out, as the best.
func (s *sizer) search() {
	if s.dear(&s.base) || s.meets(&s.base) {
		return // what bears random arrivals costs no less than what bears even ones
	}
	if s.splits == nil {
		s.split()
	}
	for i, budgets := range s.splits {
		s.budgets = budgets
		if s.base.CostModel != plan.CostProportional {
			s.combine()
		}
		for _, cut := range cuts() {
			if i == 0 || s.base.CostModel != plan.CostShared {
				s.grow(cut)
			}
		}
	}
	if s.base.CostModel != plan.CostProportional {
		s.add(&s.base)
	}
	if s.base.CostModel == plan.CostShared {
		s.unshared()
	}
}

// unshared goes on with plans on devices that modules do not share, which are some of those that
// may be shared: what begins from another plan may find a cheaper one.
func (s *sizer) unshared() {
	if s.whole == nil {
		o := s.options
		o.CostModel = plan.CostWhole
		base := policies.Solve(s.problem, o.Options)
		if base.Status == plan.Infeasible {
			return
		}
		if s.whole, s.err = newSizer(s.problem, o, base); s.err != nil {
			return
		}
		s.whole.seen, s.whole.alike, s.whole.end = s.seen, s.alike, s.end
	}
	w := s.whole
	w.best = s.best
	w.search()
	s.cut, s.err, s.nearest = s.cut || w.cut, w.err, math.Max(s.nearest, w.nearest)
	if s.best = w.best; s.best != nil {
		s.best.CostModel = s.base.CostModel
	}
}

// result is the best plan, as one that was made for even arrivals.
func (s *sizer) result() (plan.Plan, error) {
	out := *s.best
	if out.Disprove(); s.target > 0 {
		out.Proof = plan.Attainment
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

// grow looks for the least spare capacity, under budgets cut to a part: first for all modules
// as an estimate divides it, then for each.
func (s *sizer) grow(cut float64) {
	low, high := 0.0, s.allowed()
	for !s.try(s.spare(high), cut) {
		if low, high = high, 2*high; s.err != nil || s.halted() || s.mostSpared(low) {
			return
		}
	}
	high = bisect(low, high, sizingSteps, func(x float64) bool { return s.try(s.spare(x), cut) })
	spare := s.spare(high)
	for _, m := range s.problem.Pipeline.Modules {
		with := func(x float64) map[string]float64 {
			less := maps.Clone(spare)
			less[m.Name] = x
			return less
		}
		least := spare[m.Name]
		bisect(1, least, moduleSteps, func(x float64) bool {
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

// try makes a plan and keeps it where it is cheaper than the best and attains
// the target. It reports whether to look at less capacity next: where this attains
// the target, costs too much anyway, or is more than there is.
func (s *sizer) try(spare map[string]float64, cut float64) bool {
	if s.halted() {
		return false
	}
	p, err := s.plan(spare, func(string) float64 { return cut }, s.base.CostModel)
	return err != nil || s.dear(&p) || s.meets(&p)
}

// dear reports whether a plan is no cheaper than the best.
func (s *sizer) dear(p *plan.Plan) bool {
	return s.best != nil && p.Cost >= s.best.Cost*(1-plan.RateTolerance)
}

// plan plans every module for more than the rate that comes to it, and in a part of its budget.
func (s *sizer) plan(spare map[string]float64, cut func(module string) float64, model string) (plan.Plan, error) {
	budgets, o := plan.Budgets{}, s.options.Options
	o.NoBound, o.CostModel = true, model // the bound is that of the first
	key := []byte(model)
	for i := range s.base.Modules {
		name := s.base.Modules[i].Name
		budgets[name] = time.Duration(float64(s.budgets[name]) * cut(name))
		key = fmt.Append(key, " ", budgets[name].Nanoseconds(), spare[name])
	}
	if known, ok := s.plans[string(key)]; ok {
		return known, nil
	}
	out, err := policies.ScheduleModules(s.inflated(spare), o, budgets)
	if err != nil || out.Status == plan.Infeasible {
		return out, fmt.Errorf("sizing: no such plan: %w", err)
	}
	out.CostModel = s.base.CostModel
	for i := range out.Modules {
		s.rescale(&out.Modules[i])
	}
	s.plans[string(key)] = out
	return out, nil
}

// inflated is the problem with more than the rate that comes to each module.
func (s *sizer) inflated(spare map[string]float64) plan.Problem {
	p := s.problem
	p.Pipeline.Modules = append([]pipelines.Module(nil), p.Pipeline.Modules...)
	for i := range p.Pipeline.Modules {
		m := &p.Pipeline.Modules[i]
		if m.Rate = s.rates[m.Name] * spare[m.Name]; m.Rate == 0 {
			m.Fanout = 0 // a rate of zero would count as none given
		}
	}
	return p
}

// split divides the objective as the plan for even arrivals does, and as one does for more than
// comes, on devices that modules do not share.
func (s *sizer) split() {
	alone := s.options.Options
	if s.base.CostModel != plan.CostProportional {
		alone.CostModel = plan.CostWhole
	}
	more := policies.Solve(s.inflated(s.spare(s.allowed())), alone)
	for _, p := range [...]plan.Plan{s.base, more} {
		if p.Status == plan.Infeasible {
			continue
		}
		budgets := plan.Budgets{}
		for i := range p.Modules {
			budgets[p.Modules[i].Name] = p.Modules[i].Budget
		}
		s.splits = append(s.splits, budgets)
	}
}

// rescale sets the rates of a module to those that it really receives. Its groups keep
// their windows and periods: batches leave partly filled.
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

// meets simulates a plan, unless one that runs the same was before, and keeps it as the best
// where it attains the target.
func (s *sizer) meets(p *plan.Plan) bool {
	key, runs := signature(p, true), signature(p, false)
	e, known := s.seen[key]
	if !known {
		was := s.alike[runs]
		if was.failed == mostAlike || was.failed > 0 && was.missed > mostMisses*(1-s.target) {
			return false
		}
		var ok bool
		if e, ok = s.trial(p, trialSeed, trialMisses, trialLook, trust); !ok {
			return false
		}
		s.seen[key] = e
		if !e.holds {
			s.alike[runs] = alike{was.failed + 1, 1 - e.Attainment}
		}
	}
	if e.holds {
		kept := *p
		s.best = &kept
	}
	return e.holds
}

// trial simulates a plan; false where that was stopped or failed.
func (s *sizer) trial(p *plan.Plan, seed uint64, misses, look, confidence float64) (trial, bool) {
	if s.err != nil {
		return trial{}, false
	}
	e, err := s.simulate(p, seed, misses, look, confidence)
	if errors.Is(err, simulate.ErrStopped) {
		s.cut = true
	} else if err != nil {
		s.err = err
	}
	s.nearest = math.Max(s.nearest, e.Attainment)
	return e, err == nil
}

// signature is what of a plan matters to a simulation, or just what it runs.
func signature(p *plan.Plan, times bool) string {
	var text []byte
	for i := range p.Modules {
		m := &p.Modules[i]
		text = fmt.Append(text, m.Name)
		if times {
			text = fmt.Append(text, m.Budget.Nanoseconds())
		}
		for _, g := range m.Groups {
			text = fmt.Append(text, "|", g.Hardware, g.Batch, " ", g.Concurrency, " ", g.Deadline > 0)
			if times {
				text = fmt.Append(text, g.Machines, g.Period.Nanoseconds(), g.Window.Nanoseconds(), g.Deadline.Nanoseconds())
			} else if g.Deadline == 0 {
				text = fmt.Append(text, g.Machines)
			}
		}
	}
	return string(text)
}

// simulate plays a plan under the arrivals declared, until it is certain whether it attains the
// target, or so many misses should have been seen. Where it is not certain then, it holds if it
// seems to by so much that the last word may be certain.
func (s *sizer) simulate(p *plan.Plan, seed uint64, misses, look, confidence float64) (trial, error) {
	o := simulate.Options{Seed: seed, Confidence: 2*confidence - 1, Dispatch: s.problem.Pipeline.Dispatch, Eager: true, Admission: true, Stop: s.options.Stop, Policies: s.options.Dispatch}
	requests, first, settled := float64(fewestCalm), 0.0, s.load.Rate*s.settles(p)
	if left := 1 - s.target; misses > 0 && left > 0 {
		requests, first = misses/left, math.Max(math.Max(misses/look/left, 2*settled), slicesApart*s.load.Rate*s.load.Pipeline.SLO.Seconds())
	}
	seconds := func(n float64) time.Duration {
		return time.Duration(math.Min(n, mostOf) / s.load.Rate * float64(time.Second))
	}
	o.Duration = seconds(math.Max(requests, first))
	if _, span := s.load.Arrivals.Recorded(); span > 0 {
		o.Duration = max(o.Duration, seconds(s.load.Rate*span.Seconds()))
	} else if first > 0 {
		o.Warmup = seconds(settled)
		o.Test = &simulate.Test{Share: s.target, Confidence: confidence, Refuted: doubt, First: seconds(first)}
	}
	r, err := simulate.OnPlans([]simulate.Load{s.load}, []plan.Plan{*p}, o)
	if err != nil {
		return trial{}, err
	}
	one := r.Pipelines[0]
	e := plan.Expectation{
		Arrivals: one.Arrivals, Dispatch: one.Dispatch, Attainment: one.Attainment, Low: one.Interval.Low, High: one.Interval.High,
		Confidence: confidence, Requests: one.Requests, Target: s.target,
	}
	return trial{e, e.Low >= s.target || e.High >= s.target && 1-e.Attainment <= likely*(1-s.target)}, nil
}

func watch(o Options) time.Duration {
	if o.Clock == nil {
		return 0
	}
	return o.Clock()
}
