package plan

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/harpagon/harpagon/pipelines/quantity"
)

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
	if p.Transfer > 0 {
		fmt.Fprintf(&b, "durations count %s for the way to executors and back, as measured\n", quantity.Duration(p.Transfer))
	}
	if p.CutShort {
		b.WriteString("the search was ended by its time limit: with more time, or elsewhere, the plan may be another\n")
	}
	if e := p.Expected; e != nil {
		fmt.Fprintf(&b, "expects %s of %s arrivals in time under dispatch %s, at least %s with %.0f %% confidence\n",
			quantity.Percent(e.Attainment), e.Arrivals, e.Dispatch, quantity.Percent(e.Low), 100*e.Confidence)
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

// describe says what interruptions take, and what was done about them.
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

// margin says what is kept of the objective, and what that costs.
func (p Plan) margin() string {
	if p.Headroom <= 0 {
		return ""
	}
	text := fmt.Sprintf("keeps %s of the SLO (%s) free for what the machines do besides", quantity.Duration(p.Headroom), quantity.Percent(p.Headroom.Seconds()/p.SLO.Seconds()))
	switch {
	case p.HeadroomCost == nil:
	case *p.HeadroomCost > 0:
		text += fmt.Sprintf(", which costs %s per hour", quantity.Money(*p.HeadroomCost))
	default:
		text += ", which costs nothing"
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
		names = append(names, fmt.Sprintf("%s every %s, done in %s", name, quantity.Duration(t.Period), quantity.Duration(t.Deadline)))
	}
	return strings.Join(names, "; ")
}

// bounded says how near the plan is to the least cost.
func (p Plan) bounded() string {
	text := ""
	if p.Status == Feasible && p.LowerBound > 0 {
		text = fmt.Sprintf("; no plan costs less than %s", quantity.Money(p.LowerBound))
	}
	if p.Restriction != "" {
		text += fmt.Sprintf(" (proven for %s)", p.Restriction)
	}
	return text
}

func (p Plan) promise() string {
	switch {
	case p.Sound && p.Proof == EveryRequest:
		return "proven for every request of an even stream"
	case p.Sound:
		return "proven for even streams at the mean rates"
	}
	return "fits the mean rates, not proven for every request"
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
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\t\n", name, rate, budget, quantity.Number(g.Machines), g.Hardware,
			g.Batch, quantity.Duration(g.Duration), quantity.Duration(g.Window), quantity.Duration(max(g.Duration, g.Deadline)+g.Window), cost)
	}
}
