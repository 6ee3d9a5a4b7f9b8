package cli

import (
	"fmt"
	"slices"
	"time"

	"github.com/harpagon/harpagon/pipelines/histogram"
	"github.com/harpagon/harpagon/pipelines/quantity"
	"github.com/harpagon/harpagon/scheduler/pool"
)

// simulatedPool is the JSON of one pool: what became of its queries. One
// without a plan says why.
type simulatedPool struct {
	Pool        string             `json:"pool"`
	Policy      string             `json:"policy"`
	Status      string             `json:"status,omitempty"`
	Reason      string             `json:"reason,omitempty"`
	Dispatch    string             `json:"dispatch"`
	Arrivals    string             `json:"arrivals"`
	Seed        uint64             `json:"seed"`
	Rate        float64            `json:"offered_rate"`
	Requests    int64              `json:"requests"`
	Completed   int64              `json:"completed"`
	Late        int64              `json:"late"`
	Dropped     int64              `json:"dropped"`
	Refused     int64              `json:"refused"`
	Attainment  float64            `json:"attainment"`
	Goodput     float64            `json:"goodput_rate,omitempty"`
	Utilisation map[string]float64 `json:"utilisation"`
	Latency     histogram.MS       `json:"latency_ms"`
}

// unplanned says that there was nothing to play.
func (s simulatedPool) unplanned() bool { return s.Status != "" }

// Describe is the result for people.
func (s simulatedPool) Describe() string {
	if s.unplanned() {
		return fmt.Sprintf("%s: %s: %s\n", s.Pool, s.Status, s.Reason)
	}
	text := fmt.Sprintf("%s: %s dispatch, %s arrivals, seed %d, %s queries/s\n", s.Pool, s.Dispatch, s.Arrivals, s.Seed, quantity.Number(s.Rate))
	text += fmt.Sprintf("  %d queries: %d in time (%s), %d late, %d dropped\n", s.Requests, s.Completed, quantity.Percent(s.Attainment), s.Late, s.Dropped)
	text += fmt.Sprintf("  latency p50 %s, p99 %s, max %s\n",
		quantity.Duration(time.Duration(s.Latency.P50)), quantity.Duration(time.Duration(s.Latency.P99)), quantity.Duration(time.Duration(s.Latency.Max)))
	if s.Goodput > 0 {
		text += fmt.Sprintf("  goodput %s queries/s\n", quantity.Number(s.Goodput))
	}
	return text
}

// playPool plays queries against the plan of a pool, at its goodput where no rate
// is given. Where there are pipelines, a policy that pools do not have is theirs.
func (f *simulateFlags) playPool(p pool.Problem, plan pool.Plan, others bool) (simulatedPool, error) {
	way := f.options.Dispatch
	if others && !slices.Contains(pool.Dispatches(), way) {
		way = ""
	}
	o := pool.SimulateOptions{
		Dispatch: way, Rate: plan.Goodput, Duration: f.options.Duration, Seed: f.options.Seed, Noise: f.options.Noise,
		Record: f.recording.of(plan.Pool),
	}
	if f.hasRate {
		o.Rate = f.rate
	}
	if o.Dispatch == "" {
		o.Dispatch = pool.Dispatches()[0]
	}
	out := simulatedPool{
		Pool: plan.Pool, Policy: plan.Policy, Dispatch: o.Dispatch, Arrivals: plan.Arrivals, Seed: o.Seed, Rate: o.Rate,
		Utilisation: map[string]float64{},
	}
	if plan.Status == pool.Infeasible {
		out.Status, out.Reason = string(plan.Status), plan.Reason
		return out, nil
	}
	r, err := pool.Simulate(p, plan, o)
	if err != nil {
		return out, err
	}
	one := r.Pipelines[0]
	out.Requests, out.Completed, out.Late, out.Dropped, out.Refused = one.Requests, one.Completed, one.Late, one.Dropped, one.Refused
	out.Attainment = one.Attainment
	out.Latency = one.Latency.MS()
	if f.goodput && o.Dispatch == pool.Dispatches()[0] {
		out.Goodput = plan.Goodput
	}
	for name := range plan.Instances {
		out.Utilisation[name] = r.Utilisation(name)
	}
	return out, nil
}
