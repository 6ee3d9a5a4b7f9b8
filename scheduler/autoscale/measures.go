package autoscale

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/histogram"
	"github.com/harpagon/harpagon/scheduler/autoscale/size"
	"github.com/harpagon/harpagon/scheduler/dispatch/admission"
	"github.com/harpagon/harpagon/scheduler/functions"
	"github.com/harpagon/harpagon/scheduler/rollout"
)

// Measures is what a gateway saw of one service between From and To. Rates
// are requests per second; counts are of requests whose outcome fell into the
// span. Requests in flight at To appear in no outcome yet.
//
// The struct is plain data that survives JSON; durations travel as
// nanoseconds.
type Measures struct {
	Pipeline   string         `json:"pipeline"`          // name of the service
	Gateway    string         `json:"gateway,omitempty"` // that saw it; empty of several together
	Kind       pipelines.Kind `json:"kind,omitempty"`    // empty means a pipeline
	Generation int            `json:"generation"`        // of the deployment that served at To
	From       time.Time      `json:"from"`
	To         time.Time      `json:"to"`

	Offered  float64 `json:"offered_rate"` // requests per second that arrived, refused ones included
	Arrived  int64   `json:"arrived"`      // requests that arrived within the span
	InFlight int64   `json:"in_flight"`    // accepted and without outcome at To

	Completed int64 `json:"completed"` // answered within the deadline
	Late      int64 `json:"late"`      // answered after the deadline
	Dropped   int64 `json:"dropped"`   // accepted, then given up because the deadline could no longer be met
	Refused   int64 `json:"refused"`   // refused on arrival
	Failed    int64 `json:"failed"`    // ended by an error of engine, executor or gateway
	Cancelled int64 `json:"cancelled"` // the caller went away; counted in no attainment

	// Invalid requests were wrong in themselves, which is their callers' mistake:
	// refused on arrival, where they do not count as Arrived either, or by an
	// engine. They are counted in no attainment.
	Invalid int64 `json:"invalid,omitempty"`

	// Attainment is the share of outcomes that came within the deadline; it is
	// 1 where there was none. SetAttainment computes it.
	Attainment float64 `json:"attainment"`

	Latency Percentiles      `json:"latency"`        // end to end, of answered requests
	Gaps    *Gaps            `json:"gaps,omitempty"` // how unevenly requests came; nil where too few have, and of several gateways or services together
	Modules []ModuleMeasures `json:"modules,omitempty"`

	// Function is set where a function is served: its applications, each with its
	// own rate and objective, and the calls and the money of its groups.
	Function *functions.Measures `json:"function,omitempty"`

	// Members are the pipelines of a cluster, each by itself; the rest is their sum
	// then, with the modules under the names that placement.Resident gives them.
	Members []Measures `json:"members,omitempty"`

	// Latest covers only the time since the gateway's last report; nil in its first report.
	Latest *Latest `json:"latest,omitempty"`

	// Canary is set while another generation of a pipeline answers a share of its
	// requests, or is sent them as a shadow; what it sees is not part of the rest.
	Canary *rollout.Seen `json:"canary,omitempty"`

	// Streams are those of a pipeline whose requests are frames; nil for any other.
	Streams *admission.StreamShares `json:"streams,omitempty"`

	// Tried is what the modules of that generation saw.
	Tried []ModuleMeasures `json:"tried,omitempty"`
}

// SumMembers makes the measures of a cluster those of its members together.
func (m *Measures) SumMembers() {
	sum := MergeMeasures(named(m.Members)...)
	sum.Pipeline, sum.Gateway, sum.Kind, sum.Generation, sum.Members = m.Pipeline, m.Gateway, pipelines.KindCluster, m.Generation, m.Members
	if len(m.Members) == 0 {
		sum.From, sum.To, sum.Attainment = m.To, m.To, 1
	}
	*m = sum
}

// named returns the members with module names that are unique across them.
func named(members []Measures) []Measures {
	all := slices.Clone(members)
	for i := range all {
		all[i].Modules = slices.Clone(all[i].Modules)
		for k := range all[i].Modules {
			all[i].Modules[k].Name = members[i].Pipeline + "/" + members[i].Modules[k].Name
		}
	}
	return all
}

