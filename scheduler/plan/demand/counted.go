package demand

import (
	"math"
	"time"
)

// Schedule is how a dispatcher collects the batches of a group: batch k takes
// requests that arrive from k·Period on, Room at the most, and starts at
// k·Period + Window at the latest; where its machines have time to spare, up to
// Spare after that, but no later than one Window after its first request.
type Schedule struct {
	Room   int
	Period time.Duration
	Window time.Duration
	Spare  time.Duration
}

// Counted plays evenly paced requests, rate of them per second, one by one
// against groups whose first batches are released with the first request: each
// goes to the batch that is due first of those that are released and have room.
// kept says that every one of so many found such a batch. always says that the
// schedules could begin anew on the way, which makes kept true for any number.
//
// Periods are rounded to whole nanoseconds, so the release of batch k may be off
// by k of them; a request is not turned away for these.
func Counted(rate float64, groups []Schedule, requests int) (kept, always bool) {
	var buffer [8]collection
	open := append(buffer[:0], make([]collection, len(groups))...)
	// An int64 holds the nanoseconds of 292 years.
	requests = max(1, int(min(float64(requests), rate*math.MaxInt64/2e9)))
	for i := range requests {
		at := time.Duration(math.Round(float64(i) / rate * float64(time.Second)))
		best, begun := -1, false
		for k := range open {
			c := &open[k]
			c.pass(&groups[k], at)
			begun = begun || c.held > 0 || c.release > at
			if (c.held > 0 || c.release <= at+c.rounding+1) && (best < 0 || c.release+groups[k].Window < open[best].release+groups[best].Window) {
				best = k
			}
		}
		if best < 0 {
			return false, false
		}
		if !begun && i > 0 {
			return true, true
		}
		open[best].add(&groups[best], at)
	}
	return true, false
}

// collection is the batch of a group that is collected.
type collection struct {
	release time.Duration
	until   time.Duration // when it starts at the latest, once it holds a request
	held    int

	rounding time.Duration // by which release may be off
}

func (c *collection) add(g *Schedule, at time.Duration) {
	if c.held++; c.held == 1 {
		c.until = min(c.release+g.Spare, at) + g.Window
	}
	if c.held >= g.Room {
		c.next(g)
	}
}

// pass goes on to the first batch that is not due before the time.
func (c *collection) pass(g *Schedule, at time.Duration) {
	overdue := c.held > 0 && c.until < at
	if g.Period <= 0 {
		if overdue || c.held == 0 && c.release+g.Window < at {
			c.release, c.held = at, 0
		}
		return
	}
	if overdue {
		c.next(g)
	}
	if late := at - c.release - g.Window; c.held == 0 && late > 0 {
		c.skip(g, 1+(late-1)/g.Period)
	}
}

func (c *collection) next(g *Schedule) { c.skip(g, 1) }

// skip goes on by so many batches.
func (c *collection) skip(g *Schedule, batches time.Duration) {
	c.release, c.held = c.release+batches*g.Period, 0
	c.rounding += batches
}
