package functions

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/quantity"
)

// Status of a plan.
type Status string

// The statuses, as printed.
const (
	Optimal    Status = "optimal"    // no partition costs less, within the model
	Feasible   Status = "feasible"   // may not be the cheapest
	Infeasible Status = "infeasible" // no plan, for Reason
)

// Plan states which applications of a function share a batch, and what runs it.
type Plan struct {
	Function       string        `json:"function"`
	Policy         string        `json:"policy"`
	Status         Status        `json:"status"`
	Reason         string        `json:"reason,omitempty"`                  // when infeasible
	Sound          bool          `json:"sound"`                             // every timeout plus maximum latency is within the objective
	Rate           float64       `json:"rate"`                              // requests per second of all applications
	CostPerRequest float64       `json:"cost_per_request"`                  // mean over requests
	ExpectedCost   float64       `json:"expected_cost_per_request"`         // as billed where requests come at random and batches leave before they are full
	LowerBound     float64       `json:"lower_bound_per_request,omitempty"` // for every partition; 0 when none is known
	ColdStart      time.Duration `json:"cold_start_ms,omitempty"`           // of 99 of 100 at most; 0 where the profile has none
	Prepared       bool          `json:"prepared,omitempty"`                // instances are started for all but one of a thousand calls
	CutShort       bool          `json:"cut_short,omitempty"`               // the search ended early: more time may find less cost, or a bound
	SolveTime      time.Duration `json:"solve_ms"`
	Groups         []Group       `json:"groups"` // in order of their shortest objectives
}

// Group is applications with one queue and one kind of function.
type Group struct {
	Offer
	Rate         float64       // requests per second
	LatencyAvg   time.Duration // of a batch
	LatencyMax   time.Duration
	Timeout      time.Duration // equivalent timeout of the group (equation 5)
	Applications []Share       // in order of objectives
}

// Share is an application in a group.
type Share struct {
	Name    string        `json:"name"`
	SLO     time.Duration `json:"slo_ms"`
	Rate    float64       `json:"rate"`       // requests per second that go to this group
	Timeout time.Duration `json:"timeout_ms"` // longest wait of a request for its batch; 0 where batches hold one
}

// CostPerHour is what the plan costs when batches are full, in money per hour.
func (p Plan) CostPerHour() float64 { return p.CostPerRequest * p.Rate * 3600 }

// Gap is by how much the cost may exceed the least, relative to the bound;
// 0 where no bound is known.
func (p Plan) Gap() float64 {
	if p.LowerBound <= 0 {
		return 0
	}
	return max(0, p.CostPerRequest/p.LowerBound-1)
}

// Problem is one function, its profile and applications included, and the
// provider that runs it.
type Problem struct {
	Function pipelines.Function
	Provider pipelines.Provider
}

// Options choose how to plan. The zero value is the default.
type Options struct {
	Policy string // PolicyExact when empty

	Seed uint64 // of policy mbs+, whose search begins at random

	// Stop ends the search early: the best plan found by then is returned. Asked
	// from time to time; nil for never.
	Stop func() bool `json:"-"`
	// Clock reads a monotonic clock, for SolveTime. Nil leaves it zero.
	Clock func() time.Duration `json:"-"`
}

// Names of the policies.
const (
	PolicyExact        = "exact"        // the best partition
	PolicyHarmonyBatch = "harmonybatch" // two-stage merging, as printed
	PolicyBatch        = "batch"        // each application alone, on CPU functions, by average latencies
	PolicyMBS          = "mbs+"         // groups of equal rates, each provisioned by eleven steps of Bayesian optimisation
	PolicyMBSOptimal   = "mbs+ optimal" // groups of equal rates, each provisioned at its best
)

// Policies lists the names that Options.Policy takes.
func Policies() []string {
	var names []string
	for _, m := range makers() {
		names = append(names, m.name)
	}
	return names
}

func (o Options) policy() string {
	if o.Policy == "" {
		return PolicyExact
	}
	return o.Policy
}

// Check reports what is wrong with the options, naming what exists.
func (o Options) Check() error {
	if !slices.Contains(Policies(), o.policy()) {
		return fmt.Errorf("functions: there is no policy %q; there is %s", o.Policy, strings.Join(Policies(), ", "))
	}
	return nil
}

// Check reports what is wrong with the problem. One that was loaded from HCL and
// validated has nothing wrong, save objectives that cannot be met: those are an
// infeasible plan.
func (p Problem) Check() error {
	if p.Function.Provider != p.Provider.Name {
		return fmt.Errorf("functions: function %q names provider %q, not %q", p.Function.Name, p.Function.Provider, p.Provider.Name)
	}
	if err := pipelines.CheckFunction(&p.Function, &p.Provider); err != nil {
		return fmt.Errorf("functions: function %q: %w", p.Function.Name, err)
	}
	return nil
}

