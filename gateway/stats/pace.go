package stats

import (
	"cmp"
	"slices"
	"time"

	"github.com/harpagon/harpagon/scheduler/autoscale"
	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// paceRuns is how many batches of a size are looked back on.
const paceRuns = 64

// paceSizes bounds the sizes that measures tell of: those with most requests.
const paceSizes = 16

type paceKey struct {
	hardware string
	size     int // requests
}

// pace is how long the latest batches of one size took in their engines.
type pace struct {
	took [paceRuns]time.Duration
	at   [paceRuns]dispatch.Time
	n    int // batches since the beginning
}

func (p *pace) add(now dispatch.Time, took time.Duration) {
	i := p.n % paceRuns
	p.took[i], p.at[i] = took, now
	p.n++
}

func (s *Module) pace(hardware string, size int) *pace {
	key := paceKey{hardware, size}
	p := s.paces[key]
	if p == nil {
		if s.paces == nil {
			s.paces = make(map[paceKey]*pace)
		}
		p = new(pace)
		s.paces[key] = p
	}
	return p
}

// durations tells of the batches that ended after since.
func (s *Module) durations(since dispatch.Time) []autoscale.BatchDuration {
	var all []autoscale.BatchDuration
	for key, p := range s.paces {
		var runs []time.Duration
		for i := range min(p.n, paceRuns) {
			if p.at[i] >= since {
				runs = append(runs, p.took[i])
			}
		}
		if len(runs) == 0 {
			continue
		}
		slices.Sort(runs)
		rank := func(q float64) time.Duration { return runs[int(q*float64(len(runs)-1)+0.5)] }
		all = append(all, autoscale.BatchDuration{
			Hardware: key.hardware, Size: key.size, Batches: int64(len(runs)), P50: rank(0.50), P95: rank(0.95),
		})
	}
	requests := func(d autoscale.BatchDuration) int64 { return d.Batches * int64(d.Size) }
	slices.SortFunc(all, func(a, b autoscale.BatchDuration) int {
		return cmp.Or(cmp.Compare(requests(b), requests(a)), cmp.Compare(a.Hardware, b.Hardware), cmp.Compare(a.Size, b.Size))
	})
	all = all[:min(len(all), paceSizes)]
	slices.SortFunc(all, func(a, b autoscale.BatchDuration) int {
		return cmp.Or(cmp.Compare(a.Hardware, b.Hardware), cmp.Compare(a.Size, b.Size))
	})
	return all
}
