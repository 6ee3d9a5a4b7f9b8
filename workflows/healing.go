package workflows

import (
	"cmp"
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
	"github.com/harpagon/harpagon/scheduler/placement"
)

// replanChange is the share by which a duration must change for another plan to
// be worth while.
const replanChange = 0.1

// paceMeasured lets the detector look at the durations that the gateway saw, and
// is true when they call for another plan. Modules that are emulated are left
// alone: they take what their profile says.
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

// worthReplanning says whether to plan with what a module takes: it is no
// emulation, and the profile that the next plan would use says something else. A
// profile on file is never taken to be slower than it is: the points are raised
// to it, and it holds as it is again once executors are as fast as it says.
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
			delete(s.Served, a.Module) // back at what the file says
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

// healed are the modules that the plan that serves takes to need another time
// than their profile says, at the largest batch planned.
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