// ModuleMeasures is the share of one module in Measures.
type ModuleMeasures struct {
	Name      string  `json:"name"`
	Policy    string  `json:"policy,omitempty"` // that dispatched at To
	Rate      float64 `json:"rate"`             // requests per second that reached the module, fan-out included
	Requests  int64   `json:"requests"`
	Batches   int64   `json:"batches"`
	MeanBatch float64 `json:"mean_batch"` // requests per batch; 0 where there was none
	Dropped   int64   `json:"dropped"`
	Failed    int64   `json:"failed"`
	Waiting   int     `json:"waiting"` // requests in queue and open batches at To

	// Queries counts the queries that came to a pool by their size, smallest
	// first; large pools round sizes up.
	Queries []QueryCount `json:"queries,omitempty"`

	// Items counts how often an item above was split into so many for this module, fewest first;
	// large numbers are rounded up.
	Items []ItemCount `json:"items,omitempty"`

	// Sizes counts the batches by size, smallest first. Drops counts what
	// makes up Dropped by reason.
	Sizes []SizeCount      `json:"sizes,omitempty"`
	Drops map[string]int64 `json:"drops,omitempty"`

	// Failure is what a batch of the module failed of, of the last minute; empty for
	// nothing. Failed counts the requests.
	Failure string `json:"failure,omitempty"`

	// The four stages of a request at a module; they add up to its stay.
	Queue    Percentiles `json:"queue"`    // batch complete, waiting for an executor
	Wait     Percentiles `json:"wait"`     // waiting while the batch is collected
	Compute  Percentiles `json:"compute"`  // in the engine
	Transfer Percentiles `json:"transfer"` // between gateway and executor and back

	Executors []ExecutorMeasures `json:"executors,omitempty"`

	// Durations states how long batches took in their engines, by hardware and size; empty
	// for pools.
	Durations []BatchDuration `json:"durations,omitempty"`

	// Transfers states how long batches were between gateway and executor and back, by the
	// executor's host.
	Transfers []HostTransfer `json:"transfers,omitempty"`
}

// DescribeDrops reports how many requests the module gave up, by reason where the gateway
// reports reasons.
func (m *ModuleMeasures) DescribeDrops() string {
	if m.Dropped == 0 {
		return "0"
	}
	var parts []string
	for _, reason := range slices.Sorted(maps.Keys(m.Drops)) {
		parts = append(parts, fmt.Sprintf("%d %s", m.Drops[reason], reason))
	}
	if len(parts) == 0 {
		return fmt.Sprint(m.Dropped)
	}
	return strings.Join(parts, ", ")
}

// BatchDuration is how long the latest batches of one size took on one kind of
// hardware.
type BatchDuration struct {
	Hardware string        `json:"hardware"`
	Size     int           `json:"size"`    // requests
	Batches  int64         `json:"batches"` // that it rests on, at most a few dozen
	P50      time.Duration `json:"p50_ns"`
	P95      time.Duration `json:"p95_ns"`

	// Concurrency is how many batches their executors run at a time, where it is more than 1.
	Concurrency int `json:"concurrency,omitempty"`
}

// HostTransfer is how long the latest batches for executors on one host were on their
// way there and back.
type HostTransfer struct {
	Host    string        `json:"host"`
	Batches int64         `json:"batches"` // that it rests on, at most a few dozen
	P50     time.Duration `json:"p50_ns"`
	P99     time.Duration `json:"p99_ns"`
}

// The reasons for which a module gives a request up.
const (
	DropLate       = "late"          // its deadline could no longer be met
	DropFull       = "full"          // the queue was at its bound
	DropLost       = "executor lost" // its executor went, and there was no time left for another
	DropNoExecutor = "no executor"   // there was none to run it
)

// SizeCount is how many batches had a size.
type SizeCount struct {
	Size    int   `json:"size"` // requests
	Batches int64 `json:"batches"`
}

// ItemCount is how often something was split into so many items.
type ItemCount struct {
	Items int   `json:"items"`
	Times int64 `json:"times"`
}

// QueryCount is how many queries had a size.
type QueryCount struct {
	Size    int   `json:"size"` // items
	Queries int64 `json:"queries"`
}

// ExecutorMeasures is the share of one executor in ModuleMeasures.
type ExecutorMeasures struct {
	Executor    string  `json:"executor"` // placement.Slot.Executor
	Batches     int64   `json:"batches"`
	Requests    int64   `json:"requests"`
	Utilisation float64 `json:"utilisation"` // share of the span spent in its engine, 0..1
}

// Latest is what was counted last.
type Latest = size.Latest

// together are the latest of two gateways: the counts of the earlier are taken to go on.
func together(a, b *Latest) *Latest {
	if a == nil || b == nil {
		return cmp.Or(a, b)
	}
	if b.To.After(a.To) {
		a, b = b, a
	}
	sum, scale := *a, a.To.Sub(a.From).Seconds()/max(b.To.Sub(b.From).Seconds(), 1e-3)
	part := func(n int64) int64 { return int64(math.Round(scale * float64(n))) }
	sum.Counts = sum.Add(size.Counts{Arrived: part(b.Arrived), Ended: part(b.Ended), Lost: part(b.Lost)})
	return &sum
}

// Percentiles of a duration. All are zero where nothing was measured.
type Percentiles = histogram.Percentiles

// Span is the time that the measures cover; never negative.
func (m Measures) Span() time.Duration {
	return max(0, m.To.Sub(m.From))
}

