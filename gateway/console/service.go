package console

import (
	"fmt"
	"html/template"
	"slices"
	"strings"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/quantity"
	"github.com/harpagon/harpagon/scheduler/autoscale"
	"github.com/harpagon/harpagon/scheduler/dispatch/admission"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/workflows"
)

// servicePage is the page of one service.
type servicePage struct {
	frame
	Row       row
	Attention []notice
	Remarks   []string
	Asked     string
	Trial     string
	Graph     template.HTML
	Modules   []moduleView
	Promises  []promise
	Streams   []streamView
	More      int // streams that are open beside those
	Slots     []slotView
	Decisions []decisionView
	Plan      string // as explain prints it
	Calls     string // of a function, beside what was planned
	Workflow  string // link into Temporal's UI
}

// moduleView is a module: what the plan gives it, and what it uses.
type moduleView struct {
	Name, Policy, Hardware, Batches   string
	Rate, MeanBatch, Waiting, Dropped string
	Budget                            time.Duration
	BudgetText, WorstCase             string
	Measured                          bool
	Typical                           time.Duration // sum of the medians of its parts
	TypicalText, SlowText             string
	Parts                             string // medians of wait, queue, compute and way
	Spent                             template.HTML
}

// promise is something that the plan states beside what was measured.
type promise struct {
	What, Planned, Measured string
	Broken                  bool
}

// streamView is a stream that is open.
type streamView struct {
	Name, InTime string
	Kind         string // of several
	Broken       bool
	Over         template.HTML
	TooFast      string // frames that were dropped since they came too fast; empty for none
	Link         string // to its page; empty where its frames are not shown
}

// mostStreams is how many streams a page lists.
const mostStreams = 50

type slotView struct {
	Module, Device, Engine, Batch, Planned, Measured string
}

type decisionView struct {
	At          time.Time
	Generation  int
	Reason      string
	Difference  string
	Did, Failed string
	Link        string
}

func (c *Console) service(s snapshot, status workflows.Status) servicePage {
	m := s.measures[status.Name]
	page := servicePage{
		frame: c.frame(s, status.Name, linkOf(status.Name)), Row: c.row(s, status), Workflow: c.workflowLink(workflows.ServiceID(status.Kind, status.Name)),
	}
	page.Attention = notices(status, page.Row)
	for line := range strings.Lines(status.Remarks()) {
		page.Remarks = append(page.Remarks, strings.TrimSpace(line))
	}
	if status.Requested != nil {
		page.Asked = strings.TrimSpace(status.Requested.Describe())
	}
	if status.Trial != nil {
		page.Trial = strings.TrimSpace(status.Trial.Describe())
	}
	if status.Plan != nil {
		page.Plan = status.Plan.Describe()
	}
	if p := planOf(status); p != nil {
		page.Modules = viewModules(*p, m, status.Dispatch)
		page.Promises = promises(*p, m)
		if declared, ok := c.options.Source.Pipeline(status.Name); ok {
			page.Graph = drawGraph(declared, page.Modules)
		}
	}
	if read := c.options.Source.Streams; read != nil && m.Streams != nil {
		for _, line := range read(status.Name, mostStreams) {
			one := viewStream(line)
			if c.shows(status.Name) {
				one.Link = linkOfStream(status.Name, line.ID)
			}
			page.Streams = append(page.Streams, one)
		}
		page.More = max(0, m.Streams.Open-len(page.Streams))
	}
	if m.Function != nil && status.Plan != nil && status.Plan.Function != nil {
		page.Calls = m.Function.Describe(*status.Plan.Function)
	}
	for _, slot := range status.Executors {
		page.Slots = append(page.Slots, viewSlot(slot, m))
	}
	for _, d := range slices.Backward(status.Decisions) {
		page.Decisions = append(page.Decisions, viewDecision(d))
	}
	return page
}

// planOf is the plan of a pipeline, nil of other kinds.
func planOf(s workflows.Status) *plan.Plan {
	if s.Plan == nil {
		return nil
	}
	return s.Plan.Pipeline
}

// workflowLink leads to a workflow in Temporal's UI.
func (c *Console) workflowLink(id string) string {
	if c.options.UI == "" {
		return ""
	}
	return strings.TrimRight(c.options.UI, "/") + "/namespaces/" + c.options.Namespace + "/workflows/" + strings.ReplaceAll(id, "/", "%2F")
}

func viewModules(p plan.Plan, m autoscale.Measures, dispatch string) (all []moduleView) {
	for _, planned := range p.Modules {
		v := moduleView{
			Name: planned.Name, Policy: dispatch, Budget: planned.Budget, Hardware: "–", Batches: "–",
			Rate: "–", MeanBatch: "–", Waiting: "–", Dropped: "–", BudgetText: quantity.Duration(planned.Budget),
			WorstCase: quantity.Duration(planned.WorstCase), TypicalText: "–", SlowText: "–", Parts: "–",
		}
		var batches, hardware []string
		for _, g := range planned.Groups {
			batches = append(batches, fmt.Sprintf("%s × batch %d", quantity.Number(g.Machines), g.Batch))
			if !slices.Contains(hardware, g.Hardware) {
				hardware = append(hardware, g.Hardware)
			}
		}
		v.Batches, v.Hardware = strings.Join(batches, ", "), strings.Join(hardware, ", ")
		v.measure(m.Module(planned.Name))
		all = append(all, v)
	}
	return all
}

