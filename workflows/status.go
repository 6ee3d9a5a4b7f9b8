package workflows

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/quantity"
	"github.com/harpagon/harpagon/scheduler"
	"github.com/harpagon/harpagon/scheduler/autoscale"
	"github.com/harpagon/harpagon/scheduler/autoscale/size"
	"github.com/harpagon/harpagon/scheduler/functions"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/rollout"
)

// Status is a service at one moment, for people and programs. It describes what serves; a
// change that is under way, or could not be carried out, is in Requested.
type Status struct {
	Kind       scheduler.Kind
	Name       string
	Phase      Phase
	Generation int             // that serves; while none does, the one that is requested
	Serving    int             // generation that serves; 0 when none does
	Rate       float64         // requests per second of that generation; of a pool, what its plan sustains
	Cost       float64         // per hour, of the plan that serves
	Cause      string          // of that generation
	Requested  *PendingChange  `json:"Asked,omitempty"` // nil when what serves is what is requested
	Trial      *TrialStatus    `json:",omitempty"`      // of Requested, while it is tried on a share of requests
	Pending    bool            // a change is due or under way: Failure is that of one before
	Policy     string          // that made the plan that serves; while none does, as declared
	CostModel  string          `json:",omitempty"` // of pipelines
	Dispatch   string          `json:",omitempty"` // policy that dispatches; empty when nothing serves
	Plan       *scheduler.Plan // that serves; nil when none does
	Executors  []placement.Slot
	Missing    []string             `json:",omitempty"` // those of Executors that a gateway waits for
	Files      []ModuleFiles        `json:",omitempty"` // of the plan that serves
	Decisions  []Decision           // oldest first
	Declared   []DeclarationSummary `json:",omitempty"` // declarations that have served and are kept, oldest first
	Failure    *Failure
	Measures   *autoscale.Measures

	// Void are the modules that have been slower for long than the plan that
	// serves counts on, so that its promise does not hold. Healed are those that
	// it counts on with what was measured while serving, in place of their
	// profile. Disturbed lists the profiles that were measured on a busy machine.
	Void      []Pace `json:",omitempty"`
	Healed    []Pace `json:",omitempty"`
	Disturbed string `json:",omitempty"`

	// Unfit states which batch sizes, and how many batches at a time, are not served because
	// they could not be measured: the device has no memory for them.
	Unfit string `json:",omitempty"`

	// Arrivals states how requests come where that has long been other than declared,
	// and Away at which rate where that has lately not been the one planned for.
	Arrivals *autoscale.ArrivalsAdvice `json:",omitempty"`
	Away     *autoscale.Advice         `json:",omitempty"`

	// Fanouts are modules of which more or fewer items of a request come than planned for.
	Fanouts []autoscale.FanoutSeen `json:",omitempty"`

	// Broken states why too few requests have been in time for long; nil while enough are.
	Broken *autoscale.Broken `json:",omitempty"`

	// Answered is which variants have answered how many requests, where modules have some.
	Answered autoscale.Answered `json:",omitzero"`

	// Scale is by how many devices a cluster should grow or shrink, by what was measured.
	Scale *size.Advice `json:",omitempty"`

	// Transfers is how long the way to the executors of each host and back takes.
	// Transfer is what the next plan counts on for it.
	Transfers []autoscale.HostTransferSeen `json:",omitempty"`
	Transfer  time.Duration                `json:",omitempty"`
}

// PendingChange is the latest change, while something else serves.
type PendingChange struct {
	Generation int
	Rate       float64 `json:",omitempty"` // requests per second; 0 of a pool, whose plan decides it
	Cause      string
}

// ModuleFiles are the files that a module runs with, by their digests.
type ModuleFiles struct {
	Module string
	Files  []pipelines.File
}

// Pace is a module whose batches deviate from its profile.
type Pace struct {
	Module   string
	Hardware string
	Size     int           // requests of the batches that are compared
	Measured time.Duration // median
	Profiled time.Duration
	Held     time.Duration `json:",omitzero"` // for how long

	Concurrency int `json:",omitzero"` // batches at a time, where they are several
}

// Failure is why the latest change was not carried out.
type Failure struct {
	Generation int
	At         time.Time
	Reason     string
	Type       string    // activities.TypeInfeasible and so on; may be empty
	RetryAt    time.Time // zero when only a new spec or host helps
}

// Decision is one change that was tried.
type Decision struct {
	Generation int
	At         time.Time
	Reason     string
	By         string `json:",omitempty"` // who requested it, by their own account: USER@HOST; empty where nobody did
	Change     Change
	Start      int // executors
	Keep       int
	Stop       int
	Groups     int    `json:",omitempty"` // of a function's plan
	Failure    string // empty when it was carried out
}

