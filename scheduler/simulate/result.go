package simulate

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/histogram"
	"github.com/harpagon/harpagon/pipelines/quantity"
	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// Result is what a simulation saw. Requests that came during a warm-up are not
// counted anywhere.
type Result struct {
	Pipelines []PipelineResult
	Devices   []DeviceResult
	Duration  time.Duration // in which requests came and were counted
	Events    int64         // that were played
	Sizes     []Size        // of a cluster that was scaled, in order of time

	// Misses is the number of requests, over all pipelines, that were not
	// answered in time; Cut means that the run ended early because of them.
	Misses int64
	Cut    bool
}

// Counts of requests by outcome: each has exactly one.
//
//	Requests = Completed + Late + Dropped + Refused
type Counts struct {
	Requests  int64 `json:"requests"`
	Completed int64 `json:"completed"` // answered within the objective
	Late      int64 `json:"late"`      // answered after it
	Dropped   int64 `json:"dropped"`   // given up because they could no longer be in time, or lost with two devices
	Refused   int64 `json:"refused"`   // turned away when they came: they could not be in time, or a queue was full
}

// PipelineResult is what became of the requests of one pipeline.
type PipelineResult struct {
	Pipeline string  `json:"pipeline"`
	Dispatch string  `json:"dispatch"`
	Arrivals string  `json:"arrivals"`
	Seed     uint64  `json:"seed"`
	Rate     float64 `json:"offered_rate"` // requests per second
	Counts
	Attainment  float64               `json:"attainment"`          // Completed over Requests; 1 without requests
	Interval    Interval              `json:"attainment_interval"` // that holds the attainment of a run without end
	Goodput     *Goodput              `json:"goodput,omitempty"`   // where requested
	MeanBatch   float64               `json:"mean_batch"`
	Streams     *StreamResult         `json:"streams,omitempty"` // where requests are frames of streams
	Utilisation float64               `json:"utilisation"`       // of its devices, on average: share of time with a batch on it
	Wasted      float64               `json:"wasted"`            // of the time that devices computed: the share for requests that were not in time
	Latency     histogram.Percentiles `json:"-"`                 // of what was answered, off by at most 0.2 %
	Devices     int                   `json:"devices"`           // that serve the pipeline
	SLO         time.Duration         `json:"slo_ms"`
	Modules     []ModuleResult        `json:"modules"`
}

// StreamResult is what streams attain: the share of a stream's frames that were answered in time.
type StreamResult struct {
	Kind   string  `json:"kind,omitempty"` // of these streams, among Kinds
	Count  int     `json:"count"`
	Worst  float64 `json:"worst_attainment"`
	Median float64 `json:"median_attainment"`

	Kinds []StreamResult `json:"kinds,omitempty"` // of streams of several kinds those of each
}

// Describe is a line for people, and one for each of several kinds.
func (s StreamResult) Describe() string {
	line := fmt.Sprintf("%s: of the worst %s in time, of the median %s\n", quantity.Count(s.Count, strings.TrimSpace(s.Kind+" stream")), quantity.Percent(s.Worst), quantity.Percent(s.Median))
	for _, of := range s.Kinds {
		line += of.Describe()
	}
	return line
}

// ModuleResult is what became of the items of one module.
//
//	Items = Completed + Late + Dropped + Refused + Withdrawn
type ModuleResult struct {
	Module    string                `json:"name"`
	Rate      float64               `json:"rate"` // items per second
	Items     int64                 `json:"items"`
	Completed int64                 `json:"completed"` // in time for the modules below
	Late      int64                 `json:"late"`
	Dropped   int64                 `json:"dropped"`
	Refused   int64                 `json:"refused"`
	Withdrawn int64                 `json:"withdrawn"` // taken back while they waited: their request had failed elsewhere
	Batches   int64                 `json:"batches"`
	MeanBatch float64               `json:"mean_batch"`
	Budget    time.Duration         `json:"budget_ms"`
	Latency   histogram.Percentiles `json:"-"` // from ready to computed
	Behind    time.Duration         `json:"-"` // the most by which an item left after its budget; negative where none did
}

// DeviceResult is what one device did.
type DeviceResult struct {
	Device      string
	Hardware    string
	Utilisation float64
	Batches     int64
}

// Least is the attainment of the pipeline that attains least; 1 without any.
func (r Result) Least() float64 {
	least := 1.0
	for _, p := range r.Pipelines {
		least = min(least, p.Attainment)
	}
	return least
}

