package dispatcher

import (
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/harpagon/harpagon/scheduler/flow"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/scheduler/pool"
)

// Generation is a deployment compiled for dispatching. It does not change once it is
// installed.
type Generation struct {
	*flow.Graph
	Deployment placement.Deployment

	policies []builtPolicy // by node; they are the stations' once it is installed
	stations []*station    // by node
	number   int           // in its account; see unguarded
	account  *account      // nil where it is unguarded
	largest  int           // size of a pool's query; 0 where requests are none
	apps     []string      // of a function, by class

	// Of a part of a cluster: its pipelines, in their order. Each of them is a
	// generation with a graph of its own, whose nodes stand in whole from base on.
	members []*Generation
	homes   []*Generation // member by node
	whole   *Generation
	base    int
	left    atomic.Int32 // of whole: members that are not forgotten

	forgotten bool // no request has it; under Dispatcher.mu
}

// Compile makes a generation with its policies. The deployment of a function has the
// function as a pipeline of one module; that of a cluster is of one part.
func (d *Dispatcher) Compile(of placement.Deployment) (*Generation, error) {
	if of.Cluster != nil {
		return d.compileCluster(of)
	}
	compiled, err := flow.Compile(&of.Pipeline)
	if err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	g := &Generation{Graph: compiled, Deployment: of}
	if of.Pool != nil {
		whole := *of.Pool
		whole.Profile = of.Pipeline.Modules[0].Profile
		g.largest = pool.Largest(whole)
	}
	if of.Function != nil {
		for i := range of.Function.Plan.Groups {
			for _, share := range of.Function.Plan.Groups[i].Applications {
				g.apps = append(g.apps, share.Name)
			}
		}
	}
	scheduleGraph(&g.Deployment, compiled, d.options.Policies)
	g.policies, err = buildPolicies(&g.Deployment, compiled, d.limits())
	return g, err
}

func (d *Dispatcher) limits() policyLimits {
	o := &d.options
	return policyLimits{Own: o.Policies, MaxQueue: o.MaxQueue, MaxCalls: o.MaxCalls, Patient: o.Patient, Margin: o.Margin, FunctionMargin: o.FunctionMargin}
}

// LargestQuery is the size of the largest query of a pool; 0 where requests are none.
func (g *Generation) LargestQuery() int { return g.largest }

// Policy is the name of the policy of a module.
func (g *Generation) Policy(index int) string {
	if g.whole != nil {
		return g.whole.policies[0].Name()
	}
	return g.policies[index].Name()
}

// Install puts a generation in charge: items that wait move to its policies, and
// what is under way finishes. Executors that do not fit their modules get no work;
// callers are those of a function, by group. It returns the number of items that
// have moved.
func (d *Dispatcher) Install(g *Generation, unfit []string, callers []*Executor) (moved int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	name := g.Deployment.Name()
	defer d.planStreams(name, g)
	v := d.services[name]
	if v == nil {
		v = &service{}
	}
	if g.members != nil {
		return d.installCluster(g, v, unfit)
	}
	stations := make(map[string]*station, len(g.Nodes))
	setups := make([]setup, len(g.Nodes))
	for i := range g.Nodes {
		module := g.Nodes[i].Module
		s := v.stations[module]
		if identity := placement.Identity(&g.Deployment, module); s == nil || s.identity != identity {
			s = d.newStation(g, module, identity)
		}
		stations[module], g.stations = s, append(g.stations, s)
		setups[i] = d.setup(g, i, unfit)
		for group, e := range callers {
			setups[i].members = append(setups[i].members, member{exec: e, group: int32(group)})
		}
	}
	v.supersede(g, stations)
	if d.decidesElsewhere(&g.Deployment) {
		if l := d.owner(name); l != nil {
			l.install(g)
		} else {
			d.orphaned(name)
		}
	}
	for i, s := range g.stations {
		moved += s.configure(setups[i])
	}
	d.services[name] = v
	d.guard(g)
	return moved
}

func (d *Dispatcher) newStation(g *Generation, module, identity string) *station {
	s := &station{
		dispatcher: d, service: g.Deployment.Name(), module: module, identity: identity,
		downAt: d.Now(), elsewhere: d.decidesElsewhere(&g.Deployment),
	}
	s.timer, s.drive.Driver = d.options.NewTimer(s.tick), driver{s}
	if s.elsewhere {
		s.link = d.owner(s.service)
	} else if s.recorder = d.newRecorder(); s.recorder != nil {
		s.drive.Record = s.recorder.Step
	}
	span := d.options.Span
	if g.Deployment.Function != nil {
		span = d.options.FunctionSpan
	}
	s.stats.Init(span, d.Now())
	return s
}

func (d *Dispatcher) setup(g *Generation, index int, unfit []string) setup {
	policy := &g.policies[index]
	c := setup{policy: policy.Policy, spec: policy.Spec, apps: g.apps}
	if f := g.Deployment.Function; f != nil {
		c.calls = f.Provider.CallConcurrency()
		return c
	}
	module, s := g.Nodes[index].Module, g.stations[index]
	c.groups = shapes(&g.Deployment, module)
	for _, slot := range g.Deployment.Slots {
		e := d.executors[slot.Executor]
		if slot.Module != module || e == nil || slices.Contains(unfit, slot.Executor) {
			continue
		}
		if e.station != nil && e.station != s {
			e.station.remove(e)
		}
		e.station = s
		c.members = append(c.members, member{exec: e, group: int32(slot.Group)})
	}
	return c
}

// shapes are those of the groups of executors of a module.
func shapes(of *placement.Deployment, module string) (all []groupShape) {
	for _, group := range policyGroups(of, module) {
		all = append(all, groupShape{batch: group.Batch, window: group.Window})
	}
	return all
}

// Remove stops serving a service. Its executors stay; requests under way go on.
func (d *Dispatcher) Remove(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.services, name)
	d.refuseStreams(name)
	for _, l := range d.links {
		l.remove(name)
	}
}

// Serving is the generation that is in charge of a service; nil for none.
func (d *Dispatcher) Serving(service string) *Generation {
	d.mu.Lock()
	defer d.mu.Unlock()
	if v := d.services[service]; v != nil {
		return v.current
	}
	return nil
}

// stationOf is that of a module that a slot names; nil where there is none.
func (g *Generation) stationOf(module string) *station {
	if g.members != nil {
		return g.stations[0]
	}
	for i := range g.Nodes {
		if g.Nodes[i].Module == module {
			return g.stations[i]
		}
	}
	return nil
}

// Adopt lets items of an older generation come, to the stations of modules that are the
// same now, and to stations with the executors that it still has where they are not.
func (d *Dispatcher) Adopt(g *Generation) {
	d.mu.Lock()
	defer d.mu.Unlock()
	v := d.services[g.Deployment.Name()]
	v.older = append(v.older, g)
	defer d.assignIdle(g)
	if g.members != nil {
		d.adoptCluster(g, v)
		return
	}
	for i := range g.Nodes {
		module := g.Nodes[i].Module
		identity := placement.Identity(&g.Deployment, module)
		s := v.stations[module]
		if s == nil || s.identity != identity {
			s = d.newStation(g, module, identity)
			s.configure(setup{policy: g.policies[i].Policy, spec: g.policies[i].Spec, groups: shapes(&g.Deployment, module)})
		}
		g.stations = append(g.stations, s)
	}
	d.guard(g)
}
