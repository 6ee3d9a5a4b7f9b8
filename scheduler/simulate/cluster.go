package simulate

import (
	"fmt"
	"slices"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/cluster/division"
	"github.com/harpagon/harpagon/scheduler/dispatch/factory"
	"github.com/harpagon/harpagon/scheduler/dispatch/shared"
)

// Devices is so many devices of one hardware in a cluster.
type Devices struct {
	Hardware string
	Count    int
}

// DefaultClusterDispatch is the policy of a cluster where none is named: adaptive
// where this build has it.
func DefaultClusterDispatch() string {
	if names := shared.Names(); slices.Contains(names, "adaptive") {
		return "adaptive"
	}
	return "deferred"
}

// OnCluster plays all loads against one cluster of devices, without plans: every
// device runs any module of any pipeline, one batch at a time, and one
// dispatcher serves all of them. This is the setting of Symphony.
//
// A pipeline of several modules divides its SLO so that the devices have least work
// (package cluster/division; by the first kind, where there are several); a request
// is due at a module when the budgets up to there have passed, and what a module leaves of
// its budget is the next one's.
func OnCluster(loads []Load, devices []Devices, o Options) (Result, error) {
	e, o, err := newEngine(loads, o)
	if err != nil {
		return Result{}, err
	}
	b := clusterSetup{engine: e, options: o, kinds: devices}
	if err := b.build(loads); err != nil {
		return Result{}, err
	}
	return e.play(loads, o)
}

// clusterSetup gives a cluster its one station.
type clusterSetup struct {
	*engine
	options Options
	kinds   []Devices
	models  []shared.Model
	tables  [][][]Time

	blocking time.Duration // of devices; see package division
}

func (b *clusterSetup) build(loads []Load) error {
	if len(b.kinds) == 0 {
		return fmt.Errorf("simulate: the cluster has no devices; name the hardware and how many there are of it")
	}
	for i := range loads {
		b.blocking = max(b.blocking, division.Blocking(b.kinds[0].Hardware, loads[i].Pipeline))
	}
	for i := range loads {
		if err := b.addModels(&loads[i], &b.loads[i]); err != nil {
			return err
		}
	}
	name := b.options.Dispatch
	if name == "" {
		name = DefaultClusterDispatch()
	}
	if pipelines.DispatchesGroups(name) {
		return fmt.Errorf("simulate: policy %s cuts batches for the groups of a plan; a cluster has none. Leave out the devices, or choose one of %v", name, shared.Names())
	}
	if err := factory.Suits(name); err != nil && b.options.Policy == nil {
		return fmt.Errorf("simulate: %w", err)
	}
	options := shared.Options{Models: b.models, MaxQueue: b.options.MaxQueue, Delay: b.planned}
	policy, err := b.options.newPolicy("cluster", factory.Spec{Shared: &factory.Shared{Name: name, Options: options}})
	if err != nil {
		return fmt.Errorf("simulate: %w", err)
	}
	b.stations = append(b.stations, station{policy: policy.Policy, recorder: policy.recorder, tables: b.tables})
	seen := map[string]bool{}
	for g, k := range b.kinds {
		if k.Count < 1 || seen[k.Hardware] {
			return fmt.Errorf("simulate: the cluster has %d devices %q; give each hardware once, with at least one device", k.Count, k.Hardware)
		}
		seen[k.Hardware] = true
		for range k.Count {
			if err := b.addAlone(0, int32(g), k.Hardware, 1); err != nil {
				return err
			}
		}
	}
	if s := b.options.Scaling; s != nil {
		if len(b.kinds) > 1 {
			return fmt.Errorf("simulate: a cluster of %d kinds of devices is not scaled; name one", len(b.kinds))
		}
		b.scale(*s, b.kinds[0].Hardware)
	}
	return nil
}

// addModels makes a model of every module of a pipeline.
func (b *clusterSetup) addModels(l *Load, a *loadState) error {
	budget, err := b.split(l)
	if err != nil {
		return err
	}
	scaled := l.Pipeline
	scaled.Rate = l.offered()
	hardware := make([]string, len(b.kinds))
	for i, k := range b.kinds {
		hardware[i] = k.Hardware
	}
	models, err := factory.SharedModels(&scaled, a.graph, budget, hardware...)
	if err != nil {
		return fmt.Errorf("simulate: %w", err)
	}
	for i, model := range models {
		a.nodes[i].class = int32(len(b.models))
		b.models = append(b.models, model)
		b.tables = append(b.tables, model.Groups)
	}
	return nil
}

// split divides the SLO among the modules.
func (b *clusterSetup) split(l *Load) (map[string]time.Duration, error) {
	p := l.Pipeline
	switch {
	case l.Budgets != nil:
		return l.Budgets, nil
	case len(p.Modules) == 1:
		return map[string]time.Duration{p.Modules[0].Name: p.SLO}, nil
	}
	if p.Rate == 0 {
		p.Rate = l.offered()
	}
	d, err := division.Of(p, b.kinds[0].Hardware, b.blocking)
	if err != nil {
		return nil, fmt.Errorf("simulate: the SLO of pipeline %q cannot be divided among its modules: %w", p.Name, err)
	}
	return d.Budgets, nil
}
