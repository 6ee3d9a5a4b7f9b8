package experiments

import (
	"fmt"
	"math"
	"slices"

	"github.com/harpagon/harpagon/scheduler/plan"
)

// spareArrivals is how many inter-arrival times a batch may be late in Replay:
// the demand test treats the stream as a fluid, requests are counted singly.
const spareArrivals = 1

const (
	clockSlack  = 1e-6 // seconds; windows are whole nanoseconds
	periodSlack = 1e-6 // planningShare of a period that is rounding
	fillSlack   = 1e-9 // planningShare of a number of requests that is rounding
)

// Replay cuts batches from an evenly paced stream request by request, as a
// dispatcher would that gives each request to the open batch that is due first,
// and says whether every batch of the module was full by its due date, over so
// many requests. Dummy requests are part of the stream. The error names the
// first batch that was late.
//
// Batch k of a group is open from k·P on and due at k·P + W. A full batch waits
// for its due date, so that batches start exactly P apart and machines are free
// when they are needed; its first request came after k·P and so starts within
// W. Where a group starts batches faster than they fill, P is shorter than b
// over its rate, and a batch takes the requests that its rate brings in P.
func Replay(m plan.Module, requests int) error {
	rate := m.Rate + m.DummyRate
	var open []collecting
	for _, g := range m.Groups {
		if busy := g.Rate + g.DummyRate; busy > 0 {
			open = append(open, newCollecting(g, busy))
		}
	}
	if len(open) == 0 {
		return nil
	}
	queue := 0 // requests that came before the next batch opened
	for i := range requests {
		now := float64(i+1) / rate
		for queue++; queue > 0; queue-- {
			next := earliest(open, now)
			if next == nil {
				break
			}
			if err := next.check(now, rate); err != nil {
				return err
			}
			next.held++
			next.close()
		}
		if queue > len(open) {
			return fmt.Errorf("%d requests wait at %.6f s for a batch to open", queue, now)
		}
		for k := range open {
			if err := open[k].check(now, rate); err != nil {
				return err
			}
		}
	}
	return nil
}

// collecting is a group and the batch that it fills.
type collecting struct {
	fill   float64 // requests of a batch, on average
	period float64 // seconds
	window float64 // seconds
	number int     // of the batch, from 0
	held   int
}

func newCollecting(g plan.Group, rate float64) collecting {
	c := collecting{fill: float64(g.Batch), period: float64(g.Batch) / rate, window: g.Window.Seconds()}
	if p := g.Period.Seconds(); p > 0 && p < c.period*(1-periodSlack) {
		c.fill, c.period = rate*p, p
	}
	c.close()
	return c
}

// check is an error when the batch should have been full by now.
func (c *collecting) check(now, rate float64) error {
	if now-c.due() <= spareArrivals/rate+clockSlack {
		return nil
	}
	return fmt.Errorf("batch %d of a group of batches of %.4g, due at %.6f s, has %d of %d requests at %.6f s", c.number, c.fill, c.due(), c.held, c.need(), now)
}

// need is what batch number takes: whole requests that add up to the average.
func (c *collecting) need() int {
	upTo := func(n int) int { return int(math.Floor(c.fill * float64(n) * (1 + fillSlack))) }
	return upTo(c.number+1) - upTo(c.number)
}

// close goes on to the next batch when this one has all of its requests.
func (c *collecting) close() {
	for c.held >= c.need() {
		c.number, c.held = c.number+1, 0
	}
}

func (c *collecting) release() float64 { return float64(c.number) * c.period }
func (c *collecting) due() float64     { return c.release() + c.window }

// earliest is the open batch that is due first; nil when none is open.
func earliest(all []collecting, now float64) *collecting {
	best := -1
	for i := range all {
		if all[i].release() <= now && (best < 0 || all[i].due() < all[best].due()) {
			best = i
		}
	}
	if best < 0 {
		return nil
	}
	return &all[best]
}

// several says whether the module has more than one group with requests.
func several(m plan.Module) bool {
	idle := func(g plan.Group) bool { return g.Rate+g.DummyRate <= 0 }
	return len(slices.DeleteFunc(slices.Clone(m.Groups), idle)) > 1
}
