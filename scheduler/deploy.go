package scheduler

import (
	"time"

	"github.com/harpagon/harpagon/scheduler/cluster"
	"github.com/harpagon/harpagon/scheduler/functions"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/scheduler/pool"
)

// Deploy is what gateways and executors need of the spec as the plan has it. The
// slots are placement's to choose: Pipeline and Plan are what it places. The plan
// must be one of this spec, and feasible.
func (s Spec) Deploy(generation int, p Plan) placement.Deployment {
	d := placement.Deployment{Generation: generation}
	switch s.Kind() {
	case KindPipeline:
		d.Pipeline, d.Plan = *s.As(p).Pipeline, *p.Pipeline
	case KindPool:
		d.Pipeline, d.Plan = s.Pool.Served(), pool.Served(*s.Pool, *p.Pool)
		d.Pipeline.Rate = p.Pool.Goodput
		d = pool.Deploy(d, *s.Pool, *p.Pool)
	case KindFunction:
		d.Pipeline.Name = s.Function.Name
		d.Function = &functions.Deployment{Generation: generation, Function: *s.Function, Plan: *p.Function}
		if s.Provider != nil {
			d.Function.Provider = *s.Provider
		}
	case KindCluster:
		d.Pipeline.Name = s.Cluster.Name
		d.Cluster = s.parts(*p.Cluster)
	}
	return d
}

// parts are the sub-clusters that the plan of a cluster has.
func (s Spec) parts(p cluster.Plan) *placement.Cluster {
	c := &placement.Cluster{Dispatch: p.Dispatch, Hardware: p.Hardware}
	for _, sub := range p.SubClusters {
		part := placement.Part{Name: sub.Name, Devices: sub.Devices}
		for _, name := range sub.Pipelines {
			for _, m := range s.Members {
				if m.Name == name {
					part.Members = append(part.Members, placement.Member{Pipeline: m, Budgets: p.BudgetsOf(name)})
				}
			}
		}
		c.Parts = append(c.Parts, part)
	}
	return c
}

// Rate is what the service is planned for, in requests per second; of a pool,
// what its plan sustains, for a pool serves what its budget pays for.
func (s Spec) Rate(p Plan) float64 {
	switch s.Kind() {
	case KindPipeline:
		return s.Pipeline.Rate
	case KindPool:
		if p.Pool != nil {
			return p.Pool.Goodput
		}
	case KindFunction:
		return s.Function.Rate()
	case KindCluster:
		sum := 0.0
		for i := range s.Members {
			sum += s.Members[i].Rate
		}
		return sum
	}
	return 0
}

// SLO is the service's objective; 0 of a function or a cluster, whose applications or
// pipelines have one each.
func (s Spec) SLO() time.Duration {
	switch s.Kind() {
	case KindPipeline:
		return s.Pipeline.SLO
	case KindPool:
		return s.Pool.SLO
	}
	return 0
}

// Policy is the name of the policy that made the plan, and the cost model where
// its kind has several.
func (p Plan) Policy() (policy, costModel string) {
	switch {
	case p.Pipeline != nil:
		return p.Pipeline.Policy, p.Pipeline.CostModel
	case p.Pool != nil:
		return p.Pool.Policy, ""
	case p.Function != nil:
		return p.Function.Policy, ""
	case p.Cluster != nil:
		return cluster.Policy, ""
	}
	return "", ""
}