// Change compares rate, cost and objective of two plans.
type Change struct {
	FromRate, ToRate float64 // requests per second
	FromCost, ToCost float64 // money per hour
	FromSLO, ToSLO   time.Duration
	First            bool // there was no plan before
}

// Describe is the change in one line.
func (a PendingChange) Describe() string {
	text := fmt.Sprintf("asked for: generation %d", a.Generation)
	if a.Rate > 0 {
		text += fmt.Sprintf(", %s requests/s", quantity.Number(a.Rate))
	}
	if a.Cause != "" {
		text += ", because: " + a.Cause
	}
	return text + "\n"
}

// Describe writes the status as `harpagon status NAME` and `explain` print it:
// what runs, since when and why, and what is requested instead.
func (s Status) Describe() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s: %s, generation %d, %s requests/s, %s per hour\n", s.Kind, s.Name, s.Phase, s.Generation, quantity.Number(s.Rate), quantity.Money(s.Cost))
	if s.Cause != "" {
		b.WriteString("because: " + s.Cause + "\n")
	}
	if s.Requested != nil {
		b.WriteString(s.Requested.Describe())
	}
	if s.Trial != nil {
		b.WriteString(s.Trial.Describe())
	}
	if s.Failure != nil {
		b.WriteString(s.Failure.Describe())
	}
	b.WriteString(s.Promise())
	if s.Plan != nil {
		fmt.Fprintf(&b, "\n%s", s.Plan.Describe())
	}
	if s.Answered.Requests != nil {
		fmt.Fprintf(&b, "\n%s", s.Answered.Describe())
	}
	if table := s.Modules(); table != "" {
		fmt.Fprintf(&b, "\ndispatch\n%s", table)
	}
	if f := s.Calls(); f != nil {
		fmt.Fprintf(&b, "\nmeasured since this plan serves\n%s", f.Describe(*s.Plan.Function))
	}
	s.executors(&b)
	s.files(&b)
	if len(s.Decisions) > 0 {
		b.WriteString("\ndecisions, latest first\n")
	}
	for _, d := range slices.Backward(s.Decisions) {
		b.WriteString(d.Describe())
	}
	if m := s.Measures; m != nil && m.Function == nil {
		fmt.Fprintf(&b, "\nlast measured: %s requests/s, %s in time, p50 %s, p99 %s\n",
			quantity.Number(m.Offered), quantity.Percent(m.Attainment), quantity.Duration(m.Latency.P50), quantity.Duration(m.Latency.P99))
		if m.Streams != nil {
			fmt.Fprintf(&b, "%s\n", m.Streams.Describe())
		}
		for _, one := range m.Members {
			fmt.Fprintf(&b, "  %s: %s requests/s, %s in time, p50 %s, p99 %s\n", one.Pipeline,
				quantity.Number(one.Offered), quantity.Percent(one.Attainment), quantity.Duration(one.Latency.P50), quantity.Duration(one.Latency.P99))
		}
	}
	return b.String()
}

// Variants reports which variants of modules serve, and which have answered how many
// requests, a line each; it is empty where no module has variants.
func (s Status) Variants() string {
	if s.Plan == nil || s.Plan.Pipeline == nil {
		return ""
	}
	return plan.DescribeVariants(s.Plan.Pipeline.Accuracy, s.Plan.Pipeline.Variants) + s.Answered.Describe()
}

// Calls is what was measured of a function under the plan that serves, nil where
// there is nothing.
func (s Status) Calls() *functions.Measures {
	if s.Plan == nil || s.Plan.Function == nil || s.Measures == nil || s.Measures.Generation != s.Serving {
		return nil
	}
	return s.Measures.Function
}

// Promise reports what is wrong with the plan and the durations that it stands on, a line
// each, and then what else is to be known of them; it is empty when nothing is.
func (s Status) Promise() string { return s.Alarms() + s.Remarks() }

