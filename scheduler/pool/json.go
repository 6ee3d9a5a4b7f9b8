package pool

import (
	"encoding/json"
	"time"

	"github.com/harpagon/harpagon/pipelines/quantity"
)

// planJSON is the JSON of a plan, part of the public contract: rates are
// queries per second, cost and budget money per hour.
type planJSON struct {
	Pool           string             `json:"pool"`
	Policy         string             `json:"policy"`
	Status         Status             `json:"status"`
	Reason         string             `json:"reason,omitempty"`
	Cost           float64            `json:"cost"`
	Budget         float64            `json:"budget"`
	Instances      map[string]int     `json:"instances"`
	UpperBound     float64            `json:"upper_bound_rate"`
	Goodput        float64            `json:"goodput_rate"`
	Poisson        float64            `json:"poisson_goodput_rate"`
	ProvenBound    float64            `json:"proven_bound_rate"`
	BestBound      float64            `json:"best_bound_rate,omitempty"`
	Gap            float64            `json:"gap,omitempty"`
	SLO            quantity.MS        `json:"slo_ms"`
	Arrivals       string             `json:"arrivals"`
	Coefficients   map[string]float64 `json:"coefficients,omitempty"`
	Configurations int                `json:"configurations"`
	Simulated      int                `json:"simulated"`
	FoundAt        int                `json:"found_at,omitempty"`
}

// MarshalJSON writes the fixed field names of the contract. A plan without
// instances has an empty object, not null.
func (p Plan) MarshalJSON() ([]byte, error) {
	instances := p.Instances
	if instances == nil {
		instances = map[string]int{}
	}
	return json.Marshal(planJSON{
		p.Pool, p.Policy, p.Status, p.Reason, p.Cost, p.Budget, instances, p.UpperBound, p.Goodput, p.Poisson,
		p.ProvenBound, p.BestBound, p.Gap(), quantity.MS(p.SLO), p.Arrivals, p.Coefficients,
		p.Configurations, p.Simulated, p.FoundAt,
	})
}

// UnmarshalJSON reads what MarshalJSON wrote; fields that it does not know are
// ignored.
func (p *Plan) UnmarshalJSON(b []byte) error {
	var j planJSON
	if err := json.Unmarshal(b, &j); err != nil {
		return err
	}
	if len(j.Instances) == 0 {
		j.Instances = nil
	}
	*p = Plan{
		Pool: j.Pool, Policy: j.Policy, Status: j.Status, Reason: j.Reason, SLO: time.Duration(j.SLO),
		Arrivals: j.Arrivals, Budget: j.Budget, Cost: j.Cost, Instances: j.Instances, Coefficients: j.Coefficients,
		UpperBound: j.UpperBound, ProvenBound: j.ProvenBound, Goodput: j.Goodput, Poisson: j.Poisson,
		BestBound: j.BestBound, Configurations: j.Configurations, Simulated: j.Simulated, FoundAt: j.FoundAt,
	}
	return nil
}
