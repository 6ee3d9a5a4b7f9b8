package cli

import (
	"fmt"
	"strings"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/histogram"
	"github.com/harpagon/harpagon/scheduler/functions"
)

// simulatedFunction is the JSON of one function: what became of its requests,
// and what they cost. One without a plan says why.
type simulatedFunction struct {
	Function       string         `json:"function"`
	Policy         string         `json:"policy"`
	Status         string         `json:"status,omitempty"`
	Reason         string         `json:"reason,omitempty"`
	Dispatch       string         `json:"dispatch"`
	Arrivals       string         `json:"arrivals"`
	Seed           uint64         `json:"seed"`
	Rate           float64        `json:"offered_rate"`
	Requests       int            `json:"requests"`
	Completed      int            `json:"completed"`
	Late           int            `json:"late"`
	Dropped        int            `json:"dropped"`
	Refused        int            `json:"refused"`
	Attainment     float64        `json:"attainment"`
	Calls          int            `json:"calls"`
	MeanBatch      float64        `json:"mean_batch"`
	CostPerRequest float64        `json:"cost_per_request"`
	Predicted      float64        `json:"predicted_cost_per_request"`
	Latency        histogram.MS   `json:"latency_ms"`
	Groups         []functionPart `json:"groups"`

	text string
}

type functionPart struct {
	Requests       int     `json:"requests"`
	Calls          int     `json:"calls"`
	MeanBatch      float64 `json:"mean_batch"`
	Batch          int     `json:"batch"` // that the plan expects
	CostPerRequest float64 `json:"cost_per_request"`
	Predicted      float64 `json:"predicted_cost_per_request"`
}

// unplanned says that there was nothing to simulate.
func (s simulatedFunction) unplanned() bool { return s.Status != "" }

// Describe is the result for people.
func (s simulatedFunction) Describe() string {
	if s.unplanned() {
		return fmt.Sprintf("%s: %s: %s\n", s.Function, s.Status, s.Reason)
	}
	return s.text
}

// checkFunctions says what of the flags does not fit functions.
func (f *simulateFlags) checkFunctions(doc *pipelines.Document) error {
	if len(doc.Functions) == 0 {
		return nil
	}
	if f.arrivals != "" && f.arrivals != "poisson" {
		return fmt.Errorf("--arrivals %s: functions are simulated with poisson arrivals, which is also what they have when it is left out", f.arrivals)
	}
	if flag := f.beyondFunctions(); flag != "" && len(doc.Pipelines)+len(doc.Pools) == 0 {
		return fmt.Errorf("%s is for pipelines and pools, and the files declare functions only; leave it out", flag)
	}
	return nil
}

// functionRate is the rate of one function of the document: as declared, or its
// part of the rate that is given.
func (f *simulateFlags) functionRate(doc *pipelines.Document, fn *pipelines.Function) float64 {
	if !f.hasRate {
		return fn.Rate()
	}
	total := 0.0
	for _, other := range doc.Functions {
		total += other.Rate()
	}
	return f.rate * Share(fn.Rate(), total, len(doc.Functions))
}

// beyondFunctions is a flag that was given and says nothing about functions.
func (f *simulateFlags) beyondFunctions() string {
	switch {
	case len(f.pool) > 0:
		return "--pool"
	case f.goodput:
		return "--find-goodput"
	case f.plot != "":
		return "--plot"
	case f.trace != "":
		return "--trace-events"
	case len(f.lose) > 0:
		return "--lose"
	case f.options.Dispatch != "" && f.options.Dispatch != "grouped":
		return "--dispatch " + f.options.Dispatch
	}
	return ""
}

// function plans a function and simulates it.
func (f *simulateFlags) function(p functions.Problem, plan functions.Plan, rate float64) (simulatedFunction, error) {
	out := simulatedFunction{
		Function: plan.Function, Policy: plan.Policy, Dispatch: "grouped", Arrivals: "poisson", Seed: f.options.Seed, Rate: rate,
		Groups: []functionPart{},
	}
	if plan.Status == functions.Infeasible {
		out.Status, out.Reason = string(plan.Status), plan.Reason
		return out, nil
	}
	o := functions.SimulateOptions{Duration: f.options.Duration, Seed: f.options.Seed, Rate: rate, Record: f.recording.of(plan.Function)}
	if rate == 0 {
		o.Duration = 0 // nobody asks
	}
	r, err := functions.Simulate(p, plan, o)
	if err != nil {
		return out, fmt.Errorf("%s", strings.TrimPrefix(err.Error(), "functions: "))
	}
	out.Requests, out.Late, out.Dropped = r.Requests, r.Late, r.Dropped
	out.Completed = r.Requests - r.Late - r.Dropped
	out.Attainment = 1 - r.Violations()
	out.Calls, out.MeanBatch, out.CostPerRequest, out.Predicted = r.Calls, r.MeanBatch, r.CostPerRequest, r.Predicted
	out.Latency = histogram.Percentiles{P50: r.P50, P99: r.P99, Max: r.Max}.MS()
	for _, g := range r.Groups {
		out.Groups = append(out.Groups, functionPart(g))
	}
	out.text = r.Describe()
	return out, nil
}