// Utilisation is the share of time with a batch on it, on average over the
// devices of the hardware; 0 where there is none.
func (r Result) Utilisation(hardware string) float64 {
	sum, n := 0.0, 0
	for _, d := range r.Devices {
		if d.Hardware == hardware {
			sum, n = sum+d.Utilisation, n+1
		}
	}
	return sum / float64(max(1, n))
}

// result sums up the run.
func (e *engine) result(confidence float64) Result {
	r := Result{Duration: e.end - e.begin, Sizes: e.sizes, Events: e.events, Misses: e.misses, Cut: e.giveUp > 0 && e.misses > e.giveUp}
	span := float64(max(1, e.end-e.begin))
	for i := range e.devices {
		d := &e.devices[i]
		r.Devices = append(r.Devices, DeviceResult{Device: d.name, Hardware: d.hardware, Utilisation: float64(d.busy) / span, Batches: d.batches})
	}
	for i := range e.loads {
		p := e.loads[i].result(span/1e9, confidence)
		users := e.users(&e.loads[i])
		for _, at := range users {
			p.Utilisation += r.Devices[at].Utilisation / float64(len(users))
		}
		p.Devices = len(users)
		r.Pipelines = append(r.Pipelines, p)
	}
	return r
}

// users are the devices that have a lane of one of the pipeline's stations.
func (e *engine) users(a *loadState) []int {
	var list []int
	for at := range e.devices {
		for _, p := range e.devices[at].lanes {
			uses := false
			for k := range a.nodes {
				uses = uses || a.nodes[k].station == p.station
			}
			if uses {
				list = append(list, at)
				break
			}
		}
	}
	return list
}

func (a *loadState) result(seconds, confidence float64) PipelineResult {
	t := &a.tally
	r := PipelineResult{
		Pipeline: a.name, SLO: a.slo,
		Counts:     Counts{Requests: t.requests, Completed: t.completed, Late: t.late, Dropped: t.dropped, Refused: t.refused},
		Attainment: 1, Interval: OverTime(t.good[:slicesOfTime], t.total[:slicesOfTime], confidence), Latency: t.latency.Percentiles(),
	}
	if t.requests > 0 {
		r.Attainment = float64(t.completed) / float64(t.requests)
	}
	if len(t.streams) > 0 {
		all, first := resultOf("", t.streams), 0
		for _, of := range t.kinds {
			all.Kinds = append(all.Kinds, resultOf(of.Kind, t.streams[first:first+of.Count]))
			first += of.Count
		}
		r.Streams = &all
	}
	if t.spent > 0 {
		r.Wasted = 1 - float64(t.useful)/float64(t.spent)
	}
	var batches, batched int64
	for i := range a.nodes {
		n := &a.nodes[i]
		m := &n.tally
		batches, batched = batches+m.batches, batched+m.batched
		r.Modules = append(r.Modules, ModuleResult{
			Module: n.Module, Items: m.items, Completed: m.completed, Late: m.late, Dropped: m.dropped, Refused: m.refused,
			Withdrawn: m.withdrawn, Rate: float64(m.items) / seconds, Latency: m.latency.Percentiles(),
			MeanBatch: mean(m.batched, m.batches), Batches: m.batches, Budget: n.Budget, Behind: m.behind,
		})
	}
	r.MeanBatch = mean(batched, batches)
	return r
}

// resultOf is what so many streams of a kind attain.
func resultOf(kind string, streams []streamTally) StreamResult {
	r := StreamResult{Kind: kind, Count: len(streams), Worst: 1, Median: 1}
	var shares []float64
	for _, s := range streams {
		if s.requests > 0 {
			shares = append(shares, float64(s.completed)/float64(s.requests))
		}
	}
	if slices.Sort(shares); len(shares) > 0 {
		r.Worst, r.Median = shares[0], shares[(len(shares)-1)/2]
	}
	return r
}

func mean(sum, n int64) float64 {
	if n == 0 {
		return 0
	}
	return float64(sum) / float64(n)
}

// tally counts what becomes of the requests of a pipeline.
type tally struct {
	begin   Time
	perTime float64 // slices of time for each nanosecond

	failures
	requests, completed, late int64
	spent, useful             Time // of devices by items; by those of requests that were in time
	latency                   histogram.Histogram
	good, total               [2 * slicesOfTime]int64 // half of them without a test
	folds                     bool                    // two slices become one where more have passed than there are

	streams []streamTally      // those of each kind together
	kinds   []pipelines.Stream // of several how many there are of each
}

// streamTally counts the frames of one stream.
type streamTally struct{ requests, completed int64 }

func newTally(begin, end Time) tally {
	return tally{begin: begin, perTime: slicesOfTime / float64(max(1, end-begin))}
}

