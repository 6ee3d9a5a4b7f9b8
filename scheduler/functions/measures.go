package functions

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/harpagon/harpagon/pipelines/quantity"
)

// Measures is what a gateway has seen of a function. Rates look back on the
// last seconds, From to To; everything else counts since the plan took over, so
// that money can be compared with what the plan states.
type Measures struct {
	Function     string
	Generation   int
	From, To     time.Time
	Applications []ApplicationMeasures
	Groups       []GroupMeasures // in the plan's order
}

// ApplicationMeasures are those of one application. Every request ends in
// exactly one of the outcomes, or is in flight.
type ApplicationMeasures struct {
	Name    string
	Offered float64 // requests per second, from From to To

	Requests  int64
	Completed int64 // answered within the objective
	Late      int64 // answered after it
	LateCold  int64 // of those, behind a cold start
	Dropped   int64 // given up because they could only be late
	Refused   int64 // refused on arrival
	Failed    int64 // the function did not answer, or wrongly
	Cancelled int64 // the caller went away
	Invalid   int64 // accepted, but wrong in themselves: their callers' mistake
	InFlight  int64

	P50, P99, Max time.Duration // of the answers
}

// GroupMeasures are those of one group of the plan.
type GroupMeasures struct {
	Name       string // of the size, such as "2 GB GPU"
	Requests   int64  // that were sent
	Calls      int64  // that the provider ran
	ColdStarts int64
	Retries    int64            // calls that were sent once more
	Errors     map[string]int64 // calls without a good answer, by kind
	Billed     time.Duration
	Spent      float64 // money, by the declared terms

	Told     int64   // calls for which the provider reported a charge
	Charged  float64 // the sum of these charges
	Declared float64 // what they cost by the declared terms

	Estimated int64 // calls whose time the provider did not report; the gateway's clock stands in
}

// Violations is the share of an application's ended requests that have no
// answer within the objective; those whose caller left are no matter.
func (a ApplicationMeasures) Violations() float64 {
	missed := a.Late + a.Dropped + a.Refused + a.Failed
	if missed == 0 {
		return 0
	}
	return float64(missed) / float64(missed+a.Completed)
}

// Violations is the share over all applications.
func (m Measures) Violations() float64 {
	var sum ApplicationMeasures
	for _, a := range m.Applications {
		sum.Completed += a.Completed
		sum.Late += a.Late
		sum.Dropped += a.Dropped
		sum.Refused += a.Refused
		sum.Failed += a.Failed
	}
	return sum.Violations()
}

// MeanBatch is how many requests a call carried.
func (g GroupMeasures) MeanBatch() float64 {
	if g.Calls == 0 {
		return 0
	}
	return float64(g.Requests) / float64(g.Calls)
}

// CostPerRequest is what a request of the group has cost.
func (g GroupMeasures) CostPerRequest() float64 {
	if g.Requests == 0 {
		return 0
	}
	return g.Spent / float64(g.Requests)
}

// Offered is the rate of all applications, in requests per second.
func (m Measures) Offered() float64 {
	sum := 0.0
	for _, a := range m.Applications {
		sum += a.Offered
	}
	return sum
}

// Total adds up the groups.
func (m Measures) Total() GroupMeasures {
	sum := GroupMeasures{Name: m.Function, Errors: map[string]int64{}}
	for _, g := range m.Groups {
		sum.Requests += g.Requests
		sum.Calls += g.Calls
		sum.ColdStarts += g.ColdStarts
		sum.Retries += g.Retries
		sum.Billed += g.Billed
		sum.Spent += g.Spent
		sum.Estimated += g.Estimated
		sum.Told += g.Told
		sum.Charged += g.Charged
		sum.Declared += g.Declared
		for kind, n := range g.Errors {
			sum.Errors[kind] += n
		}
	}
	return sum
}

