package serverless

import (
	"slices"
	"strings"

	"github.com/harpagon/harpagon/pipelines/quantity"
	"github.com/harpagon/harpagon/scheduler/functions"
)

// Bill is what the provider would ask for.
type Bill struct {
	Items          []Item  `json:"functions"`
	Invocations    int64   `json:"invocations"`
	Requests       int64   `json:"requests"`
	ColdStarts     int64   `json:"cold_starts"`
	Cost           float64 `json:"cost"`
	CostPerRequest float64 `json:"cost_per_request"`
}

// Item is one function of one size.
type Item struct {
	Name        string  `json:"name"` // the last part of its address
	Function    string  `json:"function"`
	Platform    string  `json:"platform"`
	VCPU        float64 `json:"vcpu"`
	GPUMemory   float64 `json:"gpu_memory_gb"`
	Invocations int64   `json:"invocations"`
	Requests    int64   `json:"requests"` // in them
	ColdStarts  int64   `json:"cold_starts"`
	Failed      int64   `json:"failed"`    // invocations that ended with an error
	Throttled   int64   `json:"throttled"` // calls that were refused
	Run         float64 `json:"run_ms"`
	Billed      float64 `json:"billed_ms"`
	Cost        float64 `json:"cost"`
	Instances   int     `json:"instances"` // alive
}

// Bill so far, in order of names.
func (h *Host) Bill() Bill {
	b := Bill{Items: []Item{}}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, d := range h.deployed {
		d.mu.Lock()
		item := d.bill
		item.Instances = d.alive
		d.mu.Unlock()
		b.Items = append(b.Items, item)
		b.Invocations += item.Invocations
		b.Requests += item.Requests
		b.ColdStarts += item.ColdStarts
		b.Cost += item.Cost
	}
	if b.Requests > 0 {
		b.CostPerRequest = b.Cost / float64(b.Requests)
	}
	slices.SortFunc(b.Items, func(x, y Item) int { return strings.Compare(x.Name, y.Name) })
	return b
}

// account bills a run, and says what it costs. The cold start is not billed.
func (d *deployed) account(n int, r run) (cost float64) {
	offer, _ := d.place.problem.Find(d.size, n)
	billed, cost := functions.Bill(&d.place.problem.Provider, offer, r.took)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.bill.Invocations++
	d.bill.Requests += int64(n)
	if r.init > 0 {
		d.bill.ColdStarts++
	}
	if r.err != nil {
		d.bill.Failed++
	}
	d.bill.Run += quantity.Millis(r.took)
	d.bill.Billed += quantity.Millis(billed)
	d.bill.Cost += cost
	return cost
}