// Alarms require attention, a line each: the promise does not hold, or will not if it goes
// on like this.
func (s Status) Alarms() string {
	var b strings.Builder
	if len(s.Missing) > 0 {
		fmt.Fprintf(&b, "%d of %d executors are not attached to a gateway: %s\n", len(s.Missing), len(s.Executors), strings.Join(s.Missing, ", "))
	}
	if s.Plan != nil && s.Plan.Pipeline != nil && !s.Plan.Pipeline.Sound {
		fmt.Fprintf(&b, "the plan of policy %s is not sound, which is allowed: some of its windows cannot be kept\n", s.Policy)
	}
	if s.Broken != nil {
		fmt.Fprintf(&b, "%s\n", s.Broken.Describe())
	}
	for _, v := range s.Void {
		a := autoscale.PaceAdvice{Module: v.Module, Hardware: v.Hardware, Held: v.Held,
			Deviation: autoscale.Deviation{Size: v.Size, Measured: v.Measured, Profiled: v.Profiled, Concurrency: v.Concurrency}}
		fmt.Fprintf(&b, "promise void because %s\n", a.Describe())
	}
	if s.Measures != nil {
		for _, m := range s.Measures.Modules {
			if m.Failure != "" {
				fmt.Fprintf(&b, "%s failed within the last minute: %s\n", m.Name, m.Failure)
			}
		}
	}
	if s.Away != nil && s.Away.Rate > s.Away.Planned {
		b.WriteString(s.away())
	}
	if s.Arrivals != nil && s.Arrivals.Side > 0 {
		fmt.Fprintf(&b, "%s\n", s.Arrivals.Describe())
	}
	for _, f := range s.Fanouts {
		fmt.Fprintf(&b, "%s\n", f.Describe())
	}
	if s.slowWays() {
		fmt.Fprintf(&b, "%s\n", s.ways())
	}
	return b.String()
}

// Remarks are notes on the answers and the plan, a line each, that require no action.
func (s Status) Remarks() string {
	var b strings.Builder
	b.WriteString(s.Emulated())
	if s.Away != nil && s.Away.Rate <= s.Away.Planned {
		b.WriteString(s.away())
	}
	if s.Scale != nil {
		fmt.Fprintf(&b, "advice: %s\n", s.Scale.Describe())
	}
	if s.Arrivals != nil && s.Arrivals.Side <= 0 {
		fmt.Fprintf(&b, "%s\n", s.Arrivals.Describe())
	}
	for _, h := range s.Healed {
		fmt.Fprintf(&b, "%s is planned with %s for a batch of %d on %s, as measured while it serves; its profile says %s\n",
			h.Module, quantity.Duration(h.Measured), h.Size, h.Hardware, quantity.Duration(h.Profiled))
	}
	if s.Disturbed != "" {
		fmt.Fprintf(&b, "%s\n", s.Disturbed)
	}
	if s.Unfit != "" {
		fmt.Fprintf(&b, "not served, because it could not be run as it was measured (for want of memory, or see the log of engines): %s\n", s.Unfit)
	}
	if len(s.Transfers) > 0 && !s.slowWays() {
		fmt.Fprintf(&b, "%s\n", s.ways())
	}
	return b.String()
}

// Emulated is a line that names the modules whose answers are made up; empty where networks
// run.
func (s Status) Emulated() string {
	modules := placement.EmulatedBy(s.Executors)
	if len(modules) == 0 {
		return ""
	}
	return fmt.Sprintf("answers of %s are emulated: no network runs for %s; outputs are made up, in the time that profiles say\n", s.Name, strings.Join(modules, ", "))
}

func (s Status) away() string {
	return fmt.Sprintf("requests come otherwise than planned for: %s\n", s.Away.Describe())
}

// slowWays reports that the way to some executors takes longer than the plan counts on.
func (s Status) slowWays() bool {
	if s.Plan == nil || s.Plan.Pipeline == nil || s.Plan.Pipeline.Transfer == 0 {
		return false
	}
	return slices.ContainsFunc(s.Transfers, func(h autoscale.HostTransferSeen) bool { return h.P99 > s.Plan.Pipeline.Transfer })
}

// ways reports how long batches are on their way, those of the slowest hosts first.
func (s Status) ways() string {
	const most = 4
	hosts := slices.SortedStableFunc(slices.Values(s.Transfers), func(a, b autoscale.HostTransferSeen) int { return cmp.Compare(b.P99, a.P99) })
	text := "the way to executors and back takes"
	for i, h := range hosts[:min(most, len(hosts))] {
		if i > 0 {
			text += ","
		}
		text += fmt.Sprintf(" %s on %s", quantity.Duration(h.P99), h.Host)
	}
	if len(hosts) > most {
		text += fmt.Sprintf(", less on %d more", len(hosts)-most)
	}
	counted := "the margin of dispatchers"
	if s.Plan != nil && s.Plan.Pipeline != nil && s.Plan.Pipeline.Transfer > 0 {
		counted = quantity.Duration(s.Plan.Pipeline.Transfer)
	}
	return text + " (99 of 100 batches); the plan counts on " + counted
}

// moduleNames are the modules that requests go through.
func (s Status) moduleNames() (names []string) {
	switch {
	case s.Plan == nil:
	case s.Plan.Pipeline != nil:
		for _, m := range s.Plan.Pipeline.Modules {
			names = append(names, m.Name)
		}
	case s.Plan.Pool != nil:
		names = []string{pipelines.PoolModule}
	case s.Plan.Cluster != nil:
		for _, p := range s.Plan.Cluster.Pipelines {
			for _, m := range p.Order {
				names = append(names, placement.Resident(p.Name, m))
			}
		}
	}
	return names
}

