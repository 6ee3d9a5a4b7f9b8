package console

import (
	"fmt"
	"html/template"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/harpagon/harpagon/pipelines/quantity"
	"github.com/harpagon/harpagon/scheduler"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/workflows"
)

// frame is what every page has around its main part.
type frame struct {
	Title   string
	Path    string // of the page
	Version string
	UI      string // of Temporal; empty where it is not known
	At      time.Time
	Problem string // why plans are not as of now
	Known   time.Time
}

// overview is the page of all services.
type overview struct {
	frame
	Rows      []row
	Cost      string       // per hour, of all
	Devices   []deviceView // that executors use, or that are GPUs
	Idle      string       // the others
	Attention []notice
}

// row is one service of the overview, and the head of its own page.
type row struct {
	Name, Kind, Phase string
	Good              bool // it serves
	Link              string
	Generation        int
	Policy            string
	Planned, Measured string // requests per second
	Load              string // share of the planned rate
	Attainment        string
	Target            string
	Broken            bool // attainment is below its target
	Emulated          bool // answers are made up
	SLO               string
	P50, P99          string
	Spent             template.HTML
	Cost, PerThousand string
	Offered, InTime   template.HTML // over the latest minutes
}

// notice is something that a person should look at.
type notice struct {
	Service, Link, Text string
}

type deviceView struct {
	Name, Hardware string
	Executors      int
	Busy           string
	Over           template.HTML
	GPU            string
}

func (c *Console) overview(s snapshot) overview {
	o := overview{frame: c.frame(s, "Services", "")}
	total := 0.0
	for _, status := range slices.SortedFunc(slices.Values(s.services), byKind) {
		r := c.row(s, status)
		o.Rows = append(o.Rows, r)
		o.Attention = append(o.Attention, notices(status, r)...)
		total += status.Cost
	}
	o.Cost = quantity.Money(total)
	o.Devices, o.Idle = viewDevices(s.devices)
	return o
}

// viewDevices shows the devices that are used, and counts the others by kind: an
// emulated fleet has hundreds.
func viewDevices(all []device) (shown []deviceView, idle string) {
	spare := map[string]int{}
	for _, d := range all {
		if d.Executors == 0 && d.GPU == nil {
			spare[d.Hardware]++
			continue
		}
		shown = append(shown, viewDevice(d))
	}
	var parts []string
	for _, kind := range slices.Sorted(maps.Keys(spare)) {
		parts = append(parts, fmt.Sprintf("%d %s", spare[kind], kind))
	}
	return shown, strings.Join(parts, ", ")
}

func (c *Console) frame(s snapshot, title, path string) frame {
	return frame{Title: title, Path: path, Version: c.options.Version, UI: c.options.UI, At: s.at, Problem: s.problem, Known: s.known}
}

func (c *Console) row(s snapshot, status workflows.Status) row {
	m, measured := s.measures[status.Name], false
	if m.Generation > 0 && m.Outcomes()+m.InFlight > 0 {
		measured = true
	}
	slo, target := c.objective(status)
	r := row{
		Name: status.Name, Kind: string(status.Kind), Phase: string(status.Phase), Good: status.Phase == workflows.Serving,
		Link: linkOf(status.Name), Generation: status.Generation, Policy: strings.Trim(status.Policy+", "+status.CostModel, ", "),
		Planned: quantity.Number(status.Rate), Measured: quantity.Number(m.Offered), Cost: quantity.Money(status.Cost),
		Emulated: len(placement.EmulatedBy(status.Executors)) > 0, Attainment: "–", P50: "–", P99: "–", SLO: "–", PerThousand: "–", Load: "–",
	}
	if slo > 0 {
		r.SLO = quantity.Duration(slo)
	}
	if target > 0 {
		r.Target = quantity.Percent(target)
	}
	if status.Rate > 0 {
		r.Load = quantity.Percent(roundShare(m.Offered / status.Rate))
	}
	if measured {
		r.Attainment, r.P50, r.P99 = quantity.Percent(m.Attainment), short(m.Latency.P50), short(m.Latency.P99)
		r.Broken = target > 0 && m.Attainment < target
	}
	if m.Offered > 0 {
		r.PerThousand = quantity.Money(status.Cost / 3600 / m.Offered * 1000)
	}
	r.Spent = meter(quantity.Millis(m.Latency.P50), quantity.Millis(m.Latency.P99), quantity.Millis(slo))
	var offered, inTime []float64
	for _, x := range c.history.of(status.Name) {
		offered, inTime = append(offered, x.offered), append(inTime, x.attainment)
	}
	r.Offered, r.InTime = spark(offered, 0, "requests per second"), spark(inTime, 1, "share in time")
	return r
}

func roundShare(x float64) float64 { return float64(int(1000*x+0.5)) / 1000 }

// objective is the SLO and the share of requests that must keep it; zero where the
// service has none of its own.
func (c *Console) objective(status workflows.Status) (slo time.Duration, target float64) {
	switch p := status.Plan; {
	case p == nil:
	case p.Pipeline != nil:
		slo = p.Pipeline.SLO
		if declared, ok := c.options.Source.Pipeline(status.Name); ok {
			target = declared.Target()
		}
	case p.Pool != nil:
		slo, target = p.Pool.SLO, poolTarget
	}
	return slo, target
}

// poolTarget is the share of queries that a pool's goodput is counted with
// (Kairos, section 3).
const poolTarget = 0.99

// notices are what is wrong with a service, worst first.
func notices(s workflows.Status, r row) (all []notice) {
	add := func(text string) {
		all = append(all, notice{Service: s.Name, Link: linkOf(s.Name), Text: strings.TrimSpace(text)})
	}
	if s.Failure != nil {
		add(s.Failure.Describe())
	}
	for line := range strings.Lines(s.Alarms()) {
		add(line)
	}
	if r.Broken {
		add(fmt.Sprintf("%s in time where %s are promised", r.Attainment, r.Target))
	}
	return all
}

func linkOf(service string) string { return Root + "services/" + url.PathEscape(service) }

func viewDevice(d device) deviceView {
	v := deviceView{
		Name: d.Host + "/" + d.Device, Hardware: d.Hardware, Executors: d.Executors, Busy: "–",
		Over: spark(d.history, 1, "busy share of "+d.Device),
	}
	if len(d.history) > 0 {
		v.Busy = quantity.Percent(roundShare(d.busy))
	}
	if d.GPU != nil {
		v.GPU = d.GPU.Name
	}
	return v
}

func byKind(a, b workflows.Status) int {
	kinds := scheduler.Kinds()
	if d := slices.Index(kinds, a.Kind) - slices.Index(kinds, b.Kind); d != 0 {
		return d
	}
	return strings.Compare(a.Name, b.Name)
}
