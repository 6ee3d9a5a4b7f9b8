package dispatcher

import (
	"cmp"
	"slices"
	"time"

	"github.com/harpagon/harpagon/scheduler/autoscale"
	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// runsKept is how many batches of a size are looked back on.
const runsKept = 64

// sizesTold bounds the sizes that measures tell of: those with most requests.
const sizesTold = 16

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

// transferred tells how long batches that ended after since were on their way, by host.
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

// durations tells of the batches that ended after since.
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
	all = all[:min(len(all), sizesTold)]
	slices.SortFunc(all, func(a, b autoscale.BatchDuration) int {
		return cmp.Or(cmp.Compare(a.Hardware, b.Hardware), cmp.Compare(a.Size, b.Size), cmp.Compare(a.Concurrency, b.Concurrency))
	})
	return all
}
