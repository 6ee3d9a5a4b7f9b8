package simulate

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/dispatch/factory"
	"github.com/harpagon/harpagon/scheduler/dispatch/recording"
	"github.com/harpagon/harpagon/scheduler/dispatch/tc"
	"github.com/harpagon/harpagon/scheduler/flow"
	"github.com/harpagon/harpagon/scheduler/plan"
)

// machineTolerance is the part of a machine that counts as rounding.
const machineTolerance = 1e-6

// OnPlans plays each load against its plan: every module has a dispatcher of
// its own, the groups of the plan as executors, virtual arrivals from the
// budgets above it and deadlines that leave the modules below the least that
// they need, as in the gateway. Devices that groups share are shared here, by
// modules and by pipelines.
func OnPlans(loads []Load, plans []plan.Plan, o Options) (Result, error) {
	e, o, err := newEngine(loads, o)
	if err != nil {
		return Result{}, err
	}
	if len(plans) != len(loads) {
		return Result{}, fmt.Errorf("simulate: there are %d loads and %d plans; each load needs its plan", len(loads), len(plans))
	}
	s := planSetup{engine: e, options: o, shared: map[groupName]int32{}}
	for i := range loads {
		if err := s.addPipeline(i, &loads[i], &plans[i]); err != nil {
			return Result{}, err
		}
	}
	return e.play(loads, o)
}

// planSetup gives plans their stations and devices.
type planSetup struct {
	*engine
	options Options
	shared  map[groupName]int32 // the device that a group shares
}

// groupName names a group.
type groupName struct {
	pipeline, module string
	group            int
}

func (s *planSetup) addPipeline(at int, l *Load, p *plan.Plan) error {
	if p.Status == plan.Infeasible {
		return fmt.Errorf("simulate: pipeline %q has no plan: %s", l.Pipeline.Name, p.Reason)
	}
	if p.Pipeline != l.Pipeline.Name {
		return fmt.Errorf("simulate: the plan of pipeline %q was given for pipeline %q", p.Pipeline, l.Pipeline.Name)
	}
	if err := s.addSharedDevices(p); err != nil {
		return err
	}
	a := &s.loads[at]
	budget, keep := map[string]time.Duration{}, map[string]flow.KeptWindows{}
	for i := range p.Modules {
		m := &p.Modules[i]
		budget[m.Name] = m.Budget
		keep[m.Name] = flow.KeepWindows(s.options.Policies.Groups(s.dispatch(l)), m, flow.DispatchGroups(l.Pipeline.Module(m.Name), m))
	}
	a.graph.Schedule(budget, keep)
	for i := range a.nodes {
		n := &a.nodes[i]
		k := slices.IndexFunc(p.Modules, func(m plan.Module) bool { return m.Name == n.Module })
		if k < 0 {
			return fmt.Errorf("simulate: the plan of pipeline %q lacks module %q; make a new plan", p.Pipeline, n.Module)
		}
		n.station = int32(len(s.stations))
		if err := s.addStation(l, p, &p.Modules[k], n); err != nil {
			return err
		}
	}
	if s.options.Admission {
		s.addAdmission(at, &l.Pipeline, p)
	}
	return nil
}

// addSharedDevices makes the devices that groups share; pipelines that were planned
// together name the same ones.
func (s *planSetup) addSharedDevices(p *plan.Plan) error {
	for _, d := range p.Devices {
		at := int32(-1)
		for _, t := range d.Tasks {
			if known, ok := s.shared[groupName{t.Pipeline, t.Module, t.Group}]; ok {
				at = known
			}
		}
		if at < 0 {
			var err error
			if at, err = s.addDevice(d.Hardware); err != nil {
				return err
			}
			s.devices[at].shared = true
		}
		for _, t := range d.Tasks {
			s.shared[groupName{t.Pipeline, t.Module, t.Group}] = at
		}
	}
	return nil
}

// addStation makes the station of a module, with its executors.
func (s *planSetup) addStation(l *Load, p *plan.Plan, m *plan.Module, n *node) error {
	groups := flow.DispatchGroups(l.Pipeline.Module(m.Name), m)
	policy, err := s.policy(l, p, m, n, groups)
	if err != nil {
		return err
	}
	tables := make([][]Time, len(groups))
	for i, g := range groups {
		if tables[i] = g.Durations; tables[i] == nil {
			tables[i] = slices.Repeat([]Time{g.Duration}, max(1, g.Batch))
		}
	}
	s.newStation(policy).tables = [][][]Time{tables}
	for i, g := range m.Groups {
		if g.Rate+g.DummyRate <= 0 && g.Machines <= machineTolerance {
			continue
		}
		if at, ok := s.shared[groupName{p.Pipeline, m.Name, i}]; ok && g.Deadline > 0 {
			s.addExecutor(n.station, at, int32(i), g.Concurrency)
			continue
		}
		machines := int(math.Ceil(g.Machines - machineTolerance))
		if g.Rides {
			machines = 1 // beside others, without waiting for them
		}
		for range machines {
			if err := s.addAlone(n.station, int32(i), g.Hardware, g.Concurrency); err != nil {
				return err
			}
		}
	}
	return nil
}

// dispatch is the policy that serves a pipeline.
func (s *planSetup) dispatch(l *Load) string {
	if s.options.Dispatch != "" {
		return s.options.Dispatch
	}
	return l.Pipeline.Dispatch
}

// policy makes the dispatcher of a module.
func (s *planSetup) policy(l *Load, p *plan.Plan, m *plan.Module, n *node, groups []tc.Group) (made, error) {
	spec, err := s.options.Policies.Spec(factory.Module{
		Policy: s.dispatch(l), Groups: groups, SLO: l.Pipeline.SLO - n.Offset - n.Keep.Planned, Rate: m.Rate,
		MaxQueue: s.options.MaxQueue, Early: flow.ModuleEarlyStart(s.options.Eager, &l.Pipeline, p, m), Below: s.options.Dropping.below(n.Node), Delay: s.planned,
	})
	var policy made
	if err == nil {
		policy, err = s.options.newPolicy(l.Pipeline.Name+"/"+m.Name, spec)
	}
	if err != nil {
		return made{}, fmt.Errorf("simulate: pipeline %q, module %q: %w", l.Pipeline.Name, m.Name, err)
	}
	return policy, nil
}

// made is a policy with what records it.
type made struct {
	dispatch.Policy
	recorder *recording.Recorder
}

// newPolicy makes the policy of a station, or the one that stands in its place.
func (o Options) newPolicy(station string, s factory.Spec) (made, error) {
	if o.Policy != nil && s.Shared != nil {
		p, err := o.Policy(s.Shared.Options)
		return made{Policy: p}, err
	}
	p, err := o.Policies.New(s)
	if err != nil || o.Record == nil {
		return made{Policy: p}, err
	}
	r := o.Record(station)
	r.Begin(p, s, false)
	return made{p, r}, nil
}
