package dispatcher

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/harpagon/harpagon/pipelines/histogram"
	"github.com/harpagon/harpagon/scheduler/autoscale"
	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// moduleStats counts the items and batches of a module. Its owner's lock guards it.
type moduleStats struct {
	since dispatch.Time
	ring  ring[moduleSecond]
	runs  map[runKey]*runs

	transfers map[string]*runs // by host
}

type moduleSecond struct {
	requests, batches, batched, failed int64
	queue, wait, compute, transfer     histogram.Histogram
	executors                          []executorSecond
	sizes                              []tallied[int]    // batches by size
	drops                              []tallied[string] // items by reason
	queries                            []tallied[int]    // of a pool, as they came, by size
}

func (s *moduleSecond) reset() {
	for _, h := range []*histogram.Histogram{&s.queue, &s.wait, &s.compute, &s.transfer} {
		h.Reset(histogram.Coarse)
	}
	*s = moduleSecond{
		queue: s.queue, wait: s.wait, compute: s.compute, transfer: s.transfer,
		executors: s.executors[:0], sizes: s.sizes[:0], drops: s.drops[:0], queries: s.queries[:0],
	}
}

// tallied is a count of one of a few kinds.
type tallied[K comparable] struct {
	kind K
	n    int64
}

func tallyUp[K comparable](all []tallied[K], kind K, n int64) []tallied[K] {
	for i := range all {
		if all[i].kind == kind {
			all[i].n += n
			return all
		}
	}
	return append(all, tallied[K]{kind, n})
}

type executorSecond struct {
	name              string
	batches, requests int64
	compute           time.Duration
}

// Init begins to count at now. Measure looks back on span.
func (s *moduleStats) Init(span time.Duration, now dispatch.Time) {
	s.ring.init(span, (*moduleSecond).reset)
	s.since = now
}

// Arrive counts an item.
func (s *moduleStats) Arrive(now dispatch.Time) { s.ring.at(now).requests++ }

// Query notes the size of a pool's query, whose profile ends at largest.
func (s *moduleStats) Query(now dispatch.Time, size, largest int) {
	second := s.ring.at(now)
	second.queries = tallyUp(second.queries, bucketOfSize(size, largest), 1)
}

// Drop counts an item that was given up, in the words of autoscale.
func (s *moduleStats) Drop(now dispatch.Time, reason string) {
	second := s.ring.at(now)
	second.drops = tallyUp(second.drops, reason, 1)
}

// batchStats is a batch that has come back.
type batchStats struct {
	Executor, Hardware string
	Host               string // of the executor; empty where it is not known
	Concurrency        int    // batches that it runs at a time
	Items              int    // requests, or queries of a pool
	Rows               int    // of all items
	Largest            int    // query of the pool; 0 where items are no queries
	Failed             int
	Compute            time.Duration
	Took               time.Duration // from the decision to start it, with both transfers
	Transfer           time.Duration // between gateway and executor and back
}

// Batch counts one that has come back, and returns the counter for the times of its items: nil
// where it was computed twice or never, whose times are not representative.
func (s *moduleStats) Batch(now dispatch.Time, b batchStats) *StageTimes {
	second := s.ring.at(now)
	second.batches++
	second.batched += int64(b.Rows)
	size := b.Rows
	if b.Largest > 0 {
		size = bucketOfSize(size, b.Largest)
	}
	second.sizes = tallyUp(second.sizes, size, 1)
	e := second.executor(b.Executor)
	e.batches++
	e.requests += int64(b.Items)
	e.compute += b.Compute
	second.failed += int64(b.Failed)
	if b.Failed > 0 {
		return nil
	}
	took := b.Compute
	if b.Largest > 0 {
		took = b.Took // the profile of a pool includes the transfers
	}
	key := runKey{b.Hardware, size, 0}
	if b.Concurrency > 1 {
		key.concurrency = b.Concurrency
	}
	runsOf(&s.runs, key).add(now, took)
	if b.Host != "" {
		runsOf(&s.transfers, b.Host).add(now, b.Transfer)
	}
	return (*StageTimes)(second)
}

