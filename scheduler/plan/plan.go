package plan

import (
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/arrivals"
	"github.com/harpagon/harpagon/pipelines/quantity"
	"github.com/harpagon/harpagon/scheduler/plan/demand"
)

// Status of a plan.
type Status string

// The statuses, as printed.
const (
	Optimal    Status = "optimal"    // cost equals the lower bound
	Feasible   Status = "feasible"   // keeps the objective; may not be the cheapest
	Infeasible Status = "infeasible" // no plan; Reason says why
)

// How far the promise of a plan goes.
const (
	EveryRequest = "every-request" // holds for every request of the arrivals that it covers
	Attainment   = "attainment"    // holds for a share of requests, by simulation: see Plan.Expected
	NoProof      = "none"          // capacity fits the mean rates, and nothing is promised
)

// Plan states what runs for one pipeline.
type Plan struct {
	Pipeline   string  `json:"pipeline"`
	Policy     string  `json:"policy"`
	CostModel  string  `json:"cost_model"`
	Status     Status  `json:"status"`
	Reason     string  `json:"reason,omitempty"` // when infeasible: which path needs how much
	Sound      bool    `json:"sound"`            // every group's window passes the processor-demand test
	Proof      string  `json:"proof,omitempty"`  // "every-request", "attainment" or "none"
	Covers     *Covers `json:"covers,omitempty"` // what a proof for every request is about
	Cost       float64 `json:"cost"`             // money per hour
	LowerBound float64 `json:"lower_bound"`      // money per hour; 0 when none is known

	// Restriction says among which plans LowerBound holds; empty when it holds
	// for every plan that a dispatcher can keep.
	Restriction string `json:"restriction,omitempty"`

	SLO time.Duration `json:"slo_ms"`

	// Headroom is what of the SLO is left free for what machines do besides: the
	// budgets along a path add up to at most SLO - Headroom. HeadroomCost is what
	// the plan costs more than one without it would, money per hour; nil where
	// that was not looked at. It is not negative.
	Headroom     time.Duration `json:"headroom_ms,omitempty"`
	HeadroomCost *float64      `json:"headroom_cost,omitempty"`

	// ChosenPhasesCost is what a plan would cost, money per hour, if the phases of streams were
	// chosen; nil for other than streams that send when they like.
	ChosenPhasesCost *float64 `json:"chosen_phases_cost,omitempty"`

	// DurationQuantile is the share of measured runs that took no longer than durations
	// count here; 0 where they count as profiles state them. See pipelines.Pipeline.Quantile.
	// What that costs is part of HeadroomCost.
	DurationQuantile float64 `json:"duration_quantile,omitempty"`

	// SpreadLeftOut means that a profile tells how durations vary, and no plan was found that
	// counts on it; this one is for batches that take what profiles state.
	SpreadLeftOut bool `json:"spread_left_out,omitempty"`

	// Transfer is what the durations of all batches count for the way from a gateway to
	// an executor and back; see Transferred. 0 leaves that to the margin that
	// dispatchers keep anyway.
	Transfer time.Duration `json:"transfer_ms,omitempty"`

	Latency   time.Duration `json:"latency_ms"` // longest path of worst cases
	SolveTime time.Duration `json:"solve_ms"`

	// CutShort means that the search was ended by its time limit or by who asked:
	// elsewhere, or with more time, the same problem may have another plan.
	CutShort bool `json:"cut_short,omitempty"`

	Modules []Module `json:"modules"`
	Devices []Device `json:"devices,omitempty"` // that groups share, under cost model shared

	// Expected is what the plan attains of the arrivals that the pipeline
	// declares, by simulation; nil where every request is proven.
	Expected *Expectation `json:"expected,omitempty"`

	// Interruptions is what it means for requests that devices of the plan are taken
	// back; nil where none are.
	Interruptions *Interruptions `json:"interruptions,omitempty"`

	// Accuracy is the pipeline's with the networks that Variants says serve its modules;
	// 0 where no module has variants.
	Accuracy float64         `json:"accuracy,omitempty"`
	Variants []ServedVariant `json:"variants,omitempty"`

	// Carries is the rate that the plan is for, where fixed devices suffice for no more of
	// the pipeline's; 0 where it is for all of it. In requests per second.
	Carries float64 `json:"carries_rate,omitempty"`
}