// Modules is a table of how the requests of every module are dispatched: the
// policy and, of what the gateway saw last, the batches, the time that requests
// waited for their batch to be collected and for an executor, and how many were
// given up, and why. It is empty while nothing serves.
func (s Status) Modules() string {
	names := s.moduleNames()
	if len(names) == 0 {
		return ""
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "module\tpolicy\trate/s\tmean batch\tbatches by size\twait p50, p99\tqueue p50, p99\tdropped")
	for _, name := range names {
		var m *autoscale.ModuleMeasures
		if s.Measures != nil {
			m = s.Measures.Module(name)
		}
		if m == nil {
			fmt.Fprintf(w, "%s\t%s\t-\t-\t-\t-\t-\t-\n", name, s.Dispatch)
			continue
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%.2f\t%s\t%s, %s\t%s, %s\t%s\n", name, cmp.Or(m.Policy, s.Dispatch), quantity.Number(m.Rate), m.MeanBatch,
			sizes(m.Sizes), quantity.Duration(m.Wait.P50), quantity.Duration(m.Wait.P99), quantity.Duration(m.Queue.P50), quantity.Duration(m.Queue.P99), m.DescribeDrops())
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

func (s Status) executors(b *strings.Builder) {
	if len(s.Executors) == 0 {
		return
	}
	b.WriteString("\nexecutors\n")
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	for _, e := range s.Executors {
		fmt.Fprintf(w, "%s\t%s/%s\tbatch %d\t%s of the device\t%s\n", e.Module, e.Host, e.Device, e.Batch, quantity.Percent(e.Share), e.Engine)
	}
	_ = w.Flush() // a strings.Builder takes everything
}

// files writes for every module the content that it runs with.
func (s Status) files(b *strings.Builder) {
	if len(s.Files) == 0 {
		return
	}
	b.WriteString("\nfiles\n")
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	for _, m := range s.Files {
		for _, f := range m.Files {
			fmt.Fprintf(w, "%s\t%s\t%s\n", m.Module, f.Name(), f.Short())
		}
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
	if d.By != "" {
		line += " (" + d.By + ")"
	}
	if d.Failure != "" {
		return line + "\n    failed: " + d.Failure + "\n"
	}
	did := fmt.Sprintf("%d executors started, %d kept, %d stopped", d.Start, d.Keep, d.Stop)
	switch {
	case d.Groups == 1:
		did = "1 group"
	case d.Groups > 1:
		did = fmt.Sprintf("%d groups", d.Groups)
	}
	return fmt.Sprintf("%s\n    %s; %s\n", line, d.Change.Describe(), did)
}

// leastDifference is the money per hour below which costs are taken as equal.
const leastDifference = 0.00005

// Describe reports what a change does to rate and cost, and what it saves.
func (c Change) Describe() string {
	if c.First {
		return fmt.Sprintf("rate %s/s: cost %s per hour", quantity.Number(c.ToRate), quantity.Money(c.ToCost))
	}
	s := "rate " + fromToText(quantity.Number(c.FromRate)+"/s", quantity.Number(c.ToRate)+"/s")
	if c.FromSLO != c.ToSLO {
		s += fmt.Sprintf(", SLO %s -> %s", quantity.Duration(c.FromSLO), quantity.Duration(c.ToSLO))
	}
	s += fmt.Sprintf(": cost %s per hour, ", fromToText(quantity.Money(c.FromCost), quantity.Money(c.ToCost)))
	diff := c.ToCost - c.FromCost
	switch {
	case math.Abs(diff) < leastDifference:
		return s + "no change in cost"
	case diff < 0:
		return s + fmt.Sprintf("saves %s per hour", quantity.Money(-diff))
	}
	return s + fmt.Sprintf("costs %s more per hour", quantity.Money(diff))
}

// fromToText writes a value that may have changed.
func fromToText(from, to string) string {
	if from == to {
		return to
	}
	return from + " -> " + to
}

// TrialStatus is a trial that is under way.
type TrialStatus struct {
	rollout.Seen
	Since  time.Time
	Update pipelines.Update
}

// Describe is the trial in one line.
func (t TrialStatus) Describe() string {
	return fmt.Sprintf("tried since %s, %s: %s\n", t.Since.UTC().Format(time.TimeOnly), sharesText(t.Update), t.Seen.Describe())
}

// sharesText reports which requests a generation gets while it is tried.
func sharesText(u pipelines.Update) string {
	var all []string
	if u.Canary > 0 {
		all = append(all, "answers "+quantity.Percent(u.Canary)+" of requests")
	}
	if u.Shadow > 0 {
		all = append(all, "is sent copies of "+quantity.Percent(u.Shadow))
	}
	return strings.Join(all, " and ")
}
