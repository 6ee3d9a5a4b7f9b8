package plan

import (
	"encoding/json"
	"time"

	"github.com/harpagon/harpagon/pipelines/quantity"
)

// The JSON of a plan is part of the public contract: times are milliseconds as
// numbers, rates requests per second, cost money per hour. It round-trips to
// the nanosecond.

type planJSON struct {
	Pipeline   string      `json:"pipeline"`
	Policy     string      `json:"policy"`
	CostModel  string      `json:"cost_model"`
	Status     Status      `json:"status"`
	Reason     string      `json:"reason,omitempty"`
	Sound      bool        `json:"sound"`
	Proof      string      `json:"proof,omitempty"`
	Cost       float64     `json:"cost"`
	LowerBound float64     `json:"lower_bound"`
	Restrict   string      `json:"restriction,omitempty"`
	SLO        quantity.MS `json:"slo_ms"`
	Headroom   quantity.MS `json:"headroom_ms,omitempty"`
	Margin     *float64    `json:"headroom_cost,omitempty"`
	Transfer   quantity.MS `json:"transfer_ms,omitempty"`
	Latency    quantity.MS `json:"latency_ms"`
	SolveTime  quantity.MS `json:"solve_ms"`
	CutShort   bool        `json:"cut_short,omitempty"`
	Modules    []Module    `json:"modules"`
	Devices    []Device    `json:"devices,omitempty"`

	Expected      *Expectation   `json:"expected,omitempty"`
	Interruptions *Interruptions `json:"interruptions,omitempty"`

	Accuracy float64         `json:"accuracy,omitempty"`
	Variants []ServedVariant `json:"variants,omitempty"`
	Carries  float64         `json:"carries_rate,omitempty"`
}

type moduleJSON struct {
	Name      string      `json:"name"`
	Rate      float64     `json:"rate"`
	DummyRate float64     `json:"dummy_rate"`
	Budget    quantity.MS `json:"budget_ms"`
	WorstCase quantity.MS `json:"worst_case_ms"`
	Proven    quantity.MS `json:"proven_ms"`
	Cost      float64     `json:"cost"`
	Groups    []Group     `json:"groups"`
}

type groupJSON struct {
	Hardware    string      `json:"hardware"`
	Batch       int         `json:"batch"`
	Concurrency int         `json:"concurrency"`
	Duration    quantity.MS `json:"duration_ms"`
	Machines    float64     `json:"machines"`
	Spare       float64     `json:"spare,omitempty"`
	Rate        float64     `json:"rate"`
	DummyRate   float64     `json:"dummy_rate"`
	Period      quantity.MS `json:"period_ms"`
	Window      quantity.MS `json:"window_ms"`
	Deadline    quantity.MS `json:"deadline_ms,omitempty"`
	Rides       bool        `json:"rides,omitempty"`
}

// MarshalJSON writes the fixed field names of the contract. A plan without
// modules has an empty list, not null.
func (p Plan) MarshalJSON() ([]byte, error) {
	modules := p.Modules
	if modules == nil {
		modules = []Module{}
	}
	return json.Marshal(planJSON{
		p.Pipeline, p.Policy, p.CostModel, p.Status, p.Reason, p.Sound, p.Proof, p.Cost, p.LowerBound, p.Restriction,
		quantity.MS(p.SLO), quantity.MS(p.Headroom), p.HeadroomCost, quantity.MS(p.Transfer), quantity.MS(p.Latency), quantity.MS(p.SolveTime), p.CutShort, modules, p.Devices, p.Expected, p.Interruptions,
		p.Accuracy, p.Variants, p.Carries,
	})
}

