package functions

import (
	"fmt"
	"math"
	"strings"
	"text/tabwriter"
	"time"
)

// Describe writes the plan for people: what it costs, then one line a group.
func (p Plan) Describe() string {
	var b strings.Builder
	if p.Status == Infeasible {
		fmt.Fprintf(&b, "%s: infeasible: %s\n", p.Function, p.Reason)
		return b.String()
	}
	fmt.Fprintf(&b, "%s: %s plan, %s per million requests, %s per hour at %s requests per second\n",
		p.Function, p.Status, money(1e6*p.CostPerRequest), money(p.CostPerHour()), number(p.Rate))
	fmt.Fprintf(&b, "policy %s, %s%s\n", p.Policy, p.promise(), p.bounded())
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "applications\trate/s\tfunction\tbatch\tlatency\tat most\ttimeouts\tper million\t")
	for _, g := range p.Groups {
		g.describe(w)
	}
	_ = w.Flush() // a strings.Builder takes everything
	return b.String()
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
	return fmt.Sprintf("; no partition costs less than %s per million (gap %.2g %%)", money(1e6*p.LowerBound), 100*p.Gap())
}

func (g Group) describe(w *tabwriter.Writer) {
	var names, timeouts []string
	for _, a := range g.Applications {
		names = append(names, a.Name)
		timeouts = append(timeouts, spell(a.Timeout))
	}
	fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\t\n", several(names), number(g.Rate), g.size(), g.Batch,
		spell(g.LatencyAvg), spell(g.LatencyMax), several(timeouts), money(1e6*g.Cost))
}

// Describe writes what became of the requests, and what they cost.
func (r Simulated) Describe() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d requests in %d calls of %.4g on average; %d late, %d dropped\n", r.Function, r.Requests, r.Calls, r.MeanBatch, r.Late, r.Dropped)
	fmt.Fprintf(&b, "latency %s in the middle, %s for 99 of 100, %s at most\n", spell(r.P50), spell(r.P99), spell(r.Max))
	fmt.Fprintf(&b, "%s per million requests; with full batches, as planned by policy %s, %s\n", money(1e6*r.CostPerRequest), r.Policy, money(1e6*r.Predicted))
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
		return number(o.GPUMemory) + " GB GPU"
	}
	return number(o.VCPU) + " vCPU"
}

// number writes at most four significant digits.
func number(x float64) string {
	return fmt.Sprintf("%.4g", x)
}

// money keeps three figures of amounts below one.
func money(x float64) string {
	if x > 0 && x < 1 {
		return fmt.Sprintf("%.3g", x)
	}
	return fmt.Sprintf("%.2f", x)
}

// spell writes a duration in milliseconds or seconds, with a space before the
// unit and no more digits than it needs.
func spell(d time.Duration) string {
	if d >= 10*time.Second {
		return fmt.Sprintf("%.4g s", d.Seconds())
	}
	return fmt.Sprintf("%g ms", math.Round(float64(d)/float64(time.Millisecond)*10)/10)
}
