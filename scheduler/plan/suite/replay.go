package suite

import (
	"math"
	"slices"
	"time"

	"github.com/harpagon/harpagon/scheduler/plan"
)

// spareArrivals is how many inter-arrival times a batch may be late in Replay:
// the demand test treats the stream as a fluid, requests are counted singly.
const spareArrivals = 1

// Replay cuts batches from an evenly paced stream request by request, as a
// dispatcher would that gives each request to the open batch that is due first,
// and says whether every batch of the module was full by its due date, over so
// many requests. Dummy requests are part of the stream.
//
// A batch of group g is open from k·P on and due at k·P + W. A full batch waits
// for its due date, so that batches start exactly P apart and machines are free
// when they are needed; its first request came after k·P and so has its answer
// within W + d.
func Replay(m plan.Module, requests int) bool {
	rate := m.Rate + m.DummyRate
	if rate == 0 {
		return true
	}
	var open []collecting
	for _, g := range m.Groups {
		open = append(open, collecting{size: g.Batch, period: float64(g.Batch) / (g.Rate + g.DummyRate), window: g.Window})
	}
	queue := 0 // requests that came while no batch was open
	for i := range requests {
		now := float64(i+1) / rate
		queue++
		for queue > 0 {
			next := earliest(open, now)
			if next == nil {
				break
			}
			queue--
			next.held++
			if next.held == next.size {
				if now > next.due()+spareArrivals/rate {
					return false
				}
				next.number, next.held = next.number+1, 0
			}
		}
		for k := range open {
			if now > open[k].due()+2*spareArrivals/rate {
				return false // due, and still not full
			}
		}
	}
	return true
}

// collecting is a group and the batch that it fills.
type collecting struct {
	size   int
	period float64 // seconds
	window time.Duration
	number int // of the batch, from 0
	held   int
}

func (c *collecting) release() float64 { return float64(c.number) * c.period }
func (c *collecting) due() float64     { return c.release() + c.window.Seconds() }

// earliest is the open batch that is due first.
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
	busy := slices.Clone(m.Groups)
	busy = slices.DeleteFunc(busy, func(g plan.Group) bool { return g.Rate+g.DummyRate <= 0 || math.IsNaN(g.Rate) })
	return len(busy) > 1
}