// UnmarshalJSON reads what MarshalJSON wrote; fields that it does not know are
// ignored.
func (p *Plan) UnmarshalJSON(b []byte) error {
	var j planJSON
	if err := json.Unmarshal(b, &j); err != nil {
		return err
	}
	if len(j.Modules) == 0 {
		j.Modules = nil
	}
	*p = Plan{
		j.Pipeline, j.Policy, j.CostModel, j.Status, j.Reason, j.Sound, j.Proof, j.Cost, j.LowerBound, j.Restrict,
		time.Duration(j.SLO), time.Duration(j.Headroom), j.Margin, time.Duration(j.Transfer), time.Duration(j.Latency), time.Duration(j.SolveTime), j.CutShort, j.Modules, j.Devices, j.Expected, j.Interruptions,
		j.Accuracy, j.Variants, j.Carries,
	}
	return nil
}

// MarshalJSON writes the fixed field names of the contract.
func (m Module) MarshalJSON() ([]byte, error) {
	groups := m.Groups
	if groups == nil {
		groups = []Group{}
	}
	return json.Marshal(moduleJSON{
		m.Name, m.Rate, m.DummyRate, quantity.MS(m.Budget), quantity.MS(m.WorstCase), quantity.MS(m.Proven), m.Cost, groups,
	})
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (m *Module) UnmarshalJSON(b []byte) error {
	var j moduleJSON
	if err := json.Unmarshal(b, &j); err != nil {
		return err
	}
	if len(j.Groups) == 0 {
		j.Groups = nil
	}
	*m = Module{
		j.Name, j.Rate, j.DummyRate, time.Duration(j.Budget), time.Duration(j.WorstCase), time.Duration(j.Proven), j.Cost, j.Groups,
	}
	return nil
}

// MarshalJSON writes the fixed field names of the contract.
func (g Group) MarshalJSON() ([]byte, error) {
	return json.Marshal(groupJSON{
		g.Hardware, g.Batch, g.Concurrency, quantity.MS(g.Duration), g.Machines, g.Spare, g.Rate, g.DummyRate, quantity.MS(g.Period), quantity.MS(g.Window), quantity.MS(g.Deadline), g.Rides,
	})
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (g *Group) UnmarshalJSON(b []byte) error {
	var j groupJSON
	if err := json.Unmarshal(b, &j); err != nil {
		return err
	}
	*g = Group{
		j.Hardware, j.Batch, j.Concurrency, time.Duration(j.Duration), j.Machines, j.Spare, j.Rate, j.DummyRate,
		time.Duration(j.Period), time.Duration(j.Window), time.Duration(j.Deadline), j.Rides,
	}
	return nil
}

type deviceJSON struct {
	Hardware string  `json:"hardware"`
	Price    float64 `json:"price"`
	Share    float64 `json:"share"`
	Tasks    []Task  `json:"groups"`
}

type taskJSON struct {
	Pipeline string      `json:"pipeline"`
	Module   string      `json:"module"`
	Group    int         `json:"group"`
	Duration quantity.MS `json:"duration_ms"`
	Period   quantity.MS `json:"period_ms"`
	Deadline quantity.MS `json:"deadline_ms"`
	Share    float64     `json:"share"`
}

// MarshalJSON writes a shared device with the groups that run on it.
func (d Device) MarshalJSON() ([]byte, error) {
	return json.Marshal(deviceJSON(d))
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (d *Device) UnmarshalJSON(b []byte) error {
	var j deviceJSON
	if err := json.Unmarshal(b, &j); err != nil {
		return err
	}
	*d = Device(j)
	return nil
}

// MarshalJSON writes times in milliseconds.
func (t Task) MarshalJSON() ([]byte, error) {
	return json.Marshal(taskJSON{
		t.Pipeline, t.Module, t.Group, quantity.MS(t.Duration), quantity.MS(t.Period), quantity.MS(t.Deadline), t.Share,
	})
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (t *Task) UnmarshalJSON(b []byte) error {
	var j taskJSON
	if err := json.Unmarshal(b, &j); err != nil {
		return err
	}
	*t = Task{
		j.Pipeline, j.Module, j.Group, time.Duration(j.Duration), time.Duration(j.Period), time.Duration(j.Deadline), j.Share,
	}
	return nil
}