// measure adds what was seen of the module. A percentile of a sum is not the sum of
// percentiles: that of medians is near the median, that of slow parts above it.
func (v *moduleView) measure(m *autoscale.ModuleMeasures) {
	if m == nil {
		return
	}
	if m.Policy != "" {
		v.Policy = m.Policy
	}
	v.Rate, v.Waiting, v.Dropped = quantity.Number(m.Rate), fmt.Sprint(m.Waiting), m.DescribeDrops()
	if m.Batches == 0 {
		return
	}
	v.Measured = true
	v.MeanBatch = quantity.Number(m.MeanBatch)
	v.Typical = m.Queue.P50 + m.Wait.P50 + m.Compute.P50 + m.Transfer.P50
	slow := m.Queue.P99 + m.Wait.P99 + m.Compute.P99 + m.Transfer.P99
	v.TypicalText, v.SlowText = short(v.Typical), short(slow)
	v.Parts = strings.Join([]string{short(m.Wait.P50), short(m.Queue.P50), short(m.Compute.P50), short(m.Transfer.P50)}, ", ")
	v.Spent = meter(quantity.Millis(v.Typical), quantity.Millis(slow), quantity.Millis(v.Budget))
}

// short is a duration to a tenth of a millisecond.
func short(d time.Duration) string { return quantity.Duration(d.Round(100 * time.Microsecond)) }

// slower is how much longer than planned a batch may take before it is shown as
// broken: a machine that does other work now and then is a tenth slower.
const slower = 1.1

// promises sets what the plan states beside what this gateway saw.
func promises(p plan.Plan, m autoscale.Measures) []promise {
	seen := m.Outcomes() > 0
	measured := func(s string) string {
		if !seen {
			return "–"
		}
		return s
	}
	longest := m.Latency.Max
	all := []promise{{
		What: "longest way through, at even arrivals", Planned: quantity.Duration(p.Latency),
		Measured: measured(short(longest) + " the longest seen"), Broken: seen && longest > p.SLO,
	}}
	if e := p.Expected; e != nil {
		all = append(all, promise{
			What: "in time, at arrivals " + e.Arrivals, Planned: quantity.Percent(e.Attainment),
			Measured: measured(quantity.Percent(m.Attainment)), Broken: seen && m.Attainment < e.Low,
		})
	}
	for _, s := range m.Streams.Each() {
		of := strings.TrimSpace(s.Kind + " stream")
		worst := promise{What: "frames within the rate in time, of the worst " + of, Planned: quantity.Percent(pipelines.DefaultAttainment), Measured: "–"}
		if s.Open > 0 {
			worst.Measured = fmt.Sprintf("%s, %q; of the median %s", quantity.Percent(s.Worst), s.WorstName, quantity.Percent(s.Median))
			worst.Broken = s.Worst < pipelines.DefaultAttainment
		}
		all = append(all, promise{What: of + "s that are open", Planned: fmt.Sprint(s.Most), Measured: fmt.Sprint(s.Open)}, worst)
	}
	for _, module := range p.Modules {
		mm := m.Module(module.Name)
		for _, g := range module.Groups {
			one := promise{What: fmt.Sprintf("%s, a batch of %d on %s", module.Name, g.Batch, g.Hardware), Planned: quantity.Duration(g.Duration), Measured: "–"}
			if mm != nil {
				for _, d := range mm.Durations {
					if d.Hardware == g.Hardware && d.Size == g.Batch {
						one.Measured = short(d.P50) + " in the middle, " + short(d.P95) + " for 95 of 100"
						one.Broken = float64(d.P50) > slower*float64(g.Duration)
					}
				}
			}
			all = append(all, one)
		}
	}
	return all
}

func viewStream(line admission.StreamLine) streamView {
	v := streamView{
		Name: line.Name, Kind: line.Kind, InTime: quantity.Percent(line.Attainment), Broken: line.Attainment < pipelines.DefaultAttainment,
		Over: spark(line.Recent, 1, "share in time of "+line.Name),
	}
	if line.TooFast > 0 {
		v.TooFast = fmt.Sprintf("and %s dropped that came faster than planned", quantity.Count(int(line.TooFast), "frame"))
	}
	return v
}

func viewSlot(s placement.Slot, m autoscale.Measures) slotView {
	v := slotView{
		Module: s.Module, Device: s.Host + "/" + s.Device, Engine: s.Engine, Batch: fmt.Sprint(s.Batch),
		Planned: quantity.Percent(roundShare(s.Share)), Measured: "–",
	}
	if mm := m.Module(s.Module); mm != nil {
		for _, e := range mm.Executors {
			if e.Executor == s.Executor {
				v.Measured = quantity.Percent(roundShare(e.Utilisation))
			}
		}
	}
	return v
}

func viewDecision(d workflows.Decision) decisionView {
	v := decisionView{At: d.At.UTC(), Generation: d.Generation, Reason: d.Reason, Failed: d.Failure}
	if d.Failure == "" {
		v.Difference = d.Change.Describe()
		v.Did = fmt.Sprintf("%d executors started, %d kept, %d stopped", d.Start, d.Keep, d.Stop)
		if d.Groups > 0 {
			v.Did = quantity.Count(d.Groups, "group")
		}
	}
	return v
}