// Covers are the arrivals for which every request is proven.
type Covers struct {
	Arrivals string `json:"arrivals"`
	Burst    int    `json:"burst"` // items that may come at once at a module: of a request, or of those of all streams

	Streams int           `json:"streams,omitempty"`   // how many send, where requests are frames of streams
	Jitter  time.Duration `json:"jitter_ms,omitempty"` // how far a frame may come after its pace

	Kinds []CoveredKind `json:"kinds,omitempty"` // of streams, where there are several; then each has its jitter

	DurationQuantile float64 `json:"duration_quantile,omitempty"` // share of batches, by what was measured; see Plan
}

// CoveredKind is one of several kinds of streams that a proof is about.
type CoveredKind struct {
	Kind    string        `json:"kind"`
	Rate    float64       `json:"frame_rate"` // of one stream
	Streams int           `json:"streams"`
	Jitter  time.Duration `json:"jitter_ms,omitempty"`
}

// streams notes whose frames are covered.
func (c *Covers) streams(kinds []pipelines.Stream) {
	for _, s := range kinds {
		if c.Streams += s.Count; len(kinds) == 1 {
			c.Jitter = s.Jitter
		} else {
			c.Kinds = append(c.Kinds, CoveredKind{Kind: s.Kind, Rate: s.Rate, Streams: s.Count, Jitter: s.Jitter})
		}
	}
}

// Interruptions is what a plan on devices that are taken back must bear.
type Interruptions struct {
	Missing   float64 `json:"missing"`    // share of requests that find no device in time, in the long run, at the most
	Allowed   float64 `json:"allowed"`    // of it, by the attainment that is asked for; 1 where none is
	Spare     float64 `json:"spare"`      // devices that are there only for when others are taken back
	SpareCost float64 `json:"spare_cost"` // of them, money per hour; part of the plan's cost
}

// Expectation is the share of requests that a plan is expected to answer within
// the SLO.
type Expectation struct {
	Arrivals   string  `json:"arrivals"`
	Dispatch   string  `json:"dispatch"` // the policy that was simulated
	Attainment float64 `json:"attainment"`
	Low        float64 `json:"low"` // of the interval that holds it
	High       float64 `json:"high"`
	Confidence float64 `json:"confidence"` // that it is no lower than Low
	Requests   int64   `json:"requests"`   // that were simulated
	Target     float64 `json:"target"`     // that was asked for; 0 for none
}

// Module is the part of a plan for one module.
type Module struct {
	Name      string        `json:"name"`
	Rate      float64       `json:"rate"`                // real requests per second; the most that may come, where they come in bursts
	Burst     int           `json:"burst,omitempty"`     // of them that come at once, where the plan counts that
	AnyPhase  bool          `json:"any_phase,omitempty"` // of them, each of another stream that sends when it likes: batches hold what has come when a device is free
	DummyRate float64       `json:"dummy_rate"`
	Budget    time.Duration `json:"budget_ms"`
	WorstCase time.Duration `json:"worst_case_ms"` // claimed
	Proven    time.Duration `json:"proven_ms"`     // by the processor-demand test; 0 when there is none
	Cost      float64       `json:"cost"`
	Groups    []Group       `json:"groups"`
}

// Group is Machines devices that run one configuration and receive Rate.
type Group struct {
	Hardware    string        `json:"hardware"`
	Batch       int           `json:"batch"`
	Concurrency int           `json:"concurrency"`
	Duration    time.Duration `json:"duration_ms"`
	Machines    float64       `json:"machines"`
	Spare       float64       `json:"spare,omitempty"` // of Machines: there only for when others are taken back
	Rate        float64       `json:"rate"`
	DummyRate   float64       `json:"dummy_rate"`
	Period      time.Duration `json:"period_ms"` // between two batches of the group
	Window      time.Duration `json:"window_ms"` // longest wait of a request for its batch

	// Deadline, on a shared device, is the longest from the end of the window
	// to the end of the batch; waiting for other groups' batches is part of it.
	// 0 on devices of its own, where a batch starts at once.
	Deadline time.Duration `json:"deadline_ms,omitempty"`

	// Items is how many of each burst the group takes, in batches that are collected in the
	// instant in which it comes; Period is the time between two bursts then. 0 where items
	// are collected over time.
	Items int `json:"items,omitempty"`

	// Rides means that the group is a processing step of microseconds that runs
	// beside an executor of the pipeline, on a device that is there for that one:
	// it costs nothing and does not wait for the device's turn. Machines is the
	// share of the device that it uses.
	Rides bool `json:"rides,omitempty"`
}

