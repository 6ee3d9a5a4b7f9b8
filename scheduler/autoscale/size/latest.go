package size

import "time"

// Counts are requests of a service.
type Counts struct {
	Arrived int64 `json:"arrived"` // refused ones included
	Ended   int64 `json:"ended"`   // that an attainment is a share of
	Lost    int64 `json:"lost"`    // of those that ended: late, dropped or refused
}

// Add is both together.
func (c Counts) Add(o Counts) Counts {
	return Counts{Arrived: c.Arrived + o.Arrived, Ended: c.Ended + o.Ended, Lost: c.Lost + o.Lost}
}

// since is what came after those of before.
func (c Counts) since(before Counts) Counts {
	return Counts{Arrived: c.Arrived - before.Arrived, Ended: c.Ended - before.Ended, Lost: c.Lost - before.Lost}
}

// Latest is what was counted last, apart from what came before, which would hide a change.
type Latest struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	Counts
}

// Span is how long that was.
func (l Latest) Span() time.Duration { return l.To.Sub(l.From) }

// Lossy reports that so many are lost that it cannot wait: more than a tenth of those that ended,
// which a load that doubles exceeds at once.
func (c Counts) Lossy() bool { return 10*c.Lost > c.Ended }

const (
	// LookEvery is the pace at which to look whether requests are lost.
	LookEvery = 250 * time.Millisecond

	someLost = 3 // requests, the least that count as a loss
)

// Reports decides when the counts of a service are reported: every Every, and at once when
// requests begin to be lost; during a loss at intervals that double up to Every.
type Reports struct {
	Every time.Duration

	looked, sent counted
	wait         time.Duration // from the last report to the next
	lossy        bool
}

type counted struct {
	at time.Time
	Counts
}

// Look takes the counts so far. When a report is due, it returns the counts since the last
// report, or since the last look where a loss began after that, and true.
func (r *Reports) Look(now time.Time, so Counts) (Latest, bool) {
	seen := counted{now, so}
	if r.sent.at.IsZero() || so.Arrived < r.sent.Arrived || so.Ended < r.sent.Ended { // counted again
		r.looked, r.sent, r.wait, r.lossy = seen, seen, r.Every, false
		return Latest{}, false
	}
	before := r.looked
	r.looked = seen
	look, all := so.since(before.Counts), so.since(r.sent.Counts)
	latest := Latest{From: r.sent.at, To: now, Counts: all}
	switch {
	case !r.lossy && look.Lossy() && all.Lost >= someLost:
		latest = Latest{From: before.at, To: now, Counts: look}
		r.lossy, r.wait = true, now.Sub(before.at)
	case now.Sub(r.sent.at) < r.wait:
		return Latest{}, false
	case r.lossy && all.Lossy():
		r.wait = min(2*r.wait, r.Every)
	default:
		r.lossy, r.wait = false, r.Every
	}
	r.sent = seen
	return latest, true
}
