package workflows

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/harpagon/harpagon/scheduler/autoscale"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/pool"
)

// Status is a pipeline at one moment, for people and programs. It tells of what
// serves; a change that is under way, or could not be carried out, stands in
// Asked.
type Status struct {
	Pipeline   string
	Phase      Phase
	Generation int     // that serves; while none does, the one that is asked for
	Serving    int     // generation that serves; 0 when none does
	Rate       float64 // requests per second of that generation; of a pool, what its plan sustains
	Cost       float64 // per hour, of the plan that serves
	Cause      string  // of that generation
	Asked      *Asked  `json:",omitempty"` // nil when what serves is what is asked for
	Pending    bool
	Dispatch   string // policy that serves; empty when none does
	Plan       *plan.Plan
	Pool       *pool.Plan `json:",omitempty"` // where a pool serves
	Executors  []placement.Slot
	Decisions  []Decision // oldest first
	Failure    *Failure
	Measures   *autoscale.Measures

	// Void are the modules that have been slower for long than the plan that
	// serves counts on, so that its promise does not hold. Healed are those that
	// it counts on with what was measured while serving, in place of their
	// profile. Disturbed says which profiles were measured on a busy machine.
	Void      []Pace `json:",omitempty"`
	Healed    []Pace `json:",omitempty"`
	Disturbed string `json:",omitempty"`
}

// Asked is the latest change, while something else serves.
type Asked struct {
	Generation int
	Rate       float64 `json:",omitempty"` // requests per second; 0 of a pool, whose plan decides it
	Cause      string
}

// Describe is the change in one line.
func (a Asked) Describe() string {
	text := fmt.Sprintf("asked for: generation %d", a.Generation)
	if a.Rate > 0 {
		text += fmt.Sprintf(", %s requests/s", rate(a.Rate))
	}
	if a.Cause != "" {
		text += ", because: " + a.Cause
	}
	return text + "\n"
}

// headline says what runs, since when and why, and what is asked for instead.
func headline(kind, name string, phase Phase, generation int, perSecond, cost float64, cause string, asked *Asked, failure *Failure) string {
	text := fmt.Sprintf("%s %s: %s, generation %d, %s requests/s, %s per hour\n", kind, name, phase, generation, rate(perSecond), money(cost))
	if cause != "" {
		text += "because: " + cause + "\n"
	}
	if asked != nil {
		text += asked.Describe()
	}
	if failure != nil {
		text += failure.Describe()
	}
	return text
}

// costDecimals is how precisely money per hour is written.
const costDecimals = 4

// Describe writes the status as `harpagon status` and `explain` print it.
func (s Status) Describe() string {
	var b strings.Builder
	b.WriteString(headline("pipeline", s.Pipeline, s.Phase, s.Generation, s.Rate, s.Cost, s.Cause, s.Asked, s.Failure))
	b.WriteString(s.Promise())
	if s.Plan != nil {
		fmt.Fprintf(&b, "\n%s", describePlan(s.Plan, s.Pool))
	}
	if table := s.Modules(); table != "" {
		fmt.Fprintf(&b, "\ndispatch\n%s", table)
	}
	s.executors(&b)
	if len(s.Decisions) > 0 {
		b.WriteString("\ndecisions, latest first\n")
		for i := len(s.Decisions) - 1; i >= 0; i-- {
			b.WriteString(s.Decisions[i].Describe())
		}
	}
	if m := s.Measures; m != nil {
		fmt.Fprintf(&b, "\nlast measured: %s requests/s, %.1f %% in time, p50 %v, p99 %v\n",
			rate(m.Offered), 100*m.Attainment, round(m.Latency.P50), round(m.Latency.P99))
	}
	return b.String()
}

// Modules is a table of how the requests of every module are dispatched: the
// policy and, of what the gateway saw last, the batches, the time that requests
// waited for their batch to be collected and for an executor, and how many were
// given up, and why. It is empty while nothing serves.
func (s Status) Modules() string {
	if s.Plan == nil {
		return ""
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "module\tpolicy\trate/s\tmean batch\tbatches by size\twait p50, p99\tqueue p50, p99\tdropped")
	for i := range s.Plan.Modules {
		name := s.Plan.Modules[i].Name
		var m *autoscale.ModuleMeasures
		if s.Measures != nil {
			m = s.Measures.Module(name)
		}
		if m == nil {
			fmt.Fprintf(w, "%s\t%s\t-\t-\t-\t-\t-\t-\n", name, s.Dispatch)
			continue
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%.2f\t%s\t%v, %v\t%v, %v\t%s\n", name, orDefault(m.Policy, s.Dispatch), rate(m.Rate), m.MeanBatch,
			sizes(m.Sizes), round(m.Wait.P50), round(m.Wait.P99), round(m.Queue.P50), round(m.Queue.P99), drops(m))
	}
	_ = w.Flush() // a strings.Builder takes everything
	return b.String()
}