// Device is a device that groups share.
type Device struct {
	Hardware string  `json:"hardware"`
	Price    float64 `json:"price"` // money per hour
	Share    float64 `json:"share"` // of its time that is used, 0..1
	Tasks    []Task  `json:"groups"`

	// InPhase means that its groups are in time because it is known when each is released, one
	// after the other: all are of one pipeline, and nothing starts before that.
	InPhase bool `json:"in_phase,omitempty"`
}

// HeldDevice is a device that others use.
type HeldDevice struct {
	Device
	Memory int64 // bytes that they take; 0 when unknown
}

// Task is a group that runs on a shared device.
type Task struct {
	Pipeline string        `json:"pipeline"`
	Module   string        `json:"module"`
	Group    int           `json:"group"` // index into Module.Groups
	Duration time.Duration `json:"duration_ms"`
	Period   time.Duration `json:"period_ms"`
	Deadline time.Duration `json:"deadline_ms"`         // from the end of the window to the end of the batch
	Share    float64       `json:"share"`               // of the device's time
	AtOnce   int           `json:"at_once,omitempty"`   // batches that every Period releases; 0 is one
	Offset   time.Duration `json:"offset_ms,omitempty"` // on a device in phase: from the arrival of a request to the release

	// Branch is under which conditions a request comes here: of when and else of one, a device in
	// phase counts the larger.
	Branch []demand.Condition `json:"branch,omitempty"`
}

// UseDevices records the shared devices. The plan is sound only if they are.
func (p *Plan) UseDevices(devices []Device) {
	p.Devices = devices
	if p.Sound = p.Sound && soundDevices(devices); !p.Sound {
		p.Disprove()
	}
}

// Disprove takes back what is proven for single requests.
func (p *Plan) Disprove() { p.Proof, p.Covers = NoProof, nil }

func soundDevices(devices []Device) bool {
	for _, d := range devices {
		if !d.sound() {
			return false
		}
	}
	return true
}

func (d *Device) sound() bool {
	if !d.InPhase {
		return demand.NonPreemptive(d.Demand()).Sound
	}
	var tasks []demand.Phased
	for i, t := range d.Demand() {
		tasks = append(tasks, demand.Phased{Task: t, Offset: d.Tasks[i].Offset.Seconds(), Branch: d.Tasks[i].Branch})
	}
	return demand.InPhase(tasks).Sound
}

// Demand is what the tasks of the device ask for, as the non-preemptive demand
// test takes it.
func (d *Device) Demand() []demand.Task {
	var tasks []demand.Task
	for _, t := range d.Tasks {
		tasks = append(tasks, demand.Task{Duration: t.Duration.Seconds(), Period: t.Period.Seconds(), Deadline: t.Deadline.Seconds(), AtOnce: t.AtOnce})
	}
	return tasks
}

// Of is the service that the plan is for.
func (p Plan) Of() (kind pipelines.Kind, name string) { return pipelines.KindPipeline, p.Pipeline }

// Models are the names that requests give.
func (p Plan) Models() []string { return []string{p.Pipeline} }

// NoPlan reports why there is none.
func (p Plan) NoPlan() (reason string, infeasible bool) { return p.Reason, p.Status == Infeasible }

// EndedEarly reports that with more time the search may find another plan.
func (p Plan) EndedEarly() bool { return p.CutShort }

// CostPerHour is what the plan costs, in money per hour.
func (p Plan) CostPerHour() float64 { return p.Cost }

// MadeBy is the policy, and the cost model where there are several.
func (p Plan) MadeBy() (policy, costModel string) { return p.Policy, p.CostModel }

