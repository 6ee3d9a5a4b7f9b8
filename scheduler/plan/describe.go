package plan

import (
	"fmt"
	"math"
	"strings"
	"text/tabwriter"
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
		p.Pipeline, p.Status, money(p.Cost), Spell(p.Latency), Spell(p.SLO))
	fmt.Fprintf(&b, "policy %s, cost model %s, %s%s\n", p.Policy, p.CostModel, p.promise(), p.bounded())
	b.WriteString(p.margin())
	if e := p.Expected; e != nil {
		fmt.Fprintf(&b, "expects %.4g %% of %s arrivals in time under dispatch %s, at least %.4g %% with %.0f %% confidence\n",
			100*e.Attainment, e.Arrivals, e.Dispatch, 100*e.Low, 100*e.Confidence)
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
	text := fmt.Sprintf("keeps %s of the SLO (%.3g %%) free for what the machines do besides", Spell(p.Headroom), 100*p.Headroom.Seconds()/p.SLO.Seconds())
	switch {
	case p.HeadroomCost == nil:
	case *p.HeadroomCost > 0:
		text += fmt.Sprintf(", which costs %s per hour", money(*p.HeadroomCost))
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
		names = append(names, fmt.Sprintf("%s every %s, done in %s", name, Spell(t.Period), Spell(t.Deadline)))
	}
	return strings.Join(names, "; ")
}

// bounded says how near the plan is to the least cost.
func (p Plan) bounded() string {
	text := ""
	if p.Status == Feasible && p.LowerBound > 0 {
		text = fmt.Sprintf("; no plan costs less than %s", money(p.LowerBound))
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
		fmt.Fprintf(w, "%s\t%s\t%s\t0\t\t\t\t\t\t%s\t\n", m.Name, number(m.Rate), Spell(m.Budget), money(0))
		return
	}
	for i, g := range m.Groups {
		name, budget, cost := m.Name, Spell(m.Budget), money(m.Cost)
		if i > 0 {
			name, budget, cost = "", "", ""
		}
		rate := number(g.Rate)
		if g.DummyRate > 0 {
			rate += " + " + number(g.DummyRate) + " dummy"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\t\n", name, rate, budget, number(g.Machines), g.Hardware,
			g.Batch, Spell(g.Duration), Spell(g.Window), Spell(max(g.Duration, g.Deadline)+g.Window), cost)
	}
}

// number writes at most four significant digits.
func number(x float64) string {
	if r := math.Round(x); math.Abs(x-r) < 1e-6*math.Max(1, r) {
		return fmt.Sprintf("%.0f", r)
	}
	return fmt.Sprintf("%.4g", x)
}

// money keeps three figures of amounts below one: a share of one core costs
// little in an hour, and is not nothing.
func money(x float64) string {
	if x > 0 && x < 1 {
		return fmt.Sprintf("%.3g", x)
	}
	return fmt.Sprintf("%.2f", x)
}
