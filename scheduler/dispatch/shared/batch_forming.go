package shared

import (
	"slices"

	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// profile is a table of durations by batch size, not falling: profile[b-1] for
// a batch of b.
type profile []dispatch.Time

// newProfile copies a table, mended: at least one entry, not falling, none
// below one nanosecond.
func newProfile(durations []dispatch.Time) profile {
	p := slices.Clone(durations[:min(len(durations), dispatch.MaxBatch)])
	if len(p) == 0 {
		p = []dispatch.Time{1}
	}
	p[0] = max(1, p[0])
	for i := 1; i < len(p); i++ {
		p[i] = max(p[i], p[i-1])
	}
	return p
}

// of is l(b) for b from 1; beyond the table it goes on along the last step.
func (p profile) of(b int) dispatch.Time {
	if b <= len(p) {
		return p[b-1]
	}
	last := p[len(p)-1]
	if len(p) == 1 {
		return last * dispatch.Time(b)
	}
	return last + dispatch.Time(b-len(p))*(last-p[len(p)-2])
}

// fit is the largest batch that takes no longer than slack; 0 if none does.
func (p profile) fit(slack dispatch.Time) int {
	low, high := 0, len(p)
	for low < high {
		mid := (low + high + 1) / 2
		if p[mid-1] <= slack {
			low = mid
		} else {
			high = mid - 1
		}
	}
	return low
}

// slowest is the longer of two profiles at every size up to the shorter one.
func slowest(p, q profile) profile {
	s := make(profile, min(len(p), len(q)))
	for i := range s {
		s[i] = max(p[i], q[i])
	}
	return s
}

// offer is a chance to run a batch: an executor that is, or will be, free.
type offer struct {
	now   dispatch.Time // a batch sent now has this instant as its start, but for the delay
	free  dispatch.Time // the executor is free from then on
	delay dispatch.Delay
	table profile
	late  dispatch.Time // how much longer batches are away there than elsewhere
}

// begin is the instant at which a batch of b would start.
func (s *offer) begin(b int) dispatch.Time { return max(s.now+s.delay.Of(b), s.free) }

// finish is the instant at which a batch of b would be back.
func (s *offer) finish(b int) dispatch.Time { return s.begin(b) + s.table.of(b) + s.late }

// grow is the largest batch of at least b and at most limit that is done by
// due; b itself is not questioned.
func (s *offer) grow(b, limit int, due dispatch.Time) int {
	limit = min(limit, len(s.table))
	for b < limit && s.finish(b+1) <= due {
		b++
	}
	return b
}

// largest is the largest batch done by due, at most limit; 0 if none is.
func (s *offer) largest(limit int, due dispatch.Time) int {
	low, high := 0, min(limit, len(s.table))
	for low < high {
		mid := (low + high + 1) / 2
		if s.finish(mid) <= due {
			low = mid
		} else {
			high = mid - 1
		}
	}
	return low
}

// cut is a batch to be: give up the first drop requests of the line and run
// the next size of them.
type cut struct {
	drop, size int
}

// whole reports whether all that wait can run as one batch, or as many as a batch may hold,
// which is so most often; cutWindow then forms that one, whatever its target.
func whole(q *line, s *offer) (cut, bool) {
	if q.N == 0 || s.finish(q.N) > q.due(0) {
		return cut{}, false
	}
	return cut{size: min(q.N, len(s.table))}, true
}

// cutWindow forms a batch as Symphony's code does (its window drop): the
// longest end of the line that can run as one batch is found; target of it is
// what the batch should hold; requests before that end are taken in if the
// batch is done by the time they are due; and then the batch grows past the
// target as far as its first request allows. What stands before the batch is
// late for any batch worth running. The size is 0 where nothing can run.
func cutWindow(q *line, s *offer, target int) cut {
	if c, ok := whole(q, s); ok {
		return c
	}
	low, high := 0, q.N // the longest end starts in low..high
	for low < high {
		mid := (low + high) / 2
		if s.finish(q.N-mid) <= q.due(mid) {
			high = mid
		} else {
			low = mid + 1
		}
	}
	size := min(max(1, target), q.N-low, len(s.table))
	if size == 0 {
		return cut{drop: q.N}
	}
	first := min(low, q.first(s.finish(size)))
	return cut{drop: first, size: s.grow(size, q.N-first, q.due(first))}
}

// cutEarly forms a batch as Nexus does (its early drop): the first request
// that allows a whole batch of the target size behind it starts the batch, and
// all before it are given up. A line too short for a window keeps its head.
func cutEarly(q *line, s *offer, target int) cut {
	size := min(max(1, target), len(s.table))
	first := q.first(s.finish(min(size, max(1, q.N))))
	if first+size > q.N { // no whole window is left: what remains, as it is
		first = min(first, max(0, q.N-size))
		return cutHead(q, s, first)
	}
	return cut{drop: first, size: s.grow(size, q.N-first, q.due(first))}
}

// cutHead forms a batch by keeping the head of the line: requests from place
// first on that cannot run even alone are given up, and the batch is as large
// as the first of the others allows (the text of Symphony, section 4.3).
func cutHead(q *line, s *offer, first int) cut {
	if q.N == 0 {
		return cut{}
	}
	first = max(first, q.first(s.finish(1)))
	if first == q.N {
		return cut{drop: q.N}
	}
	return cut{drop: first, size: s.largest(q.N-first, q.due(first))}
}

// staggered is the batch to aim for when n executors take turns: the largest b
// with l(b)·(1 + 1/n) <= budget, where n = rate·l(b)/b executors are needed to
// keep up, at least 1. A batch that even one executor has time to wait for is
// bounded by its collection instead: l(b) + b/rate <= budget (Symphony,
// section 4.2, equations 2 and 3, as its code solves them). The delay of the
// batch counts as part of its duration. At least 1.
func staggered(table profile, delay dispatch.Delay, budget dispatch.Time, rate float64) int {
	low, high := 1, len(table)
	for low < high {
		b := (low + high + 1) / 2
		l := float64(table[b-1])
		need := rate * l / 1e9 / float64(b)
		wait := l / need
		if need <= 1 {
			wait = float64(b) / rate * 1e9
		}
		if l+float64(delay.Of(b))+wait <= float64(budget) {
			low = b
		} else {
			high = b - 1
		}
	}
	return low
}

// half is the batch to aim for before a rate is known: l(b) <= budget/2.
func half(table profile, delay dispatch.Delay, budget dispatch.Time) int {
	return max(1, table.fit(budget/2-delay.Control))
}

// held is the batch that a model collects when it is held back as long as its
// deadline allows: the b with l(b) + (b-1)/rate = budget, between whole numbers
// by the chord of the profile. At least 1.
func held(table profile, delay dispatch.Delay, budget dispatch.Time, rate float64) float64 {
	over := func(b int) float64 { // how far b exceeds the budget
		return float64(table.of(b)) + float64(delay.Of(b)) + float64(b-1)/rate*1e9 - float64(budget)
	}
	low, high := 1, len(table)
	for low < high {
		b := (low + high + 1) / 2
		if over(b) <= 0 {
			low = b
		} else {
			high = b - 1
		}
	}
	below := over(low)
	if low == len(table) || below >= 0 {
		return float64(low)
	}
	return float64(low) + below/(below-over(low+1))
}