// Of is the service that the plan is for.
func (p Plan) Of() (kind pipelines.Kind, name string) { return pipelines.KindFunction, p.Function }

// Models are the names that requests give: one for each application.
func (p Plan) Models() (names []string) {
	for _, g := range p.Groups {
		for _, a := range g.Applications {
			names = append(names, p.Function+"/"+a.Name)
		}
	}
	return names
}

// NoPlan reports why there is none.
func (p Plan) NoPlan() (reason string, infeasible bool) { return p.Reason, p.Status == Infeasible }

// EndedEarly reports that with more time the search may find another plan.
func (p Plan) EndedEarly() bool { return p.CutShort }

// MadeBy is the policy, and the cost model where there are several.
func (p Plan) MadeBy() (policy, costModel string) { return p.Policy, "" }

// Describe writes the plan for people: what it costs, then one line a group.
func (p Plan) Describe() string {
	var b strings.Builder
	if p.Status == Infeasible {
		fmt.Fprintf(&b, "%s: infeasible: %s\n", p.Function, p.Reason)
		return b.String()
	}
	fmt.Fprintf(&b, "%s: %s plan, %s per million requests, %s per hour at %s requests per second\n",
		p.Function, p.Status, quantity.Money(1e6*p.CostPerRequest), quantity.Money(p.CostPerHour()), quantity.Number(p.Rate))
	fmt.Fprintf(&b, "policy %s, %s%s\n", p.Policy, p.promise(), p.bounded())
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "applications\trate/s\tfunction\tbatch\tlatency\tat most\ttimeouts\tper million\t")
	for _, g := range p.Groups {
		g.describe(w)
	}
	_ = w.Flush() // a strings.Builder takes everything
	if p.ColdStart > 0 {
		fmt.Fprintf(&b, "a cold start takes %s, which no maximum latency holds: %s\n", quantity.Duration(p.ColdStart), p.cold())
	}
	return b.String()
}

// cold reports who meets cold starts.
func (p Plan) cold() string {
	if p.Prepared {
		return fmt.Sprintf("instances are started for all but %s of calls", quantity.Percent(1-warmShare))
	}
	return "calls that the provider has no instance for are late"
}

func (p Plan) promise() string {
	if p.Sound {
		return "every objective is kept by the maximum latencies"
	}
	return "some objectives are missed when a batch takes its maximum latency"
}

func (p Plan) bounded() string {
	if p.Status != Feasible || p.LowerBound <= 0 {
		return ""
	}
	return fmt.Sprintf("; no partition costs less than %s per million (gap %.2g %%)", quantity.Money(1e6*p.LowerBound), 100*p.Gap())
}

func (g Group) describe(w *tabwriter.Writer) {
	var names, timeouts []string
	for _, a := range g.Applications {
		names = append(names, a.Name)
		timeouts = append(timeouts, quantity.Duration(a.Timeout))
	}
	fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\t\n", several(names), quantity.Number(g.Rate), g.size(), g.Batch,
		quantity.Duration(g.LatencyAvg), quantity.Duration(g.LatencyMax), several(timeouts), quantity.Money(1e6*g.Cost))
}

// Describe writes what became of the requests, and what they cost.
func (r Simulated) Describe() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d requests in %d calls of %s on average; %d late, %d dropped\n", r.Function, r.Requests, r.Calls, quantity.Number(r.MeanBatch), r.Late, r.Dropped)
	fmt.Fprintf(&b, "latency %s in the middle, %s for 99 of 100, %s at most\n", quantity.Duration(r.P50), quantity.Duration(r.P99), quantity.Duration(r.Max))
	fmt.Fprintf(&b, "%s per million requests; with full batches, as planned by policy %s, %s\n", quantity.Money(1e6*r.CostPerRequest), r.Policy, quantity.Money(1e6*r.Predicted))
	return b.String()
}

// mostListed bounds how many applications of a group a table names.
const mostListed = 4

func several(names []string) string {
	if n := len(names); n > mostListed {
		return fmt.Sprintf("%s ... %s (%d)", strings.Join(names[:2], ", "), names[n-1], n)
	}
	return strings.Join(names, ", ")
}

// size is what a function is given.
func (o Offer) size() string {
	if o.Platform == GPU {
		return quantity.Number(o.GPUMemory) + " GB GPU"
	}
	return quantity.Number(o.VCPU) + " vCPU"
}

// The JSON of a plan is part of the public contract: times are milliseconds as
// numbers, rates requests per second.