// sizesShown bounds the sizes of batches that a table lists.
const sizesShown = 5

// sizes writes how many batches had which size, those that occur most.
func sizes(all []autoscale.SizeCount) string {
	if len(all) == 0 {
		return "-"
	}
	most := slices.Clone(all)
	slices.SortStableFunc(most, func(a, b autoscale.SizeCount) int { return int(b.Batches - a.Batches) })
	most = most[:min(sizesShown, len(most))]
	slices.SortFunc(most, func(a, b autoscale.SizeCount) int { return a.Size - b.Size })
	var parts []string
	for _, c := range most {
		parts = append(parts, fmt.Sprintf("%d: %d", c.Size, c.Batches))
	}
	if len(most) < len(all) {
		parts = append(parts, "...")
	}
	return strings.Join(parts, ", ")
}

func drops(m *autoscale.ModuleMeasures) string {
	if m.Dropped == 0 {
		return "0"
	}
	var parts []string
	for _, reason := range slices.Sorted(maps.Keys(m.Drops)) {
		parts = append(parts, fmt.Sprintf("%d %s", m.Drops[reason], reason))
	}
	if len(parts) == 0 { // of a gateway that does not tell reasons
		return fmt.Sprint(m.Dropped)
	}
	return strings.Join(parts, ", ")
}

func (s Status) executors(b *strings.Builder) {
	if len(s.Executors) == 0 {
		return
	}
	b.WriteString("\nexecutors\n")
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	for _, e := range s.Executors {
		fmt.Fprintf(w, "%s\t%s/%s\tbatch %d\t%.0f %% of the device\t%s\n", e.Module, e.Host, e.Device, e.Batch, 100*e.Share, e.Engine)
	}
	_ = w.Flush() // a strings.Builder takes everything
}

// Describe writes the failure with what happens next.
func (f Failure) Describe() string {
	next := "waits for a new spec or another host"
	if !f.RetryAt.IsZero() {
		next = "tries again at " + f.RetryAt.UTC().Format(time.TimeOnly) + " UTC, or when a host joins"
	}
	return fmt.Sprintf("generation %d could not be carried out: %s; %s\n", f.Generation, f.Reason, next)
}

// Describe is the decision in one line, or two when it failed.
func (d Decision) Describe() string {
	line := fmt.Sprintf("  %s generation %d: %s", d.At.UTC().Format(time.DateTime), d.Generation, d.Reason)
	if d.Failure != "" {
		return line + "\n    failed: " + d.Failure + "\n"
	}
	return fmt.Sprintf("%s\n    %s; %d executors started, %d kept, %d stopped\n", line, d.Change.Describe(), d.Start, d.Keep, d.Stop)
}

// Describe says what a change does to rate and cost, and what it saves.
func (c Change) Describe() string {
	if c.First {
		return fmt.Sprintf("rate %s/s: cost %s per hour", rate(c.ToRate), money(c.ToCost))
	}
	s := "rate " + moved(rate(c.FromRate)+"/s", rate(c.ToRate)+"/s")
	if c.FromSLO != c.ToSLO {
		s += fmt.Sprintf(", SLO %v -> %v", c.FromSLO, c.ToSLO)
	}
	s += fmt.Sprintf(": cost %s per hour, ", moved(money(c.FromCost), money(c.ToCost)))
	diff := c.ToCost - c.FromCost
	switch {
	case money(math.Abs(diff)) == money(0):
		return s + "no change in cost"
	case diff < 0:
		return s + fmt.Sprintf("saves %s per hour", money(-diff))
	}
	return s + fmt.Sprintf("costs %s more per hour", money(diff))
}

// moved writes a value that may have changed.
func moved(from, to string) string {
	if from == to {
		return to
	}
	return from + " -> " + to
}

// compare is the change from what serves to a plan for rate.
func compare(serving *placement.Deployment, to plan.Plan, rate float64) Change {
	c := Change{ToRate: rate, ToCost: to.Cost, ToSLO: to.SLO, First: serving == nil}
	if serving != nil {
		c.FromRate, c.FromCost, c.FromSLO = serving.Pipeline.Rate, serving.Plan.Cost, serving.Plan.SLO
	}
	return c
}

// rate writes at most four significant digits, and never an exponent.
func rate(x float64) string {
	short, err := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 4, 64), 64)
	if err != nil {
		return strconv.FormatFloat(x, 'g', 4, 64)
	}
	return strconv.FormatFloat(short, 'f', -1, 64)
}

func money(x float64) string { return fmt.Sprintf("%.*f", costDecimals, x) }

func round(d time.Duration) time.Duration { return d.Round(100 * time.Microsecond) }
