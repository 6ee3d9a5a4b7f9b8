package workflows

import (
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
	"github.com/harpagon/harpagon/scheduler/autoscale"
)

// changePace is the version from which on durations that were measured while
// serving lead to plans.
const changePace = "plan with the durations that are measured while serving"

// paceMatters is the share by which a duration must change for another plan to
// be worth while.
const paceMatters = 0.1

// Pace is a module whose batches take another time than its profile says.
type Pace struct {
	Module   string
	Hardware string
	Size     int           // requests of the batches that are compared
	Measured time.Duration // median
	Profiled time.Duration
	Held     time.Duration `json:",omitzero"` // for how long
}

// pace lets the detector look at the durations that the gateway saw, and is true
// when it asks for another plan. Modules that are emulated are left alone: they
// take what their profile says.
func (p *pipeline) pace(ctx workflow.Context, m autoscale.Measures) bool {
	advice := p.Pace.Observe(m, p.Serving.Pipeline.Modules)
	if p.Settings.Fixed {
		return false
	}
	p.recovered()
	var matter []autoscale.PaceAdvice
	for _, a := range advice {
		if p.matters(&a) {
			matter = append(matter, a)
		}
	}
	if len(matter) == 0 || workflow.GetVersion(ctx, changePace, workflow.DefaultVersion, 1) == workflow.DefaultVersion {
		return false
	}
	var void, healed []string
	for _, a := range matter {
		p.serveWith(ctx, a)
		if a.Slower {
			void = append(void, a.Describe())
		} else {
			healed = append(healed, a.Describe())
		}
	}
	cause := "measured while serving: " + strings.Join(healed, ", ")
	if len(void) > 0 {
		cause = "promise void because " + strings.Join(void, ", ")
	}
	p.ask(cause)
	return true
}

// matters says whether to plan with what a module takes: it is no emulation, and
// the profile that the next plan would use says something else. A profile on file
// is never taken to be slower than it is: the points are raised to it, and it holds
// as it is again once executors are as fast as it says.
func (p *pipeline) matters(a *autoscale.PaceAdvice) bool {
	declared := p.Spec.Pipeline.Module(a.Module)
	if declared == nil || p.emulated(a.Module) {
		return false
	}
	file := declared.Profile.Points
	if a.Points = atLeast(a.Points, file); !a.Slower && len(file) > 0 && a.Measured <= autoscale.Covers(file, a.Hardware, a.Size) {
		a.Points = file
	}
	next := p.profiled(p.Spec.Pipeline)
	current := next.Module(a.Module).Profile.Points
	return slices.ContainsFunc(a.Points, func(at pipelines.Point) bool {
		was := durationOf(current, at)
		return math.Abs(float64(at.Duration-was)) > paceMatters*float64(was)
	})
}

func (p *pipeline) emulated(module string) bool {
	for _, s := range p.Serving.Slots {
		if s.Module == module && s.Engine == executors.EngineEmulated {
			return true
		}
	}
	return false
}

// serveWith plans the module with the points from now on. Where the declaration
// gives no profile, the host keeps them, for the next time.
func (p *pipeline) serveWith(ctx workflow.Context, a autoscale.PaceAdvice) {
	if p.Served == nil {
		p.Served = map[string][]pipelines.Point{}
	}
	file := p.Spec.Pipeline.Module(a.Module).Profile.Points
	if p.Served[a.Module] = a.Points; len(file) > 0 {
		if !slices.ContainsFunc(a.Points, func(at pipelines.Point) bool { return at.Duration != durationOf(file, at) }) {
			delete(p.Served, a.Module) // back at what the file says
		}
		return
	}
	i := slices.IndexFunc(p.Running, func(r Running) bool { return r.Slot.Module == a.Module && r.Slot.Hardware == a.Hardware })
	if i < 0 {
		return
	}
	host := p.Running[i].Slot.Host
	in := activities.KeepInput{Pipeline: p.Spec.Pipeline, Module: a.Module, Hardware: a.Hardware, Points: a.Points}
	workflow.Go(ctx, func(ctx workflow.Context) {
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
			TaskQueue:              activities.HostQueue(host),
			StartToCloseTimeout:    time.Minute,
			ScheduleToStartTimeout: hostPatience,
			RetryPolicy:            &temporal.RetryPolicy{InitialInterval: time.Second, MaximumAttempts: 3},
			Summary:                "keep the profile of " + a.Module + " as measured while serving",
		})
		var host *activities.Host
		if err := workflow.ExecuteActivity(ctx, host.KeepProfile, in).Get(ctx, nil); err != nil {
			workflow.GetLogger(ctx).Warn("the profile was not kept", "module", a.Module, "error", err)
		}
	})
}