// since is when the part of the measures that comes after an instant begins, and
// how long it is: 0 where they end before it.
func (m Measures) since(last time.Time) (begin time.Time, fresh time.Duration) {
	begin = m.From
	if begin.Before(last) {
		begin = last
	}
	return begin, max(0, m.To.Sub(begin))
}

// Outcomes is the number of requests that attainment is a share of: all that
// ended, except those whose caller went away or was mistaken.
func (m Measures) Outcomes() int64 {
	return m.Completed + m.Late + m.Dropped + m.Refused + m.Failed
}

// SetAttainment computes Attainment from the counts.
func (m *Measures) SetAttainment() {
	m.Attainment = 1
	if n := m.Outcomes(); n > 0 {
		m.Attainment = float64(m.Completed) / float64(n)
	}
}

// Module returns the measures of the module of that name, or nil. The pointer
// is into m.
func (m *Measures) Module(name string) *ModuleMeasures {
	for i := range m.Modules {
		if m.Modules[i].Name == name {
			return &m.Modules[i]
		}
	}
	return nil
}

// OfCluster is what the measures show of a cluster that has so many devices. The bad
// rate is that of the pipeline with most, since every one of them was promised its
// attainment.
func (m Measures) OfCluster(devices int) size.Measures {
	c := size.Measures{End: m.To, Span: m.To.Sub(m.From), Rate: m.Offered, Devices: devices}
	for _, one := range m.Members {
		c.Bad = max(c.Bad, size.BadRate(one.Outcomes(), one.Outcomes()-one.Completed))
	}
	busy := 0.0
	for i := range m.Modules {
		for _, e := range m.Modules[i].Executors {
			busy += e.Utilisation
		}
	}
	if devices > 0 {
		c.Idle = max(0, 1-busy/float64(devices))
	}
	return c
}

// MergeMeasures is what several gateways saw of one service at about the same time. Counts and
// rates add up. Of a duration, the median is the mean of the medians, weighted by how
// many it rests on; higher percentiles are those of the gateway where they are worst,
// which is no less than that of all. The sum of none is the zero Measures.
func MergeMeasures(all ...Measures) Measures {
	if len(all) == 0 {
		return Measures{}
	}
	sum := all[0]
	sum.Modules, sum.Tried, sum.Members = cloned(sum.Modules), cloned(sum.Tried), slices.Clone(sum.Members)
	for _, m := range all[1:] {
		add(&sum, m)
	}
	sum.SetAttainment()
	return sum
}

func add(sum *Measures, m Measures) {
	sum.Gateway = ""
	switch { // gaps within parts of a stream are not those of the whole
	case sum.Arrived == 0:
		sum.Gaps = m.Gaps
	case m.Arrived > 0:
		sum.Gaps = nil
	}
	sum.Latest = together(sum.Latest, m.Latest)
	sum.Latency = worst(sum.Latency, m.Latency, sum.Completed+sum.Late, m.Completed+m.Late)
	sum.Generation = max(sum.Generation, m.Generation)
	if m.From.Before(sum.From) {
		sum.From = m.From
	}
	if m.To.After(sum.To) {
		sum.To = m.To
	}
	sum.Offered += m.Offered
	sum.Arrived += m.Arrived
	sum.InFlight += m.InFlight
	sum.Completed += m.Completed
	sum.Late += m.Late
	sum.Dropped += m.Dropped
	sum.Refused += m.Refused
	sum.Failed += m.Failed
	sum.Cancelled += m.Cancelled
	sum.Invalid += m.Invalid
	switch {
	case m.Canary == nil:
	case sum.Canary == nil || sum.Canary.Generation < m.Canary.Generation:
		sum.Canary = m.Canary
	case sum.Canary.Generation == m.Canary.Generation:
		both := sum.Canary.Add(*m.Canary)
		sum.Canary = &both
	}
	switch {
	case sum.Streams == nil:
		sum.Streams = m.Streams
	case m.Streams != nil:
		both := sum.Streams.Add(*m.Streams)
		sum.Streams = &both
	}
	addModules(&sum.Modules, m.Modules)
	addModules(&sum.Tried, m.Tried)
	for _, member := range m.Members {
		i := slices.IndexFunc(sum.Members, func(o Measures) bool { return o.Pipeline == member.Pipeline })
		if i < 0 {
			sum.Members = append(sum.Members, member)
			continue
		}
		sum.Members[i] = MergeMeasures(sum.Members[i], member)
	}
	switch {
	case sum.Function == nil:
		sum.Function = m.Function
	case m.Function != nil:
		f := functions.MergeMeasures(*sum.Function, *m.Function)
		sum.Function = &f
	}
}

