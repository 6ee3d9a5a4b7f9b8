package load

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/harpagon/harpagon/pipelines/histogram"
	"github.com/harpagon/harpagon/pipelines/quantity"
	"github.com/harpagon/harpagon/wire"
)

// Report is what came of a run. Every counted request is in exactly one of
// Completed, Late and Errors.
type Report struct {
	Pipeline   string            `json:"pipeline"`
	Arrivals   string            `json:"arrivals"`
	Seed       uint64            `json:"seed"`
	SLO        time.Duration     `json:"slo_ms"`
	Offered    float64           `json:"offered_rate"`      // requests per second as configured; 0 with Callers
	Callers    int               `json:"callers,omitempty"` // see Options; 0 where requests came at a rate
	Rate       float64           `json:"good_rate"`         // requests per second answered in time
	Requests   int               `json:"requests"`          // sent
	Unsent     int               `json:"unsent"`            // left out, because the generator was behind its schedule
	Completed  int               `json:"completed"`         // answered within SLO
	Late       int               `json:"late"`              // answered after it
	Errors     map[string]int    `json:"errors"`            // by code
	Reasons    map[string]string `json:"reasons,omitempty"` // text of the first error of each code
	Attainment float64           `json:"attainment"`        // Completed / (Requests + Unsent), without those that were invalid: a mistake of the caller
	Cores      float64           `json:"generator_cores"`   // processors that this process used, on average
	Most       int               `json:"-"`                 // processors that it may use
	Latency    Percentiles       `json:"-"`                 // end to end, of all answers
	Stages     []Stage           `json:"stages"`
	Elapsed    time.Duration     `json:"-"`
}

// Percentiles of a latency.
type Percentiles = histogram.Percentiles

// Stage is one module's part in the answers. A percentile is of that part
// alone, so percentiles do not add up though every request's parts do.
type Stage struct {
	Module    string      `json:"module"`
	Items     float64     `json:"items"` // mean number of the module's requests for one request
	MeanBatch float64     `json:"mean_batch"`
	Total     Percentiles `json:"-"`
	Queue     Percentiles `json:"-"`
	Wait      Percentiles `json:"-"`
	Compute   Percentiles `json:"-"`
	Transfer  Percentiles `json:"-"`
}

type counts struct {
	o        Options
	sent     int
	unsent   int
	answered int
	late     int
	errors   map[string]int
	reasons  map[string]string
	latency  histogram.Histogram
	stages   map[string]*stageCounts
	order    []string
}

type stageCounts struct {
	n, items, batch                       int
	total, queue, wait, compute, transfer histogram.Histogram
}

func newCounts(o Options) *counts {
	return &counts{o: o, errors: map[string]int{}, reasons: map[string]string{}, stages: map[string]*stageCounts{}}
}

func (c *counts) add(latency time.Duration, resp *wire.InferResponse, err error) {
	if err != nil {
		code := code(err)
		if c.errors[code]++; c.errors[code] == 1 {
			c.reasons[code] = reason(err)
		}
		return
	}
	c.answered++
	if latency > c.o.SLO {
		c.late++
	}
	c.latency.Add(latency)
	for _, s := range resp.Stages {
		c.stage(s.Module).add(s)
	}
}

func (c *counts) stage(name string) *stageCounts {
	s, ok := c.stages[name]
	if !ok {
		s = &stageCounts{}
		c.stages[name] = s
		c.order = append(c.order, name)
	}
	return s
}

func (s *stageCounts) add(st wire.Stage) {
	s.items += st.Items
	s.n++
	if st.Items == 0 {
		return
	}
	s.batch += st.Batch
	s.total.Add(st.Queue + st.Wait + st.Compute + st.Transfer)
	s.queue.Add(st.Queue)
	s.wait.Add(st.Wait)
	s.compute.Add(st.Compute)
	s.transfer.Add(st.Transfer)
}

func (c *counts) failed() int {
	n := 0
	for _, k := range c.errors {
		n += k
	}
	return n
}

func (c *counts) report(elapsed time.Duration) *Report {
	r := &Report{
		Pipeline: c.o.Pipeline, Arrivals: c.o.Arrivals.String(), Seed: c.o.Seed, SLO: c.o.SLO,
		Offered: c.o.Rate, Callers: c.o.Callers, Requests: c.sent, Unsent: c.unsent, Completed: c.answered - c.late, Late: c.late,
		Errors: maps.Clone(c.errors), Reasons: maps.Clone(c.reasons), Latency: c.latency.Percentiles(), Elapsed: elapsed,
	}
	if n := c.sent + c.unsent - c.errors[string(wire.CodeInvalid)]; n > 0 {
		r.Attainment = float64(r.Completed) / float64(n)
	}
	if c.o.Duration > 0 {
		r.Rate = float64(r.Completed) / c.o.Duration.Seconds()
	}
	for _, name := range c.order {
		s := c.stages[name]
		stage := Stage{
			Module: name, Items: float64(s.items) / float64(s.n),
			Total: s.total.Percentiles(), Queue: s.queue.Percentiles(), Wait: s.wait.Percentiles(),
			Compute: s.compute.Percentiles(), Transfer: s.transfer.Percentiles(),
		}
		if n := s.total.Count(); n > 0 {
			stage.MeanBatch = float64(s.batch) / float64(n)
		}
		r.Stages = append(r.Stages, stage)
	}
	return r
}

