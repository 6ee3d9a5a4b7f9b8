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
	p := slices.Clone(durations[:min(len(durations), dispatch.MaxPoolBatch)])
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