// StageTimes adds up where a batch's items spent their time at the module.
type StageTimes moduleSecond

// AddShared counts what is the same for so many items: the time in their engine and in transfer.
func (s *StageTimes) AddShared(items int, compute, transfer time.Duration) {
	s.compute.AddMany(compute, items)
	s.transfer.AddMany(transfer, items)
}

// AddItem counts what an item has spent before it started.
func (s *StageTimes) AddItem(queue, wait time.Duration) {
	s.queue.Add(queue)
	s.wait.Add(wait)
}

func (s *moduleSecond) executor(name string) *executorSecond {
	for i := range s.executors {
		if s.executors[i].name == name {
			return &s.executors[i]
		}
	}
	s.executors = append(s.executors, executorSecond{name: name})
	return &s.executors[len(s.executors)-1]
}

// Measure fills in what was seen lately.
func (s *moduleStats) Measure(now dispatch.Time, m *autoscale.ModuleMeasures) {
	r := &s.ring
	r.advance(now)
	span := min(r.span(now), now-s.since)
	var sum moduleSecond
	sum.reset()
	for i := range r.seconds {
		sum.merge(&r.seconds[i])
	}
	m.Requests, m.Batches, m.Failed = sum.requests, sum.batches, sum.failed
	for _, d := range sum.drops {
		if m.Drops == nil {
			m.Drops = make(map[string]int64, len(sum.drops))
		}
		m.Drops[d.kind] = d.n
		m.Dropped += d.n
	}
	for _, b := range sum.sizes {
		m.Sizes = append(m.Sizes, autoscale.SizeCount{Size: b.kind, Batches: b.n})
	}
	m.Queries = queries(sum.queries)
	slices.SortFunc(m.Sizes, func(a, b autoscale.SizeCount) int { return a.Size - b.Size })
	m.Rate = rate(sum.requests, span)
	if sum.batches > 0 {
		m.MeanBatch = float64(sum.batched) / float64(sum.batches)
	}
	m.Queue, m.Wait = sum.queue.Percentiles(), sum.wait.Percentiles()
	m.Compute, m.Transfer = sum.compute.Percentiles(), sum.transfer.Percentiles()
	m.Durations, m.Transfers = s.durations(now-span), s.transferred(now-span)
	for _, e := range sum.executors {
		m.Executors = append(m.Executors, autoscale.ExecutorMeasures{
			Executor: e.name, Batches: e.batches, Requests: e.requests,
			Utilisation: min(1, e.compute.Seconds()/max(span.Seconds(), 1e-3)),
		})
	}
	slices.SortFunc(m.Executors, func(a, b autoscale.ExecutorMeasures) int {
		return strings.Compare(a.Executor, b.Executor)
	})
}

func (s *moduleSecond) merge(o *moduleSecond) {
	s.requests += o.requests
	s.batches += o.batches
	s.batched += o.batched
	for _, d := range o.drops {
		s.drops = tallyUp(s.drops, d.kind, d.n)
	}
	for _, b := range o.sizes {
		s.sizes = tallyUp(s.sizes, b.kind, b.n)
	}
	for _, q := range o.queries {
		s.queries = tallyUp(s.queries, q.kind, q.n)
	}
	s.failed += o.failed
	s.queue.Merge(&o.queue)
	s.wait.Merge(&o.wait)
	s.compute.Merge(&o.compute)
	s.transfer.Merge(&o.transfer)
	for _, e := range o.executors {
		mine := s.executor(e.name)
		mine.batches += e.batches
		mine.requests += e.requests
		mine.compute += e.compute
	}
}

// sizesKept bounds how many different sizes of queries are distinguished, so that
// a report of them stays small.
const sizesKept = 128

