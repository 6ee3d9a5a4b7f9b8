package simulate

import (
	"encoding/json"

	"github.com/harpagon/harpagon/pipelines/histogram"
	"github.com/harpagon/harpagon/pipelines/quantity"
)

// The JSON of a simulation is part of the public contract: times are
// milliseconds as numbers, rates requests per second.

type pipelineJSON struct {
	Pipeline    string       `json:"pipeline"`
	Dispatch    string       `json:"dispatch"`
	Arrivals    string       `json:"arrivals"`
	Seed        uint64       `json:"seed"`
	Rate        float64      `json:"offered_rate"`
	Requests    int64        `json:"requests"`
	Completed   int64        `json:"completed"`
	Late        int64        `json:"late"`
	Dropped     int64        `json:"dropped"`
	Refused     int64        `json:"refused"`
	Attainment  float64      `json:"attainment"`
	Interval    Interval     `json:"attainment_interval"`
	GoodputRate *float64     `json:"goodput_rate,omitempty"`
	Goodput     *goodputJSON `json:"goodput,omitempty"`
	MeanBatch   float64      `json:"mean_batch"`
	Utilisation float64      `json:"utilisation"`
	Wasted      float64      `json:"wasted"`
	Latency     histogram.MS `json:"latency_ms"`
	Devices     int          `json:"devices"`
	SLO         quantity.MS  `json:"slo_ms"`
	Modules     []moduleJSON `json:"modules"`
}

type moduleJSON struct {
	Module    string       `json:"name"`
	Rate      float64      `json:"rate"`
	Items     int64        `json:"items"`
	Completed int64        `json:"completed"`
	Late      int64        `json:"late"`
	Dropped   int64        `json:"dropped"`
	Refused   int64        `json:"refused"`
	Withdrawn int64        `json:"withdrawn"`
	Batches   int64        `json:"batches"`
	MeanBatch float64      `json:"mean_batch"`
	Budget    quantity.MS  `json:"budget_ms"`
	Latency   histogram.MS `json:"latency_ms"`
}

type goodputJSON struct {
	Attainment      float64  `json:"attainment"`
	Interval        Interval `json:"attainment_interval"`
	NotSustained    float64  `json:"not_sustained_rate"`
	NotSustainedHas float64  `json:"not_sustained_attainment"`
	Tolerance       float64  `json:"tolerance"`
	Seeds           int      `json:"seeds"`
}

// MarshalJSON writes the fixed field names of the contract.
func (p PipelineResult) MarshalJSON() ([]byte, error) {
	j := pipelineJSON{
		Pipeline: p.Pipeline, Dispatch: p.Dispatch, Arrivals: p.Arrivals, Seed: p.Seed, Rate: p.Rate,
		Requests: p.Requests, Completed: p.Completed, Late: p.Late, Dropped: p.Dropped, Refused: p.Refused,
		Attainment: p.Attainment, Interval: p.Interval, MeanBatch: p.MeanBatch, Utilisation: p.Utilisation, Wasted: p.Wasted,
		Latency: p.Latency.MS(), Devices: p.Devices, SLO: quantity.MS(p.SLO), Modules: []moduleJSON{},
	}
	if g := p.Goodput; g != nil {
		j.GoodputRate = &g.Rate
		at := g.At.Worst()
		j.Goodput = &goodputJSON{at.Attainment, at.Interval, g.Above.Rate, g.Above.Worst().Attainment, g.Tolerance, g.Seeds}
	}
	for _, m := range p.Modules {
		j.Modules = append(j.Modules, moduleJSON{
			m.Module, m.Rate, m.Items, m.Completed, m.Late, m.Dropped, m.Refused, m.Withdrawn,
			m.Batches, m.MeanBatch, quantity.MS(m.Budget), m.Latency.MS(),
		})
	}
	return json.Marshal(j)
}

type attainedJSON struct {
	Pipeline   string   `json:"pipeline"`
	Requests   int64    `json:"requests"`
	Completed  int64    `json:"completed"`
	Late       int64    `json:"late"`
	Dropped    int64    `json:"dropped"`
	Refused    int64    `json:"refused"`
	Attainment float64  `json:"attainment"`
	Interval   Interval `json:"attainment_interval"`
}

// MarshalJSON writes the fixed field names of the contract.
func (m Attained) MarshalJSON() ([]byte, error) {
	return json.Marshal(attainedJSON{m.Pipeline, m.Requests, m.Completed, m.Late, m.Dropped, m.Refused, m.Attainment, m.Interval})
}