// Describe writes the plan for people: what it costs and promises, then one
// line a group.
func (p Plan) Describe() string {
	var b strings.Builder
	if p.Status == Infeasible {
		fmt.Fprintf(&b, "%s: infeasible: %s\n", p.Pipeline, p.Reason)
		return b.String()
	}
	fmt.Fprintf(&b, "%s: %s plan, %s per hour, worst case %s of %s\n",
		p.Pipeline, p.Status, quantity.Money(p.Cost), quantity.Duration(p.Latency), quantity.Duration(p.SLO))
	fmt.Fprintf(&b, "policy %s, cost model %s, %s%s\n", p.Policy, p.CostModel, p.promise(), p.bounded())
	b.WriteString(DescribeVariants(p.Accuracy, p.Variants))
	if p.Carries > 0 {
		fmt.Fprintf(&b, "carries %s/s: the devices suffice for no more of the rate, and the rest is refused\n", quantity.Number(p.Carries))
	}
	b.WriteString(p.margin())
	if p.ChosenPhasesCost != nil {
		fmt.Fprintf(&b, "costs %s per hour with chosen phases: where whoever sends spreads the streams over a period\n", quantity.Money(*p.ChosenPhasesCost))
	}
	if p.Transfer > 0 {
		fmt.Fprintf(&b, "durations count %s for the way to executors and back, as measured\n", quantity.Duration(p.Transfer))
	}
	if p.CutShort {
		b.WriteString("the search was ended by its time limit: with more time, or elsewhere, the plan may be another\n")
	}
	if e := p.Expected; e != nil {
		of := e.Arrivals
		if of != arrivals.Frames {
			of += " arrivals"
		}
		fmt.Fprintf(&b, "expects %s of %s in time under dispatch %s, at least %s with %.0f %% confidence\n",
			quantity.Percent(e.Attainment), of, e.Dispatch, quantity.Percent(e.Low), 100*e.Confidence)
	}
	if i := p.Interruptions; i != nil {
		b.WriteString(i.describe())
	}
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "module\trate/s\tbudget\tmachines\thardware\tbatch\tduration\twindow\tworst case\tcost\t")
	for _, m := range p.Modules {
		m.describe(w)
	}
	_ = w.Flush() // a strings.Builder takes everything
	for _, d := range p.Devices {
		fmt.Fprintf(&b, "one %s, %.0f %% used: %s\n", d.Hardware, 100*d.Share, d.describe(p.Pipeline))
	}
	if names := p.colocated(); len(names) > 0 {
		fmt.Fprintf(&b, "beside these, without waiting for a turn: %s\n", strings.Join(names, ", "))
	}
	return b.String()
}

// describe reports what interruptions take, and what was done about them.
func (i *Interruptions) describe() string {
	text := fmt.Sprintf("devices that are taken back leave at most %s of requests without one", quantity.Percent(i.Missing))
	if i.Allowed < 1 {
		text += fmt.Sprintf(", %s may be", quantity.Percent(i.Allowed))
	}
	switch {
	case i.Spare > 0:
		text += fmt.Sprintf("; %s of the machines are spare, for %s per hour", quantity.Number(i.Spare), quantity.Money(i.SpareCost))
	default:
		text += "; no machine is spare"
	}
	return text + "\n"
}

// colocated are the modules that run beside executors of others.
func (p Plan) colocated() (names []string) {
	for _, m := range p.Modules {
		if len(m.Groups) == 1 && m.Groups[0].Rides {
			names = append(names, m.Name)
		}
	}
	return names
}

// margin reports what is kept of the objective or counted for durations, and what that costs.
func (p Plan) margin() string {
	var text string
	switch {
	case p.DurationQuantile > 0:
		text = fmt.Sprintf("counts for a batch what %s of measured runs took at most", quantity.Percent(p.DurationQuantile))
	case p.Headroom > 0:
		text = fmt.Sprintf("keeps %s of the SLO (%s) free for what the machines do besides", quantity.Duration(p.Headroom), quantity.Percent(p.Headroom.Seconds()/p.SLO.Seconds()))
	default:
		return ""
	}
	switch {
	case p.HeadroomCost == nil:
	case *p.HeadroomCost > 0:
		text += fmt.Sprintf(", which costs %s per hour", quantity.Money(*p.HeadroomCost))
	default:
		text += ", which costs nothing"
	}
	if p.SpreadLeftOut {
		text += "; counting what " + quantity.Percent(pipelines.MeasuredQuantile) + " of measured runs took at most, no plan was found: requests will be late while the machine is as busy as then"
	}
	return text + "\n"
}