// Describe sets what was measured beside the plan.
func (m Measures) Describe(p Plan) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "application\tplanned/s\tmeasured/s\trequests\tin time\tlate\tof a cold start\tno answer\tviolations\tp99\t")
	for _, a := range m.Applications {
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%d\t%d\t%d\t%.2f %%\t%s\t\n", a.Name, quantity.Number(p.rateOf(a.Name)), quantity.Number(a.Offered), a.Requests,
			a.Completed, a.Late, a.LateCold, a.Dropped+a.Refused+a.Failed, 100*a.Violations(), quantity.Duration(a.P99))
	}
	_ = w.Flush() // a strings.Builder takes everything
	b.WriteByte('\n')
	w = tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "function\tcalls\tcold\tagain\terrors\tbatch\tplanned\tper million\tplanned\t")
	for i, g := range m.Groups {
		batch, cost := "-", "-"
		if i < len(p.Groups) {
			batch, cost = fmt.Sprint(p.Groups[i].Batch), quantity.Money(1e6*p.Groups[i].Cost)
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%s\t%.1f\t%s\t%s\t%s\t\n", g.Name, g.Calls, g.ColdStarts, g.Retries, kinds(g.Errors), g.MeanBatch(), batch,
			quantity.Money(1e6*g.CostPerRequest()), cost)
	}
	_ = w.Flush()
	for _, g := range m.Groups {
		if what := g.Misbilled(); what != "" {
			b.WriteString(what + "\n")
		}
	}
	return b.String()
}

const (
	// billTolerance is by how much a bill may differ from the declared terms.
	billTolerance = 0.02
	// billCalls is of how many calls the bill is known before it is judged.
	billCalls = 20
)

// Misbilled describes charges of the provider that differ from the declared terms; empty
// where they agree, or too few are reported.
func (g GroupMeasures) Misbilled() string {
	off := math.Abs(g.Charged - g.Declared)
	if g.Told < billCalls || off <= billTolerance*g.Declared {
		return ""
	}
	return fmt.Sprintf("%s: the provider charged %s for %d calls, and by the declared terms they cost %s; correct the prices or the billing of its block, for plans are made by them",
		g.Name, quantity.Money(g.Charged), g.Told, quantity.Money(g.Declared))
}

// kinds lists errors, such as "2 timeout, 1 status 500".
func kinds(errors map[string]int64) string {
	if len(errors) == 0 {
		return "0"
	}
	var all []string
	for _, kind := range slices.Sorted(maps.Keys(errors)) {
		all = append(all, fmt.Sprintf("%d %s", errors[kind], kind))
	}
	return strings.Join(all, ", ")
}

// rateOf is the rate that is planned for an application.
func (p Plan) rateOf(application string) float64 {
	sum := 0.0
	for _, g := range p.Groups {
		for _, a := range g.Applications {
			if a.Name == application {
				sum += a.Rate
			}
		}
	}
	return sum
}

// MergeMeasures is what two gateways saw of one function. Counts, rates and money add up; of
// percentiles the worse one counts.
func MergeMeasures(a, b Measures) Measures {
	sum := a
	sum.Generation = max(a.Generation, b.Generation)
	if b.From.Before(sum.From) {
		sum.From = b.From
	}
	if b.To.After(sum.To) {
		sum.To = b.To
	}
	sum.Applications, sum.Groups = slices.Clone(a.Applications), slices.Clone(a.Groups)
	for _, o := range b.Applications {
		i := slices.IndexFunc(sum.Applications, func(x ApplicationMeasures) bool { return x.Name == o.Name })
		if i < 0 {
			sum.Applications = append(sum.Applications, o)
			continue
		}
		x := &sum.Applications[i]
		x.Offered += o.Offered
		x.Requests += o.Requests
		x.Completed += o.Completed
		x.Late += o.Late
		x.LateCold += o.LateCold
		x.Dropped += o.Dropped
		x.Refused += o.Refused
		x.Failed += o.Failed
		x.Cancelled += o.Cancelled
		x.Invalid += o.Invalid
		x.InFlight += o.InFlight
		x.P50, x.P99, x.Max = max(x.P50, o.P50), max(x.P99, o.P99), max(x.Max, o.Max)
	}
	for _, o := range b.Groups {
		i := slices.IndexFunc(sum.Groups, func(x GroupMeasures) bool { return x.Name == o.Name })
		if i < 0 {
			sum.Groups = append(sum.Groups, o)
			continue
		}
		x := &sum.Groups[i]
		x.Requests += o.Requests
		x.Calls += o.Calls
		x.ColdStarts += o.ColdStarts
		x.Retries += o.Retries
		x.Billed += o.Billed
		x.Spent += o.Spent
		x.Estimated += o.Estimated
		x.Told += o.Told
		x.Charged += o.Charged
		x.Declared += o.Declared
		x.Errors = maps.Clone(x.Errors)
		for kind, n := range o.Errors {
			if x.Errors == nil {
				x.Errors = map[string]int64{}
			}
			x.Errors[kind] += n
		}
	}
	return sum
}
