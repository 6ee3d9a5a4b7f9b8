package workflows

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/harpagon/harpagon/activities"
	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler"
	"github.com/harpagon/harpagon/scheduler/autoscale"
	"github.com/harpagon/harpagon/scheduler/functions"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/scheduler/pool"
)

// reset begins to compare with the plan that serves now.
func (d *Detectors) reset(o Settings, serving *Deployed, now time.Time) {
	before := *d
	*d = Detectors{
		Pace:      autoscale.Pace{Options: o.Pace, Modules: before.Pace.Modules},
		Transfers: autoscale.Transfers{Options: o.Transfers, Hosts: before.Transfers.Hosts},
	}
	kindOf(serving.Spec.Kind()).reset(d, before, o, serving, now)
}

// rateDrift is a detector for a rate that begins to look.
func rateDrift(o Settings, serving *Deployed, rate float64, now time.Time) autoscale.Drift {
	one := autoscale.NewDrift(rate, o.Drift.For(serving.Spec.Pipeline, serving.Spec.Hardware))
	one.Reset(rate, now)
	return one
}

// measured lets the detectors look at what the gateway saw.
func (s *service) measured(ctx workflow.Context, m autoscale.Measures) {
	s.Measures = &m
	if s.Serving == nil || s.Pending || s.Phase != Serving {
		return
	}
	kindOf(s.Kind).measured(ctx, s, m)
}

// patchRise marks services that follow a load which rises within seconds.
const patchRise = "rises are followed at once"

func risesAtOnce(ctx workflow.Context) bool {
	return workflow.GetVersion(ctx, patchRise, workflow.DefaultVersion, 1) != workflow.DefaultVersion
}

func (s *service) rateMeasured(ctx workflow.Context, m autoscale.Measures) {
	d := &s.Detectors
	of := s.Serving.Spec.Pipeline
	advice, changed := d.Rate.ObserveLoad(m)
	advice.Reschedule = changed
	if rise := d.Rise.Observe(m, d.Rate.Options, of); (changed || rise.Reschedule) && risesAtOnce(ctx) {
		advice = d.Rise.Follow(rise, advice, &d.Rate, m, of)
		changed = advice.Reschedule
	}
	switch {
	case changed && of.RateFor(advice.Wanted()) == of.Rate && of.Streams() > 0: // declared streams may open at any time
	case changed:
		s.setRate(of.RateFor(advice.Wanted()))
		s.replan("the load changed: " + advice.Describe())
	case s.Failure != nil && d.Rise.Over(&d.Rate, of) && risesAtOnce(ctx) && !s.refused(ctx):
		s.setRate(of.Rate)
		s.replan("the load is as planned again")
	}
}

// arrivalsMeasured is true when requests come so much less evenly than declared that
// too few are in time.
func (s *service) arrivalsMeasured() bool {
	p := s.Detectors.Fanouts.Into(*s.Spec.Pipeline)
	target := cmp.Or(p.Attainment, pipelines.DefaultAttainment) // below 0: nothing is promised
	advice, missed := s.Detectors.Arrivals.Missed(target)
	if !missed || advice.Arrivals() == p.Arrivals {
		return false
	}
	p.Arrivals, p.Trace = advice.Arrivals(), nil
	s.Spec.Pipeline = &p
	s.replan(advice.Describe() + "; planned for " + p.Arrivals)
	return true
}

// patchFanout marks services that are planned again with the fan-out that was measured.
const patchFanout = "fan-out measured"

// fanoutMeasured is true when the promise has not been kept for long and modules are sent more
// requests than declared: then another plan differs. Else the reason is only reported.
func (s *service) fanoutMeasured(ctx workflow.Context, m autoscale.Measures) bool {
	if next, how := s.Detectors.Fanouts.Drifted(m, *s.Spec.Pipeline); how != "" && risesAtOnce(ctx) {
		s.Spec.Pipeline = &next
		s.replan("the fan-out changed: " + how)
		return true
	}
	broken := s.Detectors.Promise.Broken(s.Serving.Spec.Pipeline)
	wider, how := autoscale.WithMeasuredFanout(m, *s.Spec.Pipeline, replanChange)
	if broken == nil || how == "" || workflow.GetVersion(ctx, patchFanout, workflow.DefaultVersion, 1) == workflow.DefaultVersion {
		return false
	}
	s.Spec.Pipeline = &wider
	s.replan(broken.Describe() + how)
	return true
}

// setRate changes the rate of a pipeline's spec.
func (s *service) setRate(rate float64) {
	p := s.Detectors.Fanouts.Into(*s.Spec.Pipeline)
	p.Rate = rate
	s.Spec.Pipeline = &p
}

// transfersMeasured lets the detector look at how long batches were on their way, and is
// true when that calls for another plan.
func (s *service) transfersMeasured(m autoscale.Measures) bool {
	p := s.Serving.Spec.Pipeline
	advice, changed := s.Detectors.Transfers.Observe(m, p.SLO, p.Depth())
	if changed {
		s.Transfer = advice.Transfer
		s.replan(advice.Describe())
	}
	return changed
}