func code(err error) string {
	var e *wire.Error
	if errors.As(err, &e) {
		return string(e.Code)
	}
	return string(wire.CodeUnavailable)
}

// reason is where and why a request failed, without how long it took.
func reason(err error) string {
	var e *wire.Error
	switch {
	case !errors.As(err, &e) || e.Reason == "":
		return err.Error()
	case e.Stage == "":
		return e.Reason
	}
	return "at " + e.Stage + ": " + e.Reason
}

// Describe is the report as text for people.
func (r *Report) Describe() string {
	var b strings.Builder
	how := fmt.Sprintf("offered at %s/s (%s, seed %d)", quantity.Number(r.Offered), r.Arrivals, r.Seed)
	if r.Callers > 0 {
		how = fmt.Sprintf("from %d callers, one after the other from each", r.Callers)
	}
	fmt.Fprintf(&b, "%s: %d requests %s, objective %v\n", r.Pipeline, r.Requests, how, r.SLO)
	fmt.Fprintf(&b, "attainment %.4f: %d in time (%.4g/s), %d late%s\n",
		r.Attainment, r.Completed, r.Rate, r.Late, r.errorText())
	for _, code := range slices.Sorted(maps.Keys(r.Reasons)) {
		fmt.Fprintf(&b, "  the first %s: %s\n", code, r.Reasons[code])
	}
	if r.Unsent > 0 {
		fmt.Fprintf(&b, "the generator fell behind its schedule and left out %d of %d requests, which count as\nnot in time: latencies hold for about %s/s; send from another machine, or less\n",
			r.Unsent, r.Requests+r.Unsent, quantity.Number(r.Offered*float64(r.Requests)/float64(r.Requests+r.Unsent)))
	}
	if r.Limited() {
		fmt.Fprintf(&b, "the generator used %.1f of %s: it may be what limits the rate; send from another\nmachine, or from several\n", r.Cores, quantity.Count(r.Most, "core"))
	}
	b.WriteByte('\n')
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "stage\titems\tbatch\tp50\tp99\tqueue p99\twait p99\tcompute p99\ttransfer p99\t")
	for _, s := range r.Stages {
		fmt.Fprintf(w, "%s\t%.2f\t%.2f\t%s\t%s\t%s\t%s\t%s\t%s\t\n", s.Module, s.Items, s.MeanBatch, quantity.Duration(s.Total.P50), quantity.Duration(s.Total.P99),
			quantity.Duration(s.Queue.P99), quantity.Duration(s.Wait.P99), quantity.Duration(s.Compute.P99), quantity.Duration(s.Transfer.P99))
	}
	fmt.Fprintf(w, "end to end\t\t\t%s\t%s\t\t\t\t\t\n", quantity.Duration(r.Latency.P50), quantity.Duration(r.Latency.P99))
	w.Flush()
	return b.String()
}

// busy is the share of the processors from which on a generator may be what limits a load.
const busy = 0.8

// Limited reports whether the generator may have sent less than the server takes.
func (r *Report) Limited() bool { return r.Most > 0 && r.Cores >= busy*float64(r.Most) }

// Sweep is a table of runs with different numbers of callers.
func Sweep(all []*Report) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "callers\tin time/s\tattainment\tp50\tp90\tp99\tlate\tfailed\t")
	limited := false
	for _, r := range all {
		failed := 0
		for _, n := range r.Errors {
			failed += n
		}
		limited = limited || r.Limited()
		fmt.Fprintf(w, "%d\t%s\t%.4f\t%s\t%s\t%s\t%d\t%d\t\n", r.Callers, quantity.Number(r.Rate), r.Attainment,
			quantity.Duration(r.Latency.P50), quantity.Duration(r.Latency.P90), quantity.Duration(r.Latency.P99), r.Late, failed)
	}
	w.Flush()
	if limited {
		b.WriteString("in some of these the generator used most of its cores, and may be what limits the rate\n")
	}
	return b.String()
}

func (r *Report) errorText() string {
	var b strings.Builder
	for _, code := range slices.Sorted(maps.Keys(r.Errors)) {
		fmt.Fprintf(&b, ", %d %s", r.Errors[code], code)
	}
	return b.String()
}

// MarshalJSON prints times in milliseconds and rates per second, with the field
// names that the simulator uses for the same things.
func (r *Report) MarshalJSON() ([]byte, error) {
	return quantity.Marshal(*r, quantity.Derived{After: "attainment", Tag: "latency_ms", Value: inMS(r.Latency)},
		quantity.Derived{After: "stages", Tag: "elapsed_s", Value: r.Elapsed.Seconds()})
}

// MarshalJSON prints times in milliseconds.
func (s Stage) MarshalJSON() ([]byte, error) {
	const behind = "mean_batch"
	return quantity.Marshal(s, quantity.Derived{After: behind, Tag: "total_ms", Value: inMS(s.Total)}, quantity.Derived{After: behind, Tag: "queue_ms", Value: inMS(s.Queue)},
		quantity.Derived{After: behind, Tag: "wait_ms", Value: inMS(s.Wait)}, quantity.Derived{After: behind, Tag: "compute_ms", Value: inMS(s.Compute)},
		quantity.Derived{After: behind, Tag: "transfer_ms", Value: inMS(s.Transfer)})
}

type latencies struct {
	histogram.MS
	P90 quantity.MS `json:"p90"`
}

func inMS(p Percentiles) latencies { return latencies{MS: p.MS(), P90: quantity.MS(p.P90)} }
