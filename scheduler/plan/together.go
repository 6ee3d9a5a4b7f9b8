package plan

import (
	"time"

	"github.com/harpagon/harpagon/scheduler/plan/demand"
)

// Device is a device that groups share.
type Device struct {
	Hardware string
	Price    float64 // money per hour
	Share    float64 // of its time that is used, 0..1
	Tasks    []Task
}

// Task is a group that runs on a shared device.
type Task struct {
	Pipeline string
	Module   string
	Group    int // index into Module.Groups
	Duration time.Duration
	Period   time.Duration
	Deadline time.Duration // from the end of the window to the end of the batch
	Share    float64       // of the device's time
}

// SolveAll plans several pipelines together, in their order. Under cost model
// shared, policy exact lets groups of different pipelines share devices; a plan
// then is charged for its part of a device in proportion to the time it uses.
// Everything else is planned one by one.
func SolveAll(problems []Problem, o Options) []Plan {
	watch := o.stopwatch()
	tight := make([]Problem, len(problems))
	for i, p := range problems {
		tight[i] = p.tightened()
	}
	if plans, ok := solveTogether(tight, o.started()); ok {
		spent := watch()
		for i := range plans {
			plans[i].keep(&problems[i])
			plans[i].SolveTime = spent
		}
		return plans
	}
	var plans []Plan
	for _, p := range problems {
		plans = append(plans, Solve(p, o))
	}
	return plans
}

// solveTogether is false where there is nothing to share: another policy or
// cost model, one pipeline, hardware that means different things, limits.
func solveTogether(problems []Problem, o Options) ([]Plan, bool) {
	if o.policy() != PolicyExact || o.costModel() != CostShared || len(problems) < 2 {
		return nil, false
	}
	plans := make([]Plan, len(problems))
	var able []*planner
	var index []int
	for i, p := range problems {
		if p.limited() || !sameHardware(&p, &problems[0]) {
			return nil, false
		}
		pl, err := newPlanner(&p, o)
		if err == nil {
			err = pl.checkPath()
		}
		if err != nil {
			plans[i] = o.infeasible(&p, err)
			continue
		}
		able, index = append(able, pl), append(index, i)
	}
	if len(able) == 0 {
		return plans, true
	}
	s := newSharer(able)
	var bounds []float64
	var total float64
	best, found := s.kept(func() (best *packing) {
		best, bounds, total = s.search()
		return best
	})
	if best == nil {
		return nil, false
	}
	for k, p := range found {
		able[k].certify(&p, bounds[k])
		plans[index[k]] = p
	}
	if best.weight <= total*(1+optimalityGap) {
		for _, i := range index {
			plans[i].Status = Optimal
		}
	}
	return plans, true
}

func sameHardware(a, b *Problem) bool {
	if len(a.Hardware) != len(b.Hardware) {
		return false
	}
	for i := range a.Hardware {
		if a.Hardware[i] != b.Hardware[i] {
			return false
		}
	}
	return true
}

// kept looks for a packing and writes its plans. Where single requests did not
// keep some packing that was looked at, it looks again, carefully, and takes the
// cheaper one.
func (s *sharer) kept(search func() *packing) (best *packing, plans []Plan) {
	s.careful, s.rejected = false, false
	best = search()
	if s.rejected {
		s.careful = true
		if other := search(); other != nil && (best == nil || cheaper(other.weight, best.weight)) {
			best = other
		}
	}
	if best == nil {
		return nil, nil
	}
	return best, s.plans(best)
}

// plans writes a packing as one plan a pipeline.
func (s *sharer) plans(best *packing) []Plan {
	sets := make([][]schedule, len(s.planners))
	for i, p := range s.planners {
		sets[i] = make([]schedule, len(p.modules))
	}
	for _, at := range best.parts {
		set := &sets[at.pipeline][at.module]
		for _, t := range at.own {
			set.add(t)
		}
	}
	devices := make([]Device, len(best.bins))
	users := make([][]bool, len(best.bins))
	for k := range best.bins {
		devices[k], users[k] = s.device(&best.bins[k], best, sets)
	}
	plans := make([]Plan, len(s.planners))
	for i, p := range s.planners {
		plans[i] = p.plan(sets[i], best.budgets[i])
		for k := range devices {
			if users[k][i] {
				plans[i].Devices = append(plans[i].Devices, devices[k])
			}
		}
		plans[i].ontoDevices(plans[i].Devices)
	}
	for _, together := range users {
		s.unproven(plans, together)
	}
	return plans
}

// unproven takes the promise for every request from pipelines that share a
// device with one whose requests come in bursts.
func (s *sharer) unproven(plans []Plan, together []bool) {
	bursts := false
	for i, shares := range together {
		bursts = bursts || shares && !s.planners[i].evenEverywhere()
	}
	for i, shares := range together {
		if shares && bursts {
			plans[i].Proof = MeanRate
		}
	}
}

// ontoDevices records the shared devices. The plan is sound only if they are.
func (p *Plan) ontoDevices(devices []Device) {
	p.Devices = devices
	if p.Sound = p.Sound && soundDevices(devices); !p.Sound {
		p.Proof = MeanRate
	}
}

// device adds the tasks of a shared device to the schedules of their modules,
// charged with their part of it.
func (s *sharer) device(b *bin, best *packing, sets [][]schedule) (Device, []bool) {
	d := Device{Hardware: b.host.hardware, Price: b.host.price, Share: b.use}
	users := make([]bool, len(s.planners))
	for k, i := range b.parts {
		at, w := best.parts[i], b.ways[k]
		users[at.pipeline] = true
		set := &sets[at.pipeline][at.module]
		d.Tasks = append(d.Tasks, Task{
			Pipeline: s.planners[at.pipeline].pipe.Name, Module: s.planners[at.pipeline].modules[at.module].name,
			Group: len(set.tranches), Duration: w.duration, Period: w.period, Deadline: w.deadline, Share: w.use,
		})
		set.add(tranche{
			config: *w.config, machines: w.use, rate: at.rest, collect: at.rest, period: w.period, margin: w.margin,
			deadline: w.deadline, worst: w.period + w.margin + w.deadline, part: w.use / d.Share,
		})
	}
	return d, users
}

func soundDevices(devices []Device) bool {
	for _, d := range devices {
		if !demand.NonPreemptive(d.tasks()).Sound {
			return false
		}
	}
	return true
}

func (d *Device) tasks() []demand.Task {
	var tasks []demand.Task
	for _, t := range d.Tasks {
		tasks = append(tasks, demand.Task{Duration: t.Duration.Seconds(), Period: t.Period.Seconds(), Deadline: t.Deadline.Seconds()})
	}
	return tasks
}

// sharing says whether groups may share devices.
func (p *planner) sharing() bool {
	return p.options.policy() == PolicyExact && p.options.costModel() == CostShared
}

// packed plans one pipeline under given budgets.
func (p *planner) packed(budgets []time.Duration) (Plan, error) {
	s := newSharer([]*planner{p})
	best, plans := s.kept(func() *packing { return s.within(splitting{budgets}) })
	if best == nil {
		return Plan{}, p.noSplit()
	}
	return plans[0], nil
}

// solveShared plans one pipeline under cost model shared.
func (p *planner) solveShared() (Plan, error) {
	s := newSharer([]*planner{p})
	bound := 0.0
	best, plans := s.kept(func() (best *packing) {
		best, _, bound = s.search()
		return best
	})
	if best == nil {
		return Plan{}, p.noSplit()
	}
	p.certify(&plans[0], bound)
	return plans[0], nil
}