// sizesMeasured lets the detector look at the sizes of the queries that came. The
// new plan is made from the new mix by simulation; nothing is tried on the
// queries themselves.
func (s *service) sizesMeasured(m autoscale.Measures) {
	advice := s.Detectors.Sizes.Observe(m)
	if !advice.Replan {
		return
	}
	p := *s.Spec.Pool
	if p.Sizes = inTime(*s.Serving.Spec.Pool, advice.Mix); p.Sizes.Total() <= 0 {
		return
	}
	s.Spec.Pool = &p
	s.replan("the sizes of queries changed: " + advice.Describe())
}

// learned plans a pool of which nothing was known with what its queries have taken.
func (s *service) learned(m autoscale.Measures) {
	p, learning := s.Serving.Spec.Pool, &s.Detectors.Learning
	points := learning.Observe(m, p.Base, pool.ServedKinds(*p, *s.Serving.Plan.Pool), pool.Largest(*p))
	if len(points) == 0 {
		return
	}
	s.Served = map[string][]pipelines.Point{pipelines.PoolModule: points}
	s.replan(learning.Describe(points))
}

// inTime leaves out sizes that no instance could serve in time, which are dropped
// whatever the plan.
func inTime(p pipelines.Pool, mix pipelines.Mix) pipelines.Mix {
	base := p.Taken(p.Base)
	return slices.DeleteFunc(slices.Clone(mix), func(s pipelines.Size) bool { return base.At(s.Size) > p.SLO })
}

// applicationsMeasured looks whether the rate of an application has left the
// plan. Where one has, the others are planned for what was measured, too.
func (s *service) applicationsMeasured(m functions.Measures) {
	cause := ""
	next := *s.Spec.Function
	next.Applications = slices.Clone(next.Applications)
	for i := range s.Detectors.Applications {
		d := &s.Detectors.Applications[i]
		a := next.Application(d.Application)
		k := slices.IndexFunc(m.Applications, func(a functions.ApplicationMeasures) bool { return a.Name == d.Application })
		if a == nil || k < 0 {
			continue
		}
		advice, changed := d.Drift.ObserveLoad(autoscale.Measures{From: m.From, To: m.To, Offered: m.Applications[k].Offered})
		switch {
		case changed:
			a.Rate = autoscale.RoundUp(advice.Rate)
			cause = cmp.Or(cause, fmt.Sprintf("the load of %s changed: %s", d.Application, advice.Describe()))
		case d.Drift.Side != 0 && d.Drift.Smooth > 0:
			a.Rate = autoscale.RoundUp(d.Drift.Smooth)
		}
	}
	if cause != "" {
		s.Spec.Function = &next
		s.replan(cause)
	}
}

// replanChange is the share by which a duration must change for another plan to
// be worth while.
const replanChange = 0.1

// paceMeasured shows the detector the durations that the gateway measured, and is true when
// they call for another plan. Emulated modules are skipped: they take the profiled time.
func (s *service) paceMeasured(ctx workflow.Context, m autoscale.Measures) bool {
	served, _ := s.Serving.Spec.Measured()
	advice := s.Detectors.Pace.Observe(m, served.Modules)
	if s.Settings.Fixed {
		return false
	}
	s.forgetRecovered()
	var worth []autoscale.PaceAdvice
	for _, a := range advice {
		if s.worthReplanning(&a) {
			worth = append(worth, a)
		}
	}
	var slower, other []string
	for _, a := range worth {
		s.planWith(ctx, a)
		if a.Slower {
			slower = append(slower, a.Describe())
		} else {
			other = append(other, a.Describe())
		}
	}
	switch {
	case len(slower) > 0:
		s.replan("promise void because " + strings.Join(slower, ", "))
	case len(other) > 0:
		s.replan("measured while serving: " + strings.Join(other, ", "))
	}
	return len(worth) > 0
}

// worthReplanning reports whether to plan with what a module takes: it is no emulation, and
// differs from the profile that the next plan would use. A profile on file is a lower
// bound: the points are raised to it, and it holds unchanged again once executors are as
// fast as profiled.
func (s *service) worthReplanning(a *autoscale.PaceAdvice) bool {
	declared := moduleOf(s.Spec, a.Module)
	if declared == nil || len(declared.Variants) > 0 || s.emulated(a.Module) {
		return false
	}
	file := declared.Profile.Points
	if a.Points = autoscale.AtLeast(a.Points, file); !a.Slower && len(file) > 0 && a.Measured <= autoscale.Covers(file, a.Hardware, a.Size, a.Concurrency) {
		a.Points = file
	}
	current := moduleOf(s.profiled(s.Spec), a.Module).Profile.Points
	return slices.ContainsFunc(a.Points, func(at pipelines.Point) bool {
		was := autoscale.DurationOf(current, at)
		return math.Abs(float64(at.Duration-was)) > replanChange*float64(was)
	})
}

