package cluster

import (
	"encoding/json"

	"github.com/harpagon/harpagon/pipelines/quantity"
	"github.com/harpagon/harpagon/scheduler/plan"
)

// The JSON of a plan is part of the public contract: times are milliseconds as
// numbers, rates requests per second, costs per hour.

type planJSON struct {
	Cluster     string           `json:"cluster"`
	Dispatch    string           `json:"dispatch"`
	Status      Status           `json:"status"`
	Reason      string           `json:"reason,omitempty"`
	Devices     int              `json:"devices"`
	Needed      int              `json:"devices_needed"`
	Lacking     int              `json:"devices_lacking,omitempty"` // that it should have beside, where more can be had
	Least       int              `json:"devices_bound"`
	Hardware    string           `json:"hardware"`
	Cost        float64          `json:"cost"`
	LowerBound  float64          `json:"lower_bound"`
	Goodput     float64          `json:"goodput_rate"`
	Attainment  float64          `json:"attainment"`
	Work        float64          `json:"work"`
	CutShort    bool             `json:"cut_short,omitempty"`
	SubClusters []subClusterJSON `json:"sub_clusters"`
	Pipelines   []pipelineJSON   `json:"pipelines"`
}

type subClusterJSON struct {
	Name      string   `json:"name"`
	Devices   int      `json:"devices"`
	Pipelines []string `json:"pipelines"`
	Rate      float64  `json:"rate"`
}

type pipelineJSON struct {
	Name       string             `json:"name"`
	Rate       float64            `json:"rate"`
	Attainment float64            `json:"attainment"`
	Budgets    map[string]float64 `json:"budgets_ms"`
	Order      []string           `json:"modules"`
}

// MarshalJSON writes the fixed field names of the contract.
func (p Plan) MarshalJSON() ([]byte, error) {
	j := planJSON{
		p.Cluster, p.Dispatch, p.Status, p.Reason, p.Devices, p.Needed, p.Lacking, p.Least, p.Hardware, p.Cost, p.LowerBound,
		p.Goodput, p.Attainment, p.Work, p.CutShort, []subClusterJSON{}, []pipelineJSON{},
	}
	for _, s := range p.SubClusters {
		j.SubClusters = append(j.SubClusters, subClusterJSON(s))
	}
	for _, one := range p.Pipelines {
		to := pipelineJSON{one.Name, one.Rate, one.Attainment, map[string]float64{}, one.Order}
		for m, b := range one.Budgets {
			to.Budgets[m] = quantity.Millis(b)
		}
		j.Pipelines = append(j.Pipelines, to)
	}
	return json.Marshal(j)
}

// UnmarshalJSON reads what MarshalJSON writes.
func (p *Plan) UnmarshalJSON(text []byte) error {
	var j planJSON
	if err := json.Unmarshal(text, &j); err != nil {
		return err
	}
	*p = Plan{
		Cluster: j.Cluster, Dispatch: j.Dispatch, Status: j.Status, Reason: j.Reason, Hardware: j.Hardware, Devices: j.Devices, Needed: j.Needed, Lacking: j.Lacking, Least: j.Least,
		Cost: j.Cost, LowerBound: j.LowerBound, Goodput: j.Goodput, Attainment: j.Attainment, Work: j.Work, CutShort: j.CutShort,
	}
	for _, s := range j.SubClusters {
		p.SubClusters = append(p.SubClusters, SubCluster(s))
	}
	for _, one := range j.Pipelines {
		to := Pipeline{Name: one.Name, Rate: one.Rate, Attainment: one.Attainment, Budgets: plan.Budgets{}, Order: one.Order}
		for m, ms := range one.Budgets {
			to.Budgets[m] = plan.WholeNanoseconds(ms / 1000)
		}
		p.Pipelines = append(p.Pipelines, to)
	}
	return nil
}
