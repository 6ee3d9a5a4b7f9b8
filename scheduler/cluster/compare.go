package cluster

import (
	"fmt"
	"strings"

	"github.com/harpagon/harpagon/pipelines/quantity"
	"github.com/harpagon/harpagon/scheduler/plan"
)

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