func (s *service) emulated(module string) bool {
	return slices.ContainsFunc(s.Serving.Slots, func(at placement.Slot) bool {
		return at.Module == module && at.Engine == executors.EngineEmulated
	})
}

// planWith plans the module with the points from now on. Where the declaration
// gives no profile, the host keeps them, for the next time.
func (s *service) planWith(ctx workflow.Context, a autoscale.PaceAdvice) {
	if s.Served == nil {
		s.Served = map[string][]pipelines.Point{}
	}
	measured, _ := s.Spec.Measured()
	file := measured.Module(a.Module).Profile.Points
	if s.Served[a.Module] = a.Points; len(file) > 0 {
		if !slices.ContainsFunc(a.Points, func(at pipelines.Point) bool { return at.Duration != autoscale.DurationOf(file, at) }) {
			delete(s.Served, a.Module) // back at what the file states
		}
		return
	}
	i := slices.IndexFunc(s.Running, func(r Running) bool { return r.Slot.Module == a.Module && r.Slot.Hardware == a.Hardware })
	if i < 0 {
		return
	}
	host := s.Running[i].Slot.Host
	in := activities.KeepInput{Pipeline: measured, Module: a.Module, Hardware: a.Hardware, Cores: coresOf(s.Spec, a.Hardware), Points: a.Points}
	workflow.Go(ctx, func(ctx workflow.Context) {
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
			TaskQueue:              activities.HostQueue(host),
			StartToCloseTimeout:    time.Minute,
			ScheduleToStartTimeout: HostPatience,
			RetryPolicy:            &temporal.RetryPolicy{InitialInterval: time.Second, MaximumAttempts: 3},
			Summary:                "keep the profile of " + a.Module + " as measured while serving",
		})
		var host *activities.Host
		if err := workflow.ExecuteActivity(ctx, host.KeepProfile, in).Get(ctx, nil); err != nil {
			workflow.GetLogger(ctx).Warn("the profile was not kept", "module", a.Module, "error", err)
		}
	})
}

// forgetRecovered takes durations back with which no plan was possible, once
// executors take again what the plan that serves counts on.
func (s *service) forgetRecovered() {
	if s.Failure == nil {
		return
	}
	hold := cmp.Or(s.Settings.Pace.Hold, autoscale.DefaultPaceHold)
	for _, m := range s.Detectors.Pace.Modules {
		served := moduleOf(s.Serving.Spec, m.Module)
		if _, ok := s.Served[m.Module]; ok && served != nil && m.Side == 0 && s.Detectors.Pace.Last.Sub(m.Since) >= hold {
			s.Served[m.Module] = served.Profile.Points
		}
	}
}

// moduleOf is the module of that name of a service, as it is measured; nil for none.
func moduleOf(spec scheduler.Spec, name string) *pipelines.Module {
	p, _ := spec.Measured()
	return p.Module(name)
}

// coresOf is how many cores a kind of instance is declared to have.
func coresOf(spec scheduler.Spec, hardware string) int {
	for _, h := range spec.Hardware {
		if h.Name == hardware {
			return h.Cores
		}
	}
	return 0
}

// slower are the modules that are slower than the plan that serves counts on.
func (s *service) slower() (all []Pace) {
	if s.Serving == nil {
		return nil
	}
	for _, a := range s.Detectors.Pace.Void() {
		all = append(all, Pace{Module: a.Module, Hardware: a.Hardware, Size: a.Size, Measured: a.Measured, Profiled: a.Profiled, Held: a.Held, Concurrency: a.Concurrency})
	}
	return all
}

// healed are the modules for which the serving plan uses a measured duration in place of
// the profiled one, at the largest batch planned.
func (s *service) healed() (all []Pace) {
	if s.Serving == nil || s.Serving.Plan.Pipeline == nil {
		return nil
	}
	for _, planned := range s.Serving.Plan.Pipeline.Modules {
		declared := s.Spec.Pipeline.Module(planned.Name)
		if declared == nil || len(planned.Groups) == 0 || len(s.Served[planned.Name]) == 0 {
			continue
		}
		profile := declared.Profile.Points
		if len(profile) == 0 {
			profile = s.Points[planned.Name]
		}
		g := planned.Groups[0]
		at := pipelines.Point{Hardware: g.Hardware, Batch: g.Batch, Concurrency: g.Concurrency}
		was, is := autoscale.DurationOf(profile, at), autoscale.DurationOf(s.Serving.Spec.Pipeline.Module(planned.Name).Profile.Points, at)
		if was != 0 && is != 0 && was != is {
			all = append(all, Pace{Module: planned.Name, Hardware: g.Hardware, Size: g.Batch, Measured: is, Profiled: was})
		}
	}
	return all
}
