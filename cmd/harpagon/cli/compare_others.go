package cli

import (
	"context"
	"slices"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler"
	"github.com/harpagon/harpagon/scheduler/cluster"
	"github.com/harpagon/harpagon/scheduler/functions"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/pool"
)

// policiesOf are the policies of a kind of service, of those asked for.
func (f *compareFlags) policiesOf(k scheduler.Kind) []string {
	return slices.DeleteFunc(pipelines.Policies(k), func(name string) bool {
		return len(f.policies) > 0 && !slices.Contains(f.policies, name)
	})
}

// others compares the policies on every function and pool of the document, and
// every cluster with the same pipelines apart.
func (f *compareFlags) others(ctx context.Context, d *Deps, doc *pipelines.Document, to *comparisons) error {
	for _, s := range scheduler.Specs(doc) {
		if s.Kind() == scheduler.KindCluster {
			one, err := f.cluster(ctx, d, s)
			if err != nil {
				return err
			}
			to.Clusters = append(to.Clusters, one)
			continue
		}
		names := f.policiesOf(s.Kind())
		if len(names) == 0 {
			continue
		}
		switch s.Kind() {
		case scheduler.KindFunction:
			one := functions.Comparison{Function: s.Function.Name}
			for _, name := range names {
				plan, err := functions.Solve(s.FunctionProblem(), functions.Options{Policy: name, Clock: d.Clock, Stop: f.ended(ctx, d)})
				if err != nil {
					return err
				}
				one.Plans = append(one.Plans, plan)
			}
			to.Functions = append(to.Functions, one)
		case scheduler.KindPool:
			to.Pools = append(to.Pools, pool.Compare(pool.Problem{Pool: *s.Pool, Hardware: s.Hardware}, pool.Options{}, names...))
		}
	}
	return nil
}

// ended is when a search that begins now must end.
func (f *compareFlags) ended(ctx context.Context, d *Deps) func() bool {
	if f.limit <= 0 || d.Clock == nil {
		return func() bool { return ctx.Err() != nil }
	}
	begin := d.Clock()
	return func() bool { return ctx.Err() != nil || d.Clock()-begin >= f.limit }
}

// cluster plans a cluster, and its pipelines without it.
func (f *compareFlags) cluster(ctx context.Context, d *Deps, s scheduler.Spec) (cluster.Comparison, error) {
	specs := []scheduler.Spec{s}
	for i := range s.Members {
		specs = append(specs, scheduler.Spec{Pipeline: &s.Members[i], Hardware: s.Hardware})
	}
	found, err := d.Solve(ctx, specs, scheduler.Fleet{}, f.limit)
	if err != nil {
		return cluster.Comparison{}, err
	}
	var apart []plan.Plan
	for _, p := range found[1:] {
		apart = append(apart, *p.Pipeline)
	}
	return cluster.Compare(*found[0].Cluster, apart), nil
}
