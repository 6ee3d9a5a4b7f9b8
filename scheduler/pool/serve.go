package pool

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/dispatch/factory"
	"github.com/harpagon/harpagon/scheduler/dispatch/matching"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/scheduler/plan"
)

// Largest is the largest query that is served: the largest that was measured on
// the base, by which all sizes can be served, or else is to be.
func Largest(p pipelines.Pool) int {
	if p.Learns() {
		return slices.Max(p.MeasuredSizes())
	}
	return p.Profile.Latency(p.Base).Largest()
}

// Served is the plan of a pool as placement and status read it: a group for
// each kind of instance, the base first, and a device for each instance. The
// batch of a group is the largest query.
func Served(p pipelines.Pool, of Plan) plan.Plan {
	out := plan.Plan{
		Pipeline: p.Name, Policy: of.Policy, CostModel: plan.CostWhole, Status: plan.Status(of.Status), Reason: of.Reason,
		SLO: p.SLO, Latency: p.SLO, Cost: of.Cost,
	}
	m := plan.Module{Name: pipelines.PoolModule, Rate: of.Goodput, Budget: p.SLO, Cost: of.Cost}
	for _, name := range ServedKinds(p, of) {
		n := float64(of.Instances[name])
		latency, largest := p.Taken(name), Largest(p)
		full, one := cmp.Or(latency.At(largest), p.SLO), cmp.Or(latency.At(1), p.SLO) // what is not known may take so long
		m.Groups = append(m.Groups, plan.Group{
			Hardware: name, Batch: largest, Concurrency: 1, Duration: full, Machines: n, Rate: n / one.Seconds(),
		})
	}
	out.Modules = []plan.Module{m}
	return out
}

// ServedKinds are the kinds that the plan has instances of, the base first.
func ServedKinds(p pipelines.Pool, of Plan) []string {
	var names []string
	for name, n := range of.Instances {
		if n > 0 {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		switch {
		case a == p.Base:
			return -1
		case b == p.Base || a > b:
			return 1
		}
		return -1
	})
	return names
}

// Deploy completes a deployment of Pipeline and Served with the pool's data for dispatch.
func Deploy(d placement.Deployment, p pipelines.Pool, of Plan) placement.Deployment {
	p.Sizes = p.Mix()
	p.Profile.Points = nil // Pipeline has them
	d.Pool, d.Worth = &p, nil
	if p.Matching.Coefficients == pipelines.CoefficientsPaper || len(of.Coefficients) == 0 {
		return d // matching has them where no others are given
	}
	for _, name := range ServedKinds(p, of) {
		d.Worth = append(d.Worth, of.Coefficients[name])
	}
	return d
}

// Dispatcher is policy matching for a deployment of a pool: the groups of its
// plan are the types of instances. Queries may wait up to maxQueue, 0 for the
// policy's own bound.
func Dispatcher(d placement.Deployment, maxQueue int) (factory.Spec, error) {
	if d.Pool == nil || len(d.Plan.Modules) != 1 || len(d.Pipeline.Modules) != 1 {
		return factory.Spec{}, fmt.Errorf("pool: deployment of %q is none of a pool", d.Pipeline.Name)
	}
	whole := *d.Pool
	whole.Profile = d.Pipeline.Modules[0].Profile
	var types []matching.InstanceType
	base := -1
	for i, g := range d.Plan.Modules[0].Groups {
		if g.Hardware == d.Pool.Base {
			base = i
		}
		types = append(types, matching.InstanceType{Name: g.Hardware, Latency: whole.Taken(g.Hardware)})
	}
	o := matchingOptions(d.Pool.Matching, types, base, d.Pool.SLO, Largest(whole), d.Worth)
	o.MaxQueue = maxQueue
	return factory.Spec{Matching: &o}, o.Check()
}

// everything is a number of queries and instances that no decision reaches.
const everything = 1 << 20

// matchingOptions are those of policy matching where a plan was made; what is
// simulated and what is served are configured alike.
func matchingOptions(how pipelines.Matching, types []matching.InstanceType, base int, slo time.Duration, largest int, worth []float64) matching.Options {
	o := matching.Options{Types: types, Base: int32(base), SLO: slo, Largest: int32(largest), Coefficients: worth, Width: how.Width}
	if how.Coefficients == pipelines.CoefficientsPaper {
		o.Coefficients = nil
	}
	if how.Width == pipelines.WidthAll {
		o.Width, o.Instances = everything, everything
	}
	return o
}