func (t *tally) slice(arrival Time) int {
	i := int(float64(arrival-t.begin) * t.perTime)
	if !t.folds {
		return min(slicesOfTime-1, i)
	}
	for i >= len(t.total) {
		t.fold()
		i /= 2
	}
	return i
}

func (t *tally) arrive(arrival Time, stream int32) {
	t.requests++
	if int(stream) < len(t.streams) {
		t.streams[stream].requests++
	}
	t.total[t.slice(arrival)]++
}

// answer counts a request that is answered, and reports whether it is in time.
func (t *tally) answer(arrival, took, slo Time, stream int32) bool {
	t.latency.Add(took)
	if took > slo {
		t.late++
		return false
	}
	t.completed++
	if int(stream) < len(t.streams) {
		t.streams[stream].completed++
	}
	t.good[t.slice(arrival)]++
	return true
}

// moduleTally counts what becomes of the items of a module.
type moduleTally struct {
	failures
	items, completed, late, withdrawn int64
	batches, batched                  int64
	latency                           histogram.Histogram
	behind                            time.Duration // the most that an item left after its budget
}

func (t *moduleTally) complete(took, behind Time, inTime bool) {
	t.latency.Add(took)
	t.behind = max(t.behind, behind)
	if inTime {
		t.completed++
	} else {
		t.late++
	}
}

// failures are requests or items that a policy has dropped.
type failures struct{ dropped, refused int64 }

func (f *failures) fail(reason dispatch.Reason) {
	if reason == dispatch.Full {
		f.refused++
	} else {
		f.dropped++
	}
}

// Describe writes the result for people: for each pipeline what became of its
// requests and a line a module, and how busy the devices were.
func (r Result) Describe() string {
	var b strings.Builder
	for i, p := range r.Pipelines {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(p.Describe())
	}
	if len(r.Devices) > 0 {
		b.WriteString("\n" + r.describeDevices())
	}
	return b.String()
}

// Describe writes what became of the requests of the pipeline.
func (p PipelineResult) Describe() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d requests at %s/s, %s, dispatch %s, seed %d\n", p.Pipeline, p.Requests, quantity.Number(p.Rate), p.Arrivals, p.Dispatch, p.Seed)
	fmt.Fprintf(&b, "%s in time (%s to %s with %.0f %% confidence): %d completed, %d late, %d dropped, %d refused\n",
		quantity.Percent(p.Attainment), quantity.Percent(p.Interval.Low), quantity.Percent(p.Interval.High), 100*p.Interval.Confidence, p.Completed, p.Late, p.Dropped, p.Refused)
	fmt.Fprintf(&b, "latency p50 %s, p99 %s, max %s of %s; mean batch %s on %s, %s of the time used\n",
		quantity.Duration(p.Latency.P50), quantity.Duration(p.Latency.P99), quantity.Duration(p.Latency.Max), quantity.Duration(p.SLO), quantity.Number(p.MeanBatch), quantity.Count(p.Devices, "device"), quantity.Percent(p.Utilisation))
	if s := p.Streams; s != nil {
		b.WriteString(s.Describe())
	}
	if p.Goodput != nil {
		b.WriteString(p.Goodput.Describe())
	}
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "module\trate/s\tin time\tlate\tdropped\trefused\twithdrawn\tmean batch\tp50\tp99\tmax\tbudget\t")
	for _, m := range p.Modules {
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t%s\t%s\t%s\t%s\t%s\t\n", m.Module, quantity.Number(m.Rate), m.Completed, m.Late, m.Dropped,
			m.Refused, m.Withdrawn, quantity.Number(m.MeanBatch), quantity.Duration(m.Latency.P50), quantity.Duration(m.Latency.P99), quantity.Duration(m.Latency.Max), quantity.Duration(m.Budget))
	}
	_ = w.Flush() // a strings.Builder takes everything
	return b.String()
}

// mostListed is how many devices are listed one by one.
const mostListed = 16

func (r Result) describeDevices() string {
	var b strings.Builder
	if len(r.Devices) > mostListed {
		low, high, sum := 1.0, 0.0, 0.0
		for _, d := range r.Devices {
			low, high, sum = min(low, d.Utilisation), max(high, d.Utilisation), sum+d.Utilisation
		}
		fmt.Fprintf(&b, "%d devices, %s of their time used, from %s to %s\n", len(r.Devices), quantity.Percent(sum/float64(len(r.Devices))), quantity.Percent(low), quantity.Percent(high))
		return b.String()
	}
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "device\tused\tbatches\t")
	for _, d := range r.Devices {
		fmt.Fprintf(w, "%s\t%s\t%d\t\n", d.Device, quantity.Percent(d.Utilisation), d.Batches)
	}
	_ = w.Flush()
	return b.String()
}

