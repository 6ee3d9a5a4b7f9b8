package functions

import (
	"encoding/json"
	"time"

	"github.com/harpagon/harpagon/pipelines/quantity"
)

// The JSON of a plan is part of the public contract: times are milliseconds as
// numbers, rates requests per second.

type planJSON struct {
	Function       string      `json:"function"`
	Policy         string      `json:"policy"`
	Status         Status      `json:"status"`
	Reason         string      `json:"reason,omitempty"`
	Sound          bool        `json:"sound"`
	Rate           float64     `json:"rate"`
	CostPerRequest float64     `json:"cost_per_request"`
	ExpectedCost   float64     `json:"expected_cost_per_request"`
	LowerBound     float64     `json:"lower_bound_per_request,omitempty"`
	Gap            float64     `json:"gap"`
	Cost           float64     `json:"cost"`
	ColdStart      quantity.MS `json:"cold_start_ms,omitempty"`
	Prepared       bool        `json:"prepared,omitempty"`
	CutShort       bool        `json:"cut_short,omitempty"`
	SolveTime      quantity.MS `json:"solve_ms"`
	Groups         []Group     `json:"groups"`
}

type groupJSON struct {
	Platform       Platform    `json:"platform"`
	VCPU           float64     `json:"vcpu"`
	GPUMemory      float64     `json:"gpu_memory_gb"`
	Host           float64     `json:"memory_gb,omitempty"`
	Batch          int         `json:"batch"`
	Rate           float64     `json:"rate"`
	LatencyAvg     quantity.MS `json:"latency_avg_ms"`
	LatencyMax     quantity.MS `json:"latency_max_ms"`
	Timeout        quantity.MS `json:"equivalent_timeout_ms"`
	CostPerRequest float64     `json:"cost_per_request"`
	Applications   []Share     `json:"applications"`
}

type shareJSON struct {
	Name    string      `json:"name"`
	SLO     quantity.MS `json:"slo_ms"`
	Rate    float64     `json:"rate"`
	Timeout quantity.MS `json:"timeout_ms"`
}

// MarshalJSON writes the fixed field names of the contract; cost is money per
// hour.
func (p Plan) MarshalJSON() ([]byte, error) {
	groups := p.Groups
	if groups == nil {
		groups = []Group{}
	}
	return json.Marshal(planJSON{
		p.Function, p.Policy, p.Status, p.Reason, p.Sound, p.Rate, p.CostPerRequest, p.ExpectedCost, p.LowerBound, p.Gap(),
		p.CostPerHour(), quantity.MS(p.ColdStart), p.Prepared, p.CutShort, quantity.MS(p.SolveTime), groups,
	})
}

// UnmarshalJSON reads what MarshalJSON wrote; fields that it does not know are
// ignored.
func (p *Plan) UnmarshalJSON(b []byte) error {
	var j planJSON
	if err := json.Unmarshal(b, &j); err != nil {
		return err
	}
	if len(j.Groups) == 0 {
		j.Groups = nil
	}
	*p = Plan{
		j.Function, j.Policy, j.Status, j.Reason, j.Sound, j.Rate, j.CostPerRequest, j.ExpectedCost, j.LowerBound, time.Duration(j.ColdStart), j.Prepared, j.CutShort,
		time.Duration(j.SolveTime), j.Groups,
	}
	return nil
}

// MarshalJSON writes the fixed field names of the contract.
func (g Group) MarshalJSON() ([]byte, error) {
	return json.Marshal(groupJSON{
		g.Platform, g.VCPU, g.GPUMemory, g.Host, g.Batch, g.Rate, quantity.MS(g.LatencyAvg), quantity.MS(g.LatencyMax),
		quantity.MS(g.Timeout), g.Cost, g.Applications,
	})
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (g *Group) UnmarshalJSON(b []byte) error {
	var j groupJSON
	if err := json.Unmarshal(b, &j); err != nil {
		return err
	}
	avg, most := time.Duration(j.LatencyAvg), time.Duration(j.LatencyMax)
	*g = Group{
		Offer: Offer{j.Platform, j.VCPU, j.GPUMemory, j.Host, j.Batch, avg.Seconds(), most.Seconds(), j.CostPerRequest},
		Rate:  j.Rate, LatencyAvg: avg, LatencyMax: most, Timeout: time.Duration(j.Timeout), Applications: j.Applications,
	}
	return nil
}

// MarshalJSON writes the fixed field names of the contract.
func (s Share) MarshalJSON() ([]byte, error) {
	return json.Marshal(shareJSON{s.Name, quantity.MS(s.SLO), s.Rate, quantity.MS(s.Timeout)})
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (s *Share) UnmarshalJSON(b []byte) error {
	var j shareJSON
	if err := json.Unmarshal(b, &j); err != nil {
		return err
	}
	*s = Share{j.Name, time.Duration(j.SLO), j.Rate, time.Duration(j.Timeout)}
	return nil
}
