package scheduler

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/cluster"
	"github.com/harpagon/harpagon/scheduler/functions"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/pool"
)

// Kind of service.
type Kind = pipelines.Kind

// The kinds, as blocks and IDs of workflows spell them.
const (
	KindPipeline = pipelines.KindPipeline
	KindPool     = pipelines.KindPool
	KindFunction = pipelines.KindFunction
	KindCluster  = pipelines.KindCluster
)

// Spec is a service as it is declared: one of Pipeline, Pool, Function and Cluster
// is set. How it is planned is part of the declaration (pipelines.Planning).
type Spec struct {
	Pipeline *pipelines.Pipeline  `json:",omitempty"`
	Pool     *pipelines.Pool      `json:",omitempty"`
	Function *pipelines.Function  `json:",omitempty"`
	Provider *pipelines.Provider  `json:",omitempty"` // of Function
	Cluster  *pipelines.Cluster   `json:",omitempty"`
	Members  []pipelines.Pipeline `json:",omitempty"` // of Cluster
	Hardware []pipelines.Hardware `json:",omitempty"` // that Pipeline, Pool or Cluster may use

	// Devices is how many Cluster is to have by what was measured, within its bounds;
	// 0 leaves that to its plan.
	Devices int `json:",omitempty"`
}

// Specs are the services of a document: pipelines that are in no cluster, then
// pools, functions and clusters, each in their order of declaration.
func Specs(doc *pipelines.Document) []Spec {
	var all []Spec
	for i := range doc.Pipelines {
		if doc.ClusterOf(doc.Pipelines[i].Name) == "" {
			all = append(all, Spec{Pipeline: &doc.Pipelines[i], Hardware: doc.Hardware})
		}
	}
	for i := range doc.Pools {
		all = append(all, Spec{Pool: &doc.Pools[i], Hardware: doc.Hardware})
	}
	for i := range doc.Functions {
		one := Spec{Function: &doc.Functions[i]}
		for k := range doc.Providers {
			if doc.Providers[k].Name == one.Function.Provider {
				one.Provider = &doc.Providers[k]
			}
		}
		all = append(all, one)
	}
	for i := range doc.Clusters {
		all = append(all, Spec{Cluster: &doc.Clusters[i], Members: doc.Members(&doc.Clusters[i]), Hardware: doc.Hardware})
	}
	return all
}

// Kind is what the spec declares; empty where it declares nothing.
func (s Spec) Kind() Kind {
	switch {
	case s.Pipeline != nil:
		return KindPipeline
	case s.Pool != nil:
		return KindPool
	case s.Function != nil:
		return KindFunction
	case s.Cluster != nil:
		return KindCluster
	}
	return ""
}

// Name is the service's name.
func (s Spec) Name() string {
	switch s.Kind() {
	case KindPipeline:
		return s.Pipeline.Name
	case KindPool:
		return s.Pool.Name
	case KindFunction:
		return s.Function.Name
	case KindCluster:
		return s.Cluster.Name
	}
	return ""
}

// Measured is the pipeline whose modules have profiles: the service's own, or a
// pool as it is served. It is false of services that nothing is measured of.
func (s Spec) Measured() (pipelines.Pipeline, bool) {
	switch s.Kind() {
	case KindPipeline:
		return *s.Pipeline, true
	case KindPool:
		return s.Pool.Served(), true
	}
	return pipelines.Pipeline{}, false
}

// WithProfiles is the spec with other points for modules of Measured, by name.
func (s Spec) WithProfiles(points map[string][]pipelines.Point) Spec {
	switch s.Kind() {
	case KindPipeline:
		p := *s.Pipeline
		p.Modules = slices.Clone(p.Modules)
		for i := range p.Modules {
			if own := points[p.Modules[i].Name]; len(own) > 0 {
				p.Modules[i].Profile.Points = own
			}
		}
		s.Pipeline = &p
	case KindPool:
		if own := points[pipelines.PoolModule]; len(own) > 0 {
			p := *s.Pool
			p.Profile.Points = own
			s.Pool = &p
		}
	}
	return s
}

// FunctionProblem is the problem of a function.
func (s Spec) FunctionProblem() functions.Problem {
	p := functions.Problem{Function: *s.Function}
	if s.Provider != nil {
		p.Provider = *s.Provider
	}
	return p
}

// Planning is how the service is planned.
func (s Spec) Planning() pipelines.Planning {
	switch s.Kind() {
	case KindPipeline:
		return s.Pipeline.Plan
	case KindPool:
		return s.Pool.Plan
	case KindFunction:
		return s.Function.Plan
	}
	return pipelines.Planning{}
}

// Plan is the plan of one service: the field of its kind is set.
type Plan struct {
	Pipeline *plan.Plan      `json:",omitempty"`
	Pool     *pool.Plan      `json:",omitempty"`
	Function *functions.Plan `json:",omitempty"`
	Cluster  *cluster.Plan   `json:",omitempty"`
}

// Reason says why there is no plan; empty where there is one.
func (p Plan) Reason() string {
	const unknown = "no reason is known"
	switch {
	case p.Pipeline != nil && p.Pipeline.Status == plan.Infeasible:
		return cmp.Or(p.Pipeline.Reason, unknown)
	case p.Pool != nil && p.Pool.Status == pool.Infeasible:
		return cmp.Or(p.Pool.Reason, unknown)
	case p.Function != nil && p.Function.Status == functions.Infeasible:
		return cmp.Or(p.Function.Reason, unknown)
	case p.Cluster != nil && p.Cluster.Status == cluster.Infeasible:
		return cmp.Or(p.Cluster.Reason, unknown)
	}
	return ""
}

// Unfinished says that there is no plan because the search was ended before it found one
// or knew that there is none: more time may find one.
func (p Plan) Unfinished() bool {
	switch {
	case p.Reason() == "":
		return false
	case p.Pipeline != nil:
		return p.Pipeline.CutShort
	case p.Function != nil:
		return p.Function.CutShort
	case p.Cluster != nil:
		return p.Cluster.CutShort
	}
	return false
}

// Refusal says why the plan must not serve the service; empty where it may. A plan
// that is not sound serves only where that is allowed.
func (p Plan) Refusal(s Spec) string {
	if reason := p.Reason(); reason != "" {
		return reason
	}
	if p.Pipeline != nil && !p.Pipeline.Sound && !s.Planning().AllowUnsound {
		return fmt.Sprintf("the plan of policy %s is not sound: some of its windows cannot be kept by any dispatcher; take policy exact, or allow it with allow_unsound = true in the plan block or --allow-unsound", p.Pipeline.Policy)
	}
	return ""
}

// CostPerHour is what the plan costs, in money per hour; a function's for full
// batches.
func (p Plan) CostPerHour() float64 {
	switch {
	case p.Pipeline != nil:
		return p.Pipeline.Cost
	case p.Pool != nil:
		return p.Pool.Cost
	case p.Function != nil:
		return p.Function.CostPerHour()
	case p.Cluster != nil:
		return p.Cluster.Cost
	}
	return 0
}

// Describe is the plan as text.
func (p Plan) Describe() string {
	switch {
	case p.Pipeline != nil:
		return p.Pipeline.Describe()
	case p.Pool != nil:
		return p.Pool.Describe()
	case p.Function != nil:
		return p.Function.Describe()
	case p.Cluster != nil:
		return p.Cluster.Describe()
	}
	return fmt.Sprintln("no plan")
}

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
