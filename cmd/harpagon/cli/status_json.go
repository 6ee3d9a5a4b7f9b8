package cli

import (
	"slices"
	"time"

	"github.com/harpagon/harpagon/executors/devices"
	"github.com/harpagon/harpagon/workflows"
	"github.com/harpagon/harpagon/workflows/control"
)

// serviceRow is one service in JSON, whatever its kind.
type serviceRow struct {
	Name       string        `json:"name"`
	Kind       string        `json:"kind"` // pipeline, pool or function
	Phase      string        `json:"phase"`
	Generation int           `json:"generation"` // that serves; while none does, the one that is asked for
	Rate       float64       `json:"rate"`
	Policy     string        `json:"policy"`
	CostModel  string        `json:"cost_model,omitempty"`
	Cost       float64       `json:"cost"`
	Plan       any           `json:"plan"` // as plan --json prints it; null while nothing serves
	Asked      *askedRow     `json:"asked,omitempty"`
	Failure    string        `json:"failure,omitempty"`
	Decisions  []decisionRow `json:"decisions"` // oldest first
}

// askedRow is a change that is under way or could not be carried out.
type askedRow struct {
	Generation int     `json:"generation"`
	Rate       float64 `json:"rate,omitempty"`
	Reason     string  `json:"reason"`
}

type decisionRow struct {
	Generation int       `json:"generation"`
	At         time.Time `json:"at"`
	Reason     string    `json:"reason"`
	Failure    string    `json:"failure,omitempty"`
	FromCost   float64   `json:"from_cost"`
	ToCost     float64   `json:"to_cost"`
	FromRate   float64   `json:"from_rate"`
	ToRate     float64   `json:"to_rate"`
}

// fleetRow is who takes part.
type fleetRow struct {
	Hosts []hostRow `json:"hosts"`
}

type hostRow struct {
	Name    string          `json:"name"`
	Devices []hostDeviceRow `json:"devices"`
}

type hostDeviceRow struct {
	Name      string `json:"name"`
	Hardware  string `json:"hardware"`
	Executors int    `json:"executors"`
}

func pipelineRow(s control.Status) serviceRow {
	row := serviceRow{
		Name: s.Pipeline, Kind: "pipeline", Phase: string(s.Phase), Generation: s.Generation, Rate: s.Rate, Cost: s.Cost,
		Asked: newAskedRow(s.Asked), Failure: failureText(s.Failure), Decisions: []decisionRow{},
	}
	switch {
	case s.Pool != nil:
		row.Kind, row.Policy, row.Plan = "pool", s.Pool.Policy, s.Pool
	case s.Plan != nil:
		row.Policy, row.CostModel, row.Plan = s.Plan.Policy, s.Plan.CostModel, s.Plan
	}
	for _, d := range s.Decisions {
		row.Decisions = append(row.Decisions, newDecisionRow(d.Generation, d.At, d.Reason, d.Failure, d.Change))
	}
	return row
}

func functionRow(s control.FunctionStatus) serviceRow {
	row := serviceRow{
		Name: s.Function, Kind: "function", Phase: string(s.Phase), Generation: s.Generation, Rate: s.Rate, Cost: s.Cost,
		Asked: newAskedRow(s.Asked), Failure: failureText(s.Failure), Decisions: []decisionRow{},
	}
	if s.Plan != nil {
		row.Policy, row.Plan = s.Plan.Policy, s.Plan
	}
	for _, d := range s.Decisions {
		row.Decisions = append(row.Decisions, newDecisionRow(d.Generation, d.At, d.Reason, d.Failure, d.Change))
	}
	return row
}

func newAskedRow(a *workflows.Asked) *askedRow {
	if a == nil {
		return nil
	}
	return &askedRow{a.Generation, a.Rate, a.Cause}
}

func failureText(f *workflows.Failure) string {
	if f == nil {
		return ""
	}
	return f.Reason
}

func newDecisionRow(generation int, at time.Time, reason, failure string, c workflows.Change) decisionRow {
	return decisionRow{generation, at, reason, failure, c.FromCost, c.ToCost, c.FromRate, c.ToRate}
}

// services lists everything that runs, in one form for all kinds.
func (e everything) services() []serviceRow {
	rows := []serviceRow{}
	for _, s := range e.Pipelines {
		rows = append(rows, pipelineRow(s))
	}
	for _, s := range e.Functions {
		rows = append(rows, functionRow(s))
	}
	return rows
}

// fleetOf groups devices by host.
func fleetOf(all []devices.Reading) *fleetRow {
	f := &fleetRow{Hosts: []hostRow{}}
	for _, r := range all {
		at := slices.IndexFunc(f.Hosts, func(h hostRow) bool { return h.Name == r.Host })
		if at < 0 {
			at = len(f.Hosts)
			f.Hosts = append(f.Hosts, hostRow{Name: r.Host})
		}
		f.Hosts[at].Devices = append(f.Hosts[at].Devices, hostDeviceRow{r.Device, r.Hardware, r.Executors})
	}
	return f
}
