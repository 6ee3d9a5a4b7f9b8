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

	someLost = 3 // requests, before that tells something
)

// Reports states when what was counted of a service is told: at a steady pace, and at once when
// requests begin to be lost. While they are, it is told again soon, after twice as long each
// time.
type Reports struct {
	Every time.Duration

	looked, told counted
	wait         time.Duration // from the last report to the next
	lossy        bool
}

type counted struct {
	at time.Time
	Counts
}

// Look takes what was counted so far. Where it is time to tell, it reports what came in the
// end: since the last report, or since the last look where the loss began after that.
func (r *Reports) Look(now time.Time, so Counts) (Latest, bool) {
	seen := counted{now, so}
	if r.told.at.IsZero() || so.Arrived < r.told.Arrived || so.Ended < r.told.Ended { // counted again
		r.looked, r.told, r.wait, r.lossy = seen, seen, r.Every, false
		return Latest{}, false
	}
	before := r.looked
	r.looked = seen
	look, all := so.since(before.Counts), so.since(r.told.Counts)
	latest := Latest{From: r.told.at, To: now, Counts: all}
	switch {
	case !r.lossy && look.Lossy() && all.Lost >= someLost:
		latest = Latest{From: before.at, To: now, Counts: look}
		r.lossy, r.wait = true, now.Sub(before.at)
	case now.Sub(r.told.at) < r.wait:
		return Latest{}, false
	case r.lossy && all.Lossy():
		r.wait = min(2*r.wait, r.Every)
	default:
		r.lossy, r.wait = false, r.Every
	}
	r.told = seen
	return latest, true
}
