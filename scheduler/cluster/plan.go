package cluster

import (
	"cmp"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/quantity"
	"github.com/harpagon/harpagon/scheduler/dispatch/factory"
	"github.com/harpagon/harpagon/scheduler/plan"
)

// Problem is a cluster to plan.
type Problem struct {
	Cluster   pipelines.Cluster
	Pipelines []pipelines.Pipeline // that are in it
	Hardware  pipelines.Hardware   // of its devices; one without a name where there is none

	// Holders are the services that have all devices of the hardware where it is not there
	// for the cluster; none where no host has it.
	Holders []string

	// Wanted is how many devices it is to have by what was measured, as far as its
	// bounds and what there is allow; 0 for as many as its declared rates need.
	Wanted int

	// Grows means that hosts are made on demand: until then the cluster serves with the
	// devices that there are, and the plan states how many it lacks.
	Grows bool
}

// Options of planning. The zero value is the default.
type Options struct {
	Stop     func() bool      // polled: true ends the search; nil for never
	Policies factory.Policies // that a program brings to dispatch by

	// DispatcherRate is how many items per second one dispatcher decides about;
	// DefaultDispatcherRate when 0.
	DispatcherRate float64
}

// DefaultDispatcherRate is what one core decides with room to spare (docs/results/dispatcher.md
// has what was measured).
const DefaultDispatcherRate = 500_000

// Policy is the name of the one way in which clusters are planned: the division of
// objectives with least work, and the fewest devices that attain by simulation.
const Policy = "least-work"

// Status of a plan.
type Status string

// The statuses, spelled as plans of pipelines spell them.
const (
	Optimal    Status = Status(plan.Optimal)    // no cluster with fewer devices can serve the declared rates
	Feasible   Status = Status(plan.Feasible)   // it serves them; LowerBound bounds how far it is from the least
	Infeasible Status = Status(plan.Infeasible) // Reason reports why
)

// Plan is how a cluster is made up.
type Plan struct {
	Cluster  string `json:"cluster"`
	Dispatch string `json:"dispatch"`
	Status   Status `json:"status"`
	Reason   string `json:"reason,omitempty"` // of Infeasible

	Devices    int     `json:"devices"`                   // that it has
	Needed     int     `json:"devices_needed"`            // that the declared rates need, at the attainment of every pipeline
	Lacking    int     `json:"devices_lacking,omitempty"` // that it should have beside those that it has, where more can be had
	Least      int     `json:"devices_bound"`             // that the declared rates need at least, under any dispatch
	Hardware   string  `json:"hardware"`
	Cost       float64 `json:"cost"`        // per hour
	LowerBound float64 `json:"lower_bound"` // of the cost

	Goodput    float64 `json:"goodput_rate"` // requests per second at the source, of all pipelines in proportion to their rates, at which each keeps its attainment
	Attainment float64 `json:"attainment"`   // of the pipeline that attains least at the declared rates
	Work       float64 `json:"work"`         // seconds of devices a second at the batches that the budgets allow

	// CutShort means that the search was ended by its time limit or its caller: fewer
	// devices may be enough, and these may bear more.
	CutShort bool `json:"cut_short,omitempty"`

	SubClusters []SubCluster `json:"sub_clusters"`
	Pipelines   []Pipeline   `json:"pipelines"`
}

// SubCluster is the share of one dispatcher.
type SubCluster struct {
	Name      string   `json:"name"`
	Devices   int      `json:"devices"`
	Pipelines []string `json:"pipelines"`
	Rate      float64  `json:"rate"` // requests per second at the source
}

// Pipeline is what the plan has for one of them.
type Pipeline struct {
	Name       string       `json:"name"`
	Rate       float64      `json:"rate"`
	Attainment float64      `json:"attainment"` // expected
	Budgets    plan.Budgets `json:"budgets_ms"`
	Order      []string     `json:"modules"` // in order of declaration
}

// BudgetsOf are those of a pipeline's modules.
func (p Plan) BudgetsOf(pipeline string) plan.Budgets {
	for _, one := range p.Pipelines {
		if one.Name == pipeline {
			return one.Budgets
		}
	}
	return nil
}

// Dispatch is the policy of a cluster.
func Dispatch(c *pipelines.Cluster) string {
	return cmp.Or(c.Dispatch, pipelines.Dispatches(pipelines.KindCluster)[0])
}

func infeasible(p *Problem, format string, args ...any) Plan {
	return Plan{Cluster: p.Cluster.Name, Dispatch: Dispatch(&p.Cluster), Hardware: p.Cluster.Hardware, Status: Infeasible, Reason: fmt.Sprintf(format, args...)}
}

// Of is the service that the plan is for.
func (p Plan) Of() (kind pipelines.Kind, name string) { return pipelines.KindCluster, p.Cluster }

// Models are the names that requests give: those of the pipelines.
func (p Plan) Models() (names []string) {
	for _, one := range p.Pipelines {
		names = append(names, one.Name)
	}
	return names
}

// NoPlan reports why there is none.
func (p Plan) NoPlan() (reason string, infeasible bool) { return p.Reason, p.Status == Infeasible }