// recovered takes durations back with which no plan was possible, once executors
// take again what the plan that serves counts on.
func (p *pipeline) recovered() {
	if p.Failure == nil {
		return
	}
	hold := orDefault(p.Settings.Pace.Hold, autoscale.DefaultPaceHold)
	for _, m := range p.Pace.Modules {
		served := p.Serving.Pipeline.Module(m.Module)
		if _, ok := p.Served[m.Module]; ok && served != nil && m.Side == 0 && p.Pace.Last.Sub(m.Since) >= hold {
			p.Served[m.Module] = served.Profile.Points
		}
	}
}

// atLeast raises points to those of a file, where there are any.
func atLeast(points, file []pipelines.Point) []pipelines.Point {
	all := slices.Clone(points)
	for i := range all {
		if least := durationOf(file, all[i]); all[i].Duration < least {
			k := slices.IndexFunc(file, sameConfiguration(all[i]))
			all[i] = file[k]
		}
	}
	return all
}

// durationOf is what points say of the configuration of another; 0 for nothing.
func durationOf(points []pipelines.Point, at pipelines.Point) time.Duration {
	if i := slices.IndexFunc(points, sameConfiguration(at)); i >= 0 {
		return points[i].Duration
	}
	return 0
}

func sameConfiguration(a pipelines.Point) func(pipelines.Point) bool {
	return func(b pipelines.Point) bool {
		return a.Hardware == b.Hardware && a.Batch == b.Batch && max(a.Concurrency, 1) == max(b.Concurrency, 1)
	}
}

// void are the modules that are slower than the plan that serves counts on.
func (p *pipeline) void() (all []Pace) {
	if p.Serving == nil {
		return nil
	}
	for _, a := range p.Pace.Void() {
		all = append(all, Pace{Module: a.Module, Hardware: a.Hardware, Size: a.Size, Measured: a.Measured, Profiled: a.Profiled, Held: a.Held})
	}
	return all
}

// healed are the modules that the plan that serves takes to need another time
// than their profile says, at the largest batch planned.
func (p *pipeline) healed() (all []Pace) {
	if p.Serving == nil {
		return nil
	}
	for _, planned := range p.Serving.Plan.Modules {
		declared := p.Spec.Pipeline.Module(planned.Name)
		if declared == nil || len(planned.Groups) == 0 || len(p.Served[planned.Name]) == 0 {
			continue
		}
		profile := declared.Profile.Points
		if len(profile) == 0 {
			profile = p.Points[planned.Name]
		}
		g := planned.Groups[0]
		at := pipelines.Point{Hardware: g.Hardware, Batch: g.Batch, Concurrency: g.Concurrency}
		was, is := durationOf(profile, at), durationOf(p.Serving.Pipeline.Module(planned.Name).Profile.Points, at)
		if was != 0 && is != 0 && was != is {
			all = append(all, Pace{Module: planned.Name, Hardware: g.Hardware, Size: g.Batch, Measured: is, Profiled: was})
		}
	}
	return all
}

// Promise says what is wrong with the durations that the plan stands on, a line
// each; it is empty when nothing is.
func (s Status) Promise() string {
	var b strings.Builder
	for _, v := range s.Void {
		a := autoscale.PaceAdvice{Module: v.Module, Hardware: v.Hardware, Held: v.Held,
			Deviation: autoscale.Deviation{Size: v.Size, Measured: v.Measured, Profiled: v.Profiled}}
		fmt.Fprintf(&b, "promise void because %s\n", a.Describe())
	}
	for _, h := range s.Healed {
		fmt.Fprintf(&b, "%s is planned with %v for a batch of %d on %s, as measured while it serves; its profile says %v\n",
			h.Module, round(h.Measured), h.Size, h.Hardware, round(h.Profiled))
	}
	if s.Disturbed != "" {
		fmt.Fprintf(&b, "%s\n", s.Disturbed)
	}
	return b.String()
}
