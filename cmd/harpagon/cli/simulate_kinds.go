package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/histogram"
	"github.com/harpagon/harpagon/pipelines/quantity"
	"github.com/harpagon/harpagon/scheduler"
	"github.com/harpagon/harpagon/scheduler/autoscale/size"
	"github.com/harpagon/harpagon/scheduler/cluster"
	"github.com/harpagon/harpagon/scheduler/functions"
	"github.com/harpagon/harpagon/scheduler/pool"
	"github.com/harpagon/harpagon/scheduler/simulate"
)

// simulatedFunction is the JSON of one function: what became of its requests,
// and what they cost. One without a plan has a reason.
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

// unplanned reports that there was nothing to simulate.
func (s simulatedFunction) unplanned() bool { return s.Status != "" }

// Describe is the result for people.
func (s simulatedFunction) Describe() string {
	if s.unplanned() {
		return fmt.Sprintf("%s: %s: %s\n", s.Function, s.Status, s.Reason)
	}
	return s.text
}

// checkFunctions reports what of the flags does not fit functions.
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

// beyondFunctions is a flag that was given and does not apply to functions.
func (f *simulateFlags) beyondFunctions() string {
	switch {
	case len(f.devices) > 0:
		return "--devices"
	case f.goodput:
		return "--find-goodput"
	case f.plot != "":
		return "--plot"
	case f.trace != "":
		return "--trace-events"
	case len(f.lose) > 0:
		return "--lose"
	case f.options.Dispatch != "" && !slices.Contains(pipelines.Dispatches(pipelines.KindFunction), f.options.Dispatch):
		return "--dispatch " + f.options.Dispatch
	}
	return ""
}

// function plans a function and simulates it.
func (f *simulateFlags) function(p functions.Problem, plan functions.Plan, rate float64) (simulatedFunction, error) {
	out := simulatedFunction{
		Function: plan.Function, Policy: plan.Policy, Dispatch: pipelines.Dispatches(pipelines.KindFunction)[0], Arrivals: "poisson", Seed: f.options.Seed, Rate: rate,
		Groups: []functionPart{},
	}
	if plan.Status == functions.Infeasible {
		out.Status, out.Reason = string(plan.Status), plan.Reason
		return out, nil
	}
	o := functions.SimulateOptions{Duration: f.options.Duration, Seed: f.options.Seed, Rate: rate, Record: f.recording.of(plan.Function)}
	if rate == 0 {
		o.Duration = 0 // it has no requests
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

// simulatedPool is the JSON of one pool: what became of its queries. One
// without a plan has a reason.
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

// unplanned reports that there was nothing to play.
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

// scaledCluster is how many devices a cluster had that followed its own advice.
type scaledCluster struct {
	Cluster string  `json:"cluster"`
	Mean    float64 `json:"mean_devices"` // that serve or start
	Changes int     `json:"changes"`
	Sizes   []sized `json:"sizes"`
}

// sized is the end of a span of measures.
type sized struct {
	At       quantity.MS `json:"at_ms"`
	Devices  int         `json:"devices"` // that serve
	Paid     int         `json:"paid"`    // these and those that start
	Requests int64       `json:"requests"`
	Missed   int64       `json:"missed"`
}

// scaling is how the cluster's size follows what is measured, nil where it is fixed.
func (f *simulateFlags) scaling(s *scheduler.Spec, c *cluster.Plan) (*simulate.Scaling, error) {
	switch {
	case !f.scales:
		return nil, nil
	case f.goodput:
		return nil, errors.New("--find-goodput is about devices that stay; leave out --scale")
	case f.scale < 0:
		return nil, fmt.Errorf("--scale %v: take a time of zero or more until devices serve", f.scale)
	case len(c.SubClusters) > 1:
		return nil, fmt.Errorf("--scale: cluster %q is divided into %d sub-clusters; one that a single dispatcher decides for can be scaled here", c.Cluster, len(c.SubClusters))
	}
	return &simulate.Scaling{Start: f.scale, Options: size.Options{Min: s.Cluster.Devices.Min, Max: s.Cluster.Devices.Max}}, nil
}

// scaledAs sums up the sizes of a cluster.
func scaledAs(name string, all []simulate.Size) scaledCluster {
	c := scaledCluster{Cluster: name, Sizes: []sized{}}
	for _, z := range all {
		if z.Advice != 0 {
			c.Changes++
		}
		c.Mean += float64(z.Paid) / float64(len(all))
		c.Sizes = append(c.Sizes, sized{At: quantity.MS(z.At), Devices: z.Devices, Paid: z.Paid, Requests: z.Requests, Missed: z.Missed})
	}
	return c
}

// Describe lists the devices minute by minute.
func (c scaledCluster) Describe() string {
	text := fmt.Sprintf("cluster %s: %s devices on average, %d changes; at the end of each minute:", c.Cluster, quantity.Number(c.Mean), c.Changes)
	for i, z := range c.Sizes {
		if at := time.Duration(z.At); at%time.Minute == 0 || i == len(c.Sizes)-1 {
			text += fmt.Sprintf(" %d", z.Devices)
		}
	}
	return text + "\n"
}