// Describe reports what was found, and how sure that is.
func (g Goodput) Describe() string {
	above := g.Above.Worst()
	if g.Rate == 0 {
		return fmt.Sprintf("goodput: none; even at %s/s only %s are in time%s\n", quantity.Number(g.Above.Rate), quantity.Percent(above.Attainment), g.Above.whose())
	}
	at := g.At.Worst()
	text := fmt.Sprintf("goodput %s/s, where %s are in time (%s to %s)%s",
		quantity.Number(g.Rate), quantity.Percent(at.Attainment), quantity.Percent(at.Interval.Low), quantity.Percent(at.Interval.High), g.At.whose())
	if g.Above.Rate > 0 {
		text += fmt.Sprintf("; at %s/s %s are%s", quantity.Number(g.Above.Rate), quantity.Percent(above.Attainment), g.Above.whose())
	}
	if g.Seeds > 1 {
		text += fmt.Sprintf("; %d seeds", g.Seeds)
	}
	return text + "\n"
}

// whose is the pipeline that attains least, where there are several.
func (p Probe) whose() string {
	if len(p.Models) < 2 {
		return ""
	}
	return fmt.Sprintf(" of %s, the least of %d", p.Worst().Pipeline, len(p.Models))
}

// MarshalJSON writes the fixed field names of the contract: times are milliseconds as
// numbers, rates requests per second.
func (p PipelineResult) MarshalJSON() ([]byte, error) {
	derived := []quantity.Derived{{After: "wasted", Tag: "latency_ms", Value: p.Latency.MS()}}
	if p.Goodput != nil {
		derived = append(derived, quantity.Derived{After: "attainment_interval", Tag: "goodput_rate", Value: p.Goodput.Rate})
	}
	return quantity.Marshal(p, derived...)
}

// MarshalJSON writes the fixed field names of the contract.
func (m ModuleResult) MarshalJSON() ([]byte, error) {
	return quantity.Marshal(m, quantity.Derived{After: "budget_ms", Tag: "latency_ms", Value: m.Latency.MS()})
}

// MarshalJSON writes what was attained at the goodput, and at the least rate above it that
// is not sustained.
func (g Goodput) MarshalJSON() ([]byte, error) {
	at := g.At.Worst()
	return json.Marshal(struct {
		Attainment      float64  `json:"attainment"`
		Interval        Interval `json:"attainment_interval"`
		NotSustained    float64  `json:"not_sustained_rate"`
		NotSustainedHas float64  `json:"not_sustained_attainment"`
		Tolerance       float64  `json:"tolerance"`
		Seeds           int      `json:"seeds"`
	}{
		Attainment: at.Attainment, Interval: at.Interval, NotSustained: g.Above.Rate, NotSustainedHas: g.Above.Worst().Attainment,
		Tolerance: g.Tolerance, Seeds: g.Seeds,
	})
}

// traceEvent is one event of the Trace Event Format of Chrome: "X" is a span,
// "M" names a process or thread. Times are in microseconds.
type traceEvent struct {
	Name  string         `json:"name"`
	Phase string         `json:"ph"`
	PID   int            `json:"pid"`
	TID   int            `json:"tid"`
	TS    float64        `json:"ts"`
	Dur   float64        `json:"dur,omitempty"`
	Cat   string         `json:"cat,omitempty"`
	Args  map[string]any `json:"args,omitempty"`
}

// TraceEvents writes batches as a JSON file that chrome://tracing and
// ui.perfetto.dev open: a track for each device, a span for each batch with its
// size and how long the oldest of it had waited.
func TraceEvents(r Result, batches []Batch) []byte {
	events := make([]traceEvent, 0, len(batches)+len(r.Devices)+1)
	events = append(events, traceEvent{Name: "process_name", Phase: "M", Args: map[string]any{"name": "harpagon simulate"}})
	for i, d := range r.Devices {
		events = append(events, traceEvent{Name: "thread_name", Phase: "M", TID: i, Args: map[string]any{"name": d.Device}})
	}
	for _, b := range batches {
		events = append(events, traceEvent{
			Name: b.Module, Phase: "X", TID: b.Device, Cat: b.Pipeline, TS: micros(b.Begin), Dur: micros(b.End - b.Begin),
			Args: map[string]any{"batch": b.Size, "pipeline": b.Pipeline, "waited_ms": quantity.MS(b.Begin - b.Oldest)},
		})
	}
	text, err := json.Marshal(map[string]any{"traceEvents": events, "displayTimeUnit": "ms"})
	if err != nil { // names and finite numbers can be written
		return nil
	}
	return text
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
