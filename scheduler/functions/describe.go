package functions

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/harpagon/harpagon/pipelines/quantity"
)

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

// cold says who meets cold starts.
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