// MarshalJSON writes the fixed field names of the contract; cost is money per
// hour.
func (p Plan) MarshalJSON() ([]byte, error) {
	const behind = "lower_bound_per_request"
	return quantity.Marshal(p, quantity.Derived{After: behind, Tag: "gap", Value: p.Gap()}, quantity.Derived{After: behind, Tag: "cost", Value: p.CostPerHour()})
}

// UnmarshalJSON reads what MarshalJSON wrote; unknown fields are ignored.
func (p *Plan) UnmarshalJSON(text []byte) error { return quantity.Unmarshal(text, p) }

// groupJSON has in one what a group has of its offer and of its own.
type groupJSON struct {
	Platform       Platform      `json:"platform"`
	VCPU           float64       `json:"vcpu"`
	GPUMemory      float64       `json:"gpu_memory_gb"`
	Host           float64       `json:"memory_gb,omitempty"`
	Batch          int           `json:"batch"`
	Rate           float64       `json:"rate"`
	LatencyAvg     time.Duration `json:"latency_avg_ms"`
	LatencyMax     time.Duration `json:"latency_max_ms"`
	Timeout        time.Duration `json:"equivalent_timeout_ms"`
	CostPerRequest float64       `json:"cost_per_request"`
	Applications   []Share       `json:"applications"`
}

// MarshalJSON writes the fixed field names of the contract.
func (g Group) MarshalJSON() ([]byte, error) {
	return quantity.Marshal(groupJSON{
		Platform: g.Platform, VCPU: g.VCPU, GPUMemory: g.GPUMemory, Host: g.Host, Batch: g.Batch, Rate: g.Rate, LatencyAvg: g.LatencyAvg,
		LatencyMax: g.LatencyMax, Timeout: g.Timeout, CostPerRequest: g.Cost, Applications: g.Applications,
	})
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (g *Group) UnmarshalJSON(b []byte) error {
	var j groupJSON
	if err := quantity.Unmarshal(b, &j); err != nil {
		return err
	}
	*g = Group{
		Offer: Offer{Platform: j.Platform, VCPU: j.VCPU, GPUMemory: j.GPUMemory, Host: j.Host, Batch: j.Batch, Avg: j.LatencyAvg.Seconds(), Max: j.LatencyMax.Seconds(), Cost: j.CostPerRequest},
		Rate:  j.Rate, LatencyAvg: j.LatencyAvg, LatencyMax: j.LatencyMax, Timeout: j.Timeout, Applications: j.Applications,
	}
	return nil
}

// MarshalJSON writes the fixed field names of the contract.
func (s Share) MarshalJSON() ([]byte, error) { return quantity.Marshal(s) }

// UnmarshalJSON reads what MarshalJSON wrote.
func (s *Share) UnmarshalJSON(text []byte) error { return quantity.Unmarshal(text, s) }

// Comparison is one function planned by several policies.
type Comparison struct {
	Function string `json:"function"`
	Plans    []Plan `json:"plans"` // in the order of the policies
}

// Compare plans the function by the policies given, or by every one.
func Compare(p Problem, o Options, policies ...string) (Comparison, error) {
	if len(policies) == 0 {
		policies = Policies()
	}
	c := Comparison{Function: p.Function.Name}
	for _, policy := range policies {
		o.Policy = policy
		plan, err := Solve(p, o)
		if err != nil {
			return Comparison{}, err
		}
		c.Plans = append(c.Plans, plan)
	}
	return c, nil
}

// Plan by that policy, or nil.
func (c Comparison) Plan(policy string) *Plan {
	for i := range c.Plans {
		if c.Plans[i].Policy == policy {
			return &c.Plans[i]
		}
	}
	return nil
}

// Best is the cheapest sound plan; nil where there is none.
func (c Comparison) Best() *Plan {
	var best *Plan
	for i := range c.Plans {
		p := &c.Plans[i]
		if p.Status != Infeasible && p.Sound && (best == nil || p.CostPerRequest < best.CostPerRequest) {
			best = p
		}
	}
	return best
}

// Describe writes one line a policy; costs are beside that of the first one.
func (c Comparison) Describe() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", c.Function)
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "policy\tper million\tratio\tgroups\tsound\tstatus\tsolved in\t")
	for _, p := range c.Plans {
		if p.Status == Infeasible {
			fmt.Fprintf(w, "%s\t\t\t\t\t%s: %s\t\t\n", p.Policy, p.Status, p.Reason)
			continue
		}
		ratio := "1"
		if first := c.Plans[0]; first.CostPerRequest > 0 {
			ratio = fmt.Sprintf("%.3f", p.CostPerRequest/first.CostPerRequest)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%v\t%s\t%s\t\n", p.Policy, quantity.Money(1e6*p.CostPerRequest), ratio, len(p.Groups), p.Sound, p.Status, quantity.Duration(p.SolveTime))
	}
	_ = w.Flush() // a strings.Builder takes everything
	return b.String()
}