// EndedEarly reports that with more time the search may find another plan.
func (p Plan) EndedEarly() bool { return p.CutShort }

// CostPerHour is what the plan costs, in money per hour.
func (p Plan) CostPerHour() float64 { return p.Cost }

// MadeBy is the policy, and the cost model where there are several.
func (p Plan) MadeBy() (policy, costModel string) { return Policy, "" }

// Describe is the plan for people.
func (p Plan) Describe() string {
	if p.Status == Infeasible {
		return fmt.Sprintf("cluster %s: infeasible: %s\n", p.Cluster, p.Reason)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "cluster %s: %s plan, %d %s at %s per hour, dispatch %s\n", p.Cluster, p.Status, p.Devices, p.Hardware, quantity.Number(p.Cost), p.Dispatch)
	fmt.Fprintf(&b, "needs %d for the declared rates, no dispatcher less than %d; serves %s requests/s with every pipeline at its attainment\n", p.Needed, p.Least, quantity.Number(p.Goodput))
	if p.CutShort {
		b.WriteString("the search was ended: fewer devices may be enough, and these may serve more\n")
	}
	if p.Lacking > 0 {
		fmt.Fprintf(&b, "lacks %d\n", p.Lacking)
	}
	if len(p.SubClusters) > 1 {
		for _, s := range p.SubClusters {
			fmt.Fprintf(&b, "  %s: %d devices, %s requests/s: %s\n", s.Name, s.Devices, quantity.Number(s.Rate), strings.Join(s.Pipelines, ", "))
		}
	}
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "pipeline\trate/s\tin time\tmodule\tbudget\t")
	for _, one := range p.Pipelines {
		name, rate, attained := one.Name, quantity.Number(one.Rate), quantity.Percent(one.Attainment)
		for _, m := range one.Order {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t\n", name, rate, attained, m, quantity.Duration(one.Budgets[m]))
			name, rate, attained = "", "", ""
		}
	}
	_ = w.Flush() // a strings.Builder takes everything
	return b.String()
}

// MarshalJSON writes the fixed field names of the contract: times are milliseconds as
// numbers, rates requests per second, costs per hour.
func (p Plan) MarshalJSON() ([]byte, error) { return quantity.Marshal(p) }

// UnmarshalJSON reads what MarshalJSON wrote; unknown fields are ignored.
func (p *Plan) UnmarshalJSON(text []byte) error { return quantity.Unmarshal(text, p) }

// MarshalJSON writes the fixed field names of the contract.
func (p Pipeline) MarshalJSON() ([]byte, error) { return quantity.Marshal(p) }

// UnmarshalJSON reads what MarshalJSON wrote.
func (p *Pipeline) UnmarshalJSON(text []byte) error { return quantity.Unmarshal(text, p) }

// Comparison is a cluster beside the same pipelines on devices of their own.
type Comparison struct {
	Plan  Plan        `json:"plan"`
	Apart []plan.Plan `json:"apart"` // the same pipelines, planned together without the cluster

	ApartCost float64 `json:"apart_cost"` // of those that have a plan
	Best      string  `json:"best"`       // "cluster" or "apart"; empty where neither serves all
}

// Compare puts the plans side by side. Both are for what the pipelines declare:
// arrivals, attainment and rates.
func Compare(p Plan, apart []plan.Plan) Comparison {
	c := Comparison{Plan: p, Apart: apart}
	whole := true
	for _, one := range apart {
		c.ApartCost += one.Cost
		whole = whole && one.Status != plan.Infeasible
	}
	switch serves := p.Status != Infeasible; {
	case serves && (!whole || p.Cost <= c.ApartCost*(1+plan.CostTolerance)):
		c.Best = "cluster"
	case whole:
		c.Best = "apart"
	}
	return c
}

// Describe is the comparison for people.
func (c Comparison) Describe() string {
	var b strings.Builder
	fmt.Fprintf(&b, "cluster %s beside its pipelines on devices of their own\n", c.Plan.Cluster)
	if c.Plan.Status == Infeasible {
		fmt.Fprintf(&b, "  in the cluster: infeasible: %s\n", c.Plan.Reason)
	} else {
		fmt.Fprintf(&b, "  in the cluster: %s per hour, %d %s\n", quantity.Number(c.Plan.Cost), c.Plan.Devices, c.Plan.Hardware)
	}
	fmt.Fprintf(&b, "  apart: %s per hour, policy exact\n", quantity.Number(c.ApartCost))
	for _, one := range c.Apart {
		if one.Status == plan.Infeasible {
			fmt.Fprintf(&b, "    %s: infeasible: %s\n", one.Pipeline, one.Reason)
		} else {
			fmt.Fprintf(&b, "    %s: %s\n", one.Pipeline, quantity.Number(one.Cost))
		}
	}
	switch c.Best {
	case "":
		b.WriteString("  neither serves all of them\n")
	default:
		fmt.Fprintf(&b, "  cheaper: %s\n", c.Best)
	}
	return b.String()
}
