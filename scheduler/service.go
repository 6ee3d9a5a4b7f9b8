package scheduler

import (
	"cmp"
	"fmt"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/quantity"
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

// Kinds lists them as people look for them.
func Kinds() []Kind { return []Kind{KindPipeline, KindPool, KindFunction, KindCluster} }

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

// service is what the kinds do each in its own way, in a file of that name.
type service interface {
	kind() Kind
	name() string
	planning() pipelines.Planning
	slo() time.Duration
	rate(p Plan) float64
	measured() (pipelines.Pipeline, bool)
	withProfiles(points map[string][]pipelines.Point) Spec
	together(other Spec) bool                              // are they planned together
	solve(group []Spec, fleet Fleet, limits Limits) []Plan // of what is planned together, itself among them
	deploy(d *placement.Deployment, p Plan)
}

// service is the spec as one of its kind.
func (s Spec) service() service {
	declared := noService{s}
	switch {
	case s.Pipeline != nil:
		return pipelineService{declared}
	case s.Pool != nil:
		return poolService{declared}
	case s.Function != nil:
		return functionService{declared}
	case s.Cluster != nil:
		return clusterService{declared}
	}
	return declared
}

// noService is a spec that declares nothing, and what the kinds have in common.
type noService struct{ Spec }

func (noService) kind() Kind                                       { return "" }
func (noService) name() string                                     { return "" }
func (noService) planning() pipelines.Planning                     { return pipelines.Planning{} }
func (noService) slo() time.Duration                               { return 0 }
func (noService) rate(Plan) float64                                { return 0 }
func (noService) measured() (pipelines.Pipeline, bool)             { return pipelines.Pipeline{}, false }
func (s noService) withProfiles(map[string][]pipelines.Point) Spec { return s.Spec }
func (noService) together(Spec) bool                               { return false }
func (noService) solve(group []Spec, _ Fleet, _ Limits) []Plan     { return make([]Plan, len(group)) }
func (noService) deploy(*placement.Deployment, Plan)               {}

// Kind is what the spec declares; empty where it declares nothing.
func (s Spec) Kind() Kind { return s.service().kind() }

// Name is the service's name.
func (s Spec) Name() string { return s.service().name() }

// Measured is the pipeline whose modules have profiles: the service's own, or a
// pool as it is served. It is false of services that nothing is measured of.
func (s Spec) Measured() (pipelines.Pipeline, bool) { return s.service().measured() }

// WithProfiles is the spec with other points for modules of Measured, by name.
func (s Spec) WithProfiles(points map[string][]pipelines.Point) Spec {
	return s.service().withProfiles(points)
}

// Planning is how the service is planned.
func (s Spec) Planning() pipelines.Planning { return s.service().planning() }

// Deploy is what gateways and executors need of the spec as the plan has it. The
// slots are placement's to choose: Pipeline and Plan are what it places. The plan
// must be one of this spec, and feasible.
func (s Spec) Deploy(generation int, p Plan) placement.Deployment {
	d := placement.Deployment{Generation: generation}
	s.service().deploy(&d, p)
	return d
}

// Rate is what the service is planned for, in requests per second; of a pool,
// what its plan sustains, for a pool serves what its budget pays for.
func (s Spec) Rate(p Plan) float64 { return s.service().rate(p) }

// SLO is the service's objective; 0 of a function or a cluster, whose applications or
// pipelines have one each.
func (s Spec) SLO() time.Duration { return s.service().slo() }

// Plan is the plan of one service: the field of its kind is set.
type Plan struct {
	Pipeline *plan.Plan      `json:",omitempty"`
	Pool     *pool.Plan      `json:",omitempty"`
	Function *functions.Plan `json:",omitempty"`
	Cluster  *cluster.Plan   `json:",omitempty"`
}

// Planned is the common interface of plans of all kinds.
type Planned interface {
	Of() (kind Kind, name string)             // the service
	Models() []string                         // names that requests give
	NoPlan() (reason string, infeasible bool) // why it is none
	EndedEarly() bool                         // the search was: with more time there may be another
	CostPerHour() float64                     // in money; a function's for full batches
	MadeBy() (policy, costModel string)       // the latter where the kind has several
	Describe() string
}

// Planned is the plan that there is; nil where there is none. In JSON it is what
// harpagon plan --json prints.
func (p Plan) Planned() Planned {
	switch {
	case p.Pipeline != nil:
		return p.Pipeline
	case p.Pool != nil:
		return p.Pool
	case p.Function != nil:
		return p.Function
	case p.Cluster != nil:
		return p.Cluster
	}
	return nil
}

// Reason reports why there is no plan; empty where there is one.
func (p Plan) Reason() string {
	if one := p.Planned(); one != nil {
		if reason, infeasible := one.NoPlan(); infeasible {
			return cmp.Or(reason, "no reason is known")
		}
	}
	return ""
}

// Unfinished reports that the search was ended before it found a plan or proved that there
// is none: more time may find one.
func (p Plan) Unfinished() bool { return p.Reason() != "" && p.Planned().EndedEarly() }

// Refusal reports why the plan must not serve the service; empty where it may. A plan
// that is not sound, or promises nothing, serves only where that is allowed.
func (p Plan) Refusal(s Spec) string {
	if reason := p.Reason(); reason != "" {
		return reason
	}
	one := p.Pipeline
	switch {
	case one == nil || s.Planning().AllowUnsound:
	case !one.Sound:
		return fmt.Sprintf("the plan of policy %s is not sound: some of its windows cannot be kept by any dispatcher; take policy exact, or allow it with allow_unsound = true in the plan block or --allow-unsound", one.Policy)
	case one.Proof == plan.NoProof:
		return fmt.Sprintf("the plan of policy %s promises nothing for single requests%s; take policy exact and an attainment above 0, or allow it with allow_unsound = true in the plan block or --allow-unsound", one.Policy, expected(one))
	}
	return ""
}

func expected(p *plan.Plan) string {
	if p.Expected == nil {
		return ""
	}
	return fmt.Sprintf(", and is expected to answer %s of them in time", quantity.Percent(p.Expected.Attainment))
}

// CostPerHour is what the plan costs, in money per hour; a function's for full
// batches.
func (p Plan) CostPerHour() float64 {
	if one := p.Planned(); one != nil {
		return one.CostPerHour()
	}
	return 0
}

// Describe is the plan as text.
func (p Plan) Describe() string {
	if one := p.Planned(); one != nil {
		return one.Describe()
	}
	return fmt.Sprintln("no plan")
}

// Policy is the name of the policy that made the plan, and the cost model where
// its kind has several.
func (p Plan) Policy() (policy, costModel string) {
	if one := p.Planned(); one != nil {
		return one.MadeBy()
	}
	return "", ""
}
