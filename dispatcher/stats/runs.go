package stats

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

func (s *Module) runsOf(hardware string, size int) *runs {
	key := runKey{hardware, size}
	p := s.runs[key]
	if p == nil {
		if s.runs == nil {
			s.runs = make(map[runKey]*runs)
		}
		p = new(runs)
		s.runs[key] = p
	}
	return p
}

// durations tells of the batches that ended after since.
func (s *Module) durations(since dispatch.Time) []autoscale.BatchDuration {
	var all []autoscale.BatchDuration
	for key, p := range s.runs {
		var took []time.Duration
		for i := range min(p.n, runsKept) {
			if p.at[i] >= since {
				took = append(took, p.took[i])
			}
		}
		if len(took) == 0 {
			continue
		}
		slices.Sort(took)
		rank := func(q float64) time.Duration { return took[int(q*float64(len(took)-1)+0.5)] }
		all = append(all, autoscale.BatchDuration{
			Hardware: key.hardware, Size: key.size, Batches: int64(len(took)), P50: rank(0.50), P95: rank(0.95),
		})
	}
	requests := func(d autoscale.BatchDuration) int64 { return d.Batches * int64(d.Size) }
	slices.SortFunc(all, func(a, b autoscale.BatchDuration) int {
		return cmp.Or(cmp.Compare(requests(b), requests(a)), cmp.Compare(a.Hardware, b.Hardware), cmp.Compare(a.Size, b.Size))
	})
	all = all[:min(len(all), sizesTold)]
	slices.SortFunc(all, func(a, b autoscale.BatchDuration) int {
		return cmp.Or(cmp.Compare(a.Hardware, b.Hardware), cmp.Compare(a.Size, b.Size))
	})
	return all
}