// describe lists the groups on a device; those of other pipelines with their
// pipeline.
func (d Device) describe(pipeline string) string {
	var names []string
	for _, t := range d.Tasks {
		name := t.Module
		if t.Pipeline != pipeline {
			name = t.Pipeline + "." + t.Module
		}
		if t.AtOnce > 1 {
			name = fmt.Sprintf("%d of %s", t.AtOnce, name)
		}
		names = append(names, fmt.Sprintf("%s every %s, done in %s", name, quantity.Duration(t.Period), quantity.Duration(t.Deadline)))
	}
	return strings.Join(names, "; ")
}

// bounded reports how near the plan is to the least cost.
func (p Plan) bounded() string {
	text := ""
	if p.Status == Feasible && p.LowerBound > 0 {
		text = fmt.Sprintf("; no plan costs less than %s", quantity.Money(p.LowerBound))
	}
	switch {
	case p.Restriction == "":
	case text == "":
		text = fmt.Sprintf("; that none costs less is proven for %s", p.Restriction)
	default:
		text += fmt.Sprintf(" (proven for %s)", p.Restriction)
	}
	return text
}

func (p Plan) promise() string {
	switch {
	case !p.Sound:
		return "not sound: fits the mean rates, nothing is proven for the single request"
	case p.Proof == EveryRequest:
		return p.Covers.promise()
	case p.Proof == Attainment:
		return "attains a share of requests, by simulation"
	}
	return "fits the mean rates, nothing is proven for the single request"
}

// promise says for which requests a plan is proven.
func (c *Covers) promise() string {
	switch {
	case c == nil || c.Streams == 0:
		return "proven for every request of an even stream"
	case len(c.Kinds) > 0:
		var each []string
		for _, k := range c.Kinds {
			text := fmt.Sprintf("%d %s of %s/s", k.Streams, k.Kind, quantity.Number(k.Rate))
			if k.Jitter > 0 {
				text += " with a jitter of " + quantity.Duration(k.Jitter)
			}
			each = append(each, text)
		}
		return fmt.Sprintf("proven for every frame of %s: %s", quantity.Count(c.Streams, "stream"), strings.Join(each, ", "))
	case c.Jitter > 0:
		return fmt.Sprintf("proven for every frame of %s with a jitter of %s", quantity.Count(c.Streams, "stream"), quantity.Duration(c.Jitter))
	}
	return fmt.Sprintf("proven for every frame of %s", quantity.Count(c.Streams, "stream"))
}

func (m Module) describe(w *tabwriter.Writer) {
	if len(m.Groups) == 0 {
		fmt.Fprintf(w, "%s\t%s\t%s\t0\t\t\t\t\t\t%s\t\n", m.Name, quantity.Number(m.Rate), quantity.Duration(m.Budget), quantity.Money(0))
		return
	}
	for i, g := range m.Groups {
		name, budget, cost := m.Name, quantity.Duration(m.Budget), quantity.Money(m.Cost)
		if i > 0 {
			name, budget, cost = "", "", ""
		}
		rate := quantity.Number(g.Rate)
		if g.DummyRate > 0 {
			rate += " + " + quantity.Number(g.DummyRate) + " dummy"
		}
		worst := max(g.Duration, g.Deadline) + g.Window
		if g.Items > 0 && g.Deadline == 0 {
			worst = m.WorstCase
		}
		batch := strconv.Itoa(g.Batch)
		if g.Concurrency > 1 {
			batch += fmt.Sprintf(", %d at a time", g.Concurrency)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", name, rate, budget, quantity.Number(g.Machines), g.Hardware,
			batch, quantity.Duration(g.Duration), quantity.Duration(g.Window), quantity.Duration(worst), cost)
	}
}