func cloned(modules []ModuleMeasures) []ModuleMeasures {
	modules = slices.Clone(modules)
	for i := range modules {
		modules[i].Drops = maps.Clone(modules[i].Drops)
	}
	return modules
}

func addModules(sum *[]ModuleMeasures, all []ModuleMeasures) {
	for _, m := range all {
		if i := slices.IndexFunc(*sum, func(o ModuleMeasures) bool { return o.Name == m.Name }); i >= 0 {
			(*sum)[i].add(m)
		} else {
			*sum = append(*sum, m)
		}
	}
}

func (m *ModuleMeasures) add(o ModuleMeasures) {
	m.Queue = worst(m.Queue, o.Queue, m.Requests, o.Requests)
	m.Wait = worst(m.Wait, o.Wait, m.Requests, o.Requests)
	m.Compute = worst(m.Compute, o.Compute, m.Requests, o.Requests)
	m.Transfer = worst(m.Transfer, o.Transfer, m.Requests, o.Requests)
	if n := m.Batches + o.Batches; n > 0 {
		m.MeanBatch = (m.MeanBatch*float64(m.Batches) + o.MeanBatch*float64(o.Batches)) / float64(n)
	}
	m.Rate += o.Rate
	m.Requests += o.Requests
	m.Batches += o.Batches
	m.Dropped += o.Dropped
	m.Failed += o.Failed
	m.Failure = cmp.Or(m.Failure, o.Failure)
	m.Waiting += o.Waiting
	for reason, n := range o.Drops {
		if m.Drops == nil {
			m.Drops = map[string]int64{}
		}
		m.Drops[reason] += n
	}
	m.Queries = merge(m.Queries, o.Queries, func(a, b QueryCount) int { return cmp.Compare(a.Size, b.Size) },
		func(a, b QueryCount) QueryCount { return QueryCount{Size: a.Size, Queries: a.Queries + b.Queries} })
	m.Items = merge(m.Items, o.Items, func(a, b ItemCount) int { return cmp.Compare(a.Items, b.Items) },
		func(a, b ItemCount) ItemCount { return ItemCount{Items: a.Items, Times: a.Times + b.Times} })
	m.Sizes = merge(m.Sizes, o.Sizes, func(a, b SizeCount) int { return cmp.Compare(a.Size, b.Size) },
		func(a, b SizeCount) SizeCount { return SizeCount{Size: a.Size, Batches: a.Batches + b.Batches} })
	m.Executors = merge(m.Executors, o.Executors, func(a, b ExecutorMeasures) int { return cmp.Compare(a.Executor, b.Executor) },
		func(a, b ExecutorMeasures) ExecutorMeasures {
			return ExecutorMeasures{Executor: a.Executor, Batches: a.Batches + b.Batches, Requests: a.Requests + b.Requests, Utilisation: a.Utilisation + b.Utilisation}
		})
	m.Durations = merge(m.Durations, o.Durations, func(a, b BatchDuration) int {
		return cmp.Or(cmp.Compare(a.Hardware, b.Hardware), cmp.Compare(a.Size, b.Size), cmp.Compare(a.Concurrency, b.Concurrency))
	}, func(a, b BatchDuration) BatchDuration {
		return BatchDuration{Hardware: a.Hardware, Size: a.Size, Batches: a.Batches + b.Batches, P50: mean(a.P50, b.P50, a.Batches, b.Batches), P95: max(a.P95, b.P95), Concurrency: a.Concurrency}
	})
	m.Transfers = merge(m.Transfers, o.Transfers, func(a, b HostTransfer) int { return cmp.Compare(a.Host, b.Host) },
		func(a, b HostTransfer) HostTransfer {
			return HostTransfer{Host: a.Host, Batches: a.Batches + b.Batches, P50: mean(a.P50, b.P50, a.Batches, b.Batches), P99: max(a.P99, b.P99)}
		})
}

// merge joins two lists into one in order, of which equal elements are joined.
func merge[T any](a, b []T, compare func(T, T) int, join func(T, T) T) []T {
	if len(b) == 0 {
		return a
	}
	all := slices.Concat(a, b)
	slices.SortStableFunc(all, compare)
	out := all[:0]
	for _, one := range all {
		if n := len(out); n > 0 && compare(out[n-1], one) == 0 {
			out[n-1] = join(out[n-1], one)
		} else {
			out = append(out, one)
		}
	}
	return out
}

func worst(a, b Percentiles, n, m int64) Percentiles {
	return Percentiles{P50: mean(a.P50, b.P50, n, m), P90: max(a.P90, b.P90), P99: max(a.P99, b.P99), Max: max(a.Max, b.Max)}
}

// mean weighs two durations by how many each rests on.
func mean(a, b time.Duration, n, m int64) time.Duration {
	if n+m == 0 {
		return max(a, b)
	}
	return time.Duration((float64(a)*float64(n) + float64(b)*float64(m)) / float64(n+m))
}