// bucketOfSize is the size that a query counts as: exact for small pools, else
// rounded up to one of sizesKept.
func bucketOfSize(size, largest int) int {
	step := (largest + sizesKept - 1) / sizesKept
	if step <= 1 {
		return size
	}
	return min(largest, (size+step-1)/step*step)
}

// queries are the sizes of the queries that came.
func queries(all []tallied[int]) []autoscale.QueryCount {
	var out []autoscale.QueryCount
	for _, q := range all {
		out = append(out, autoscale.QueryCount{Size: q.kind, Queries: q.n})
	}
	slices.SortFunc(out, func(a, b autoscale.QueryCount) int { return a.Size - b.Size })
	return out
}

// runsKept is how many batches of a size are looked back on.
const runsKept = 64

// sizesReported bounds the sizes in measures to those with most requests.
const sizesReported = 16

type runKey struct {
	hardware string
	size     int // requests

	concurrency int // of the executor, where it is more than 1
}

// runs is how long the latest batches of one size took in their engines.
type runs struct {
	took [runsKept]time.Duration
	at   [runsKept]dispatch.Time
	n    int // batches since the beginning
}

func (p *runs) add(now dispatch.Time, took time.Duration) {
	i := p.n % runsKept
	p.took[i], p.at[i] = took, now
	p.n++
}

// after are those of batches that ended after since, shortest first.
func (p *runs) after(since dispatch.Time) []time.Duration {
	var took []time.Duration
	for i := range min(p.n, runsKept) {
		if p.at[i] >= since {
			took = append(took, p.took[i])
		}
	}
	slices.Sort(took)
	return took
}

// rank is the duration that a share of sorted ones do not exceed.
func rank(took []time.Duration, share float64) time.Duration {
	return took[int(share*float64(len(took)-1)+0.5)]
}

// runsOf finds or makes the runs of a key.
func runsOf[K comparable](all *map[K]*runs, key K) *runs {
	p := (*all)[key]
	if p == nil {
		if *all == nil {
			*all = make(map[K]*runs)
		}
		p = new(runs)
		(*all)[key] = p
	}
	return p
}

// transferred reports how long batches that ended after since were on their way, by host.
func (s *moduleStats) transferred(since dispatch.Time) []autoscale.HostTransfer {
	var all []autoscale.HostTransfer
	for host, p := range s.transfers {
		if took := p.after(since); len(took) > 0 {
			all = append(all, autoscale.HostTransfer{Host: host, Batches: int64(len(took)), P50: rank(took, 0.50), P99: rank(took, 0.99)})
		} else {
			delete(s.transfers, host) // hosts come and go
		}
	}
	slices.SortFunc(all, func(a, b autoscale.HostTransfer) int { return cmp.Compare(a.Host, b.Host) })
	return all
}

// durations returns the durations of batches that ended after since.
func (s *moduleStats) durations(since dispatch.Time) []autoscale.BatchDuration {
	var all []autoscale.BatchDuration
	for key, p := range s.runs {
		took := p.after(since)
		if len(took) == 0 {
			continue
		}
		all = append(all, autoscale.BatchDuration{
			Hardware: key.hardware, Size: key.size, Batches: int64(len(took)), P50: rank(took, 0.50), P95: rank(took, 0.95),
			Concurrency: key.concurrency,
		})
	}
	requests := func(d autoscale.BatchDuration) int64 { return d.Batches * int64(d.Size) }
	slices.SortFunc(all, func(a, b autoscale.BatchDuration) int {
		return cmp.Or(cmp.Compare(requests(b), requests(a)), cmp.Compare(a.Hardware, b.Hardware), cmp.Compare(a.Size, b.Size), cmp.Compare(a.Concurrency, b.Concurrency))
	})
	all = all[:min(len(all), sizesReported)]
	slices.SortFunc(all, func(a, b autoscale.BatchDuration) int {
		return cmp.Or(cmp.Compare(a.Hardware, b.Hardware), cmp.Compare(a.Size, b.Size), cmp.Compare(a.Concurrency, b.Concurrency))
	})
	return all
}
