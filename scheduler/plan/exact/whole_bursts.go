package exact

import (
	"math"
	"time"

	"github.com/harpagon/harpagon/scheduler/plan"
)

// Modules to which items come in bursts (demand.Bursts). Devices of one configuration run
// whole batches of each burst, or collect from the fluid that a shaper makes of the bursts,
// whichever takes less. Devices of several kinds divide each burst: any division will do, and the most items
// that each kind does within a latency are known, so a mixture keeps a latency where these
// add up to a burst. Where bursts stay apart, the latency no longer than the gap between them,
// that is exact: no rule of dispatch does more. Otherwise the lower bound is what devices
// can have done by then at all (demand.Bursts.Cannot).

func (w *wholeModule) bursts() bool { return w.Bursts.Items > 0 }

// mostItems is the most of each burst that a kind's devices do within a latency, and the
// configuration that does.
func (k kind) mostItems(m *plan.ModuleProblem, n int, latency float64) (items int, by plan.Config) {
	for _, c := range k.configs {
		if does := c.Batch * m.Bursts.Batches(n*c.Concurrency, c.Duration.Seconds(), latency-plan.LeastWindow); does > items {
			items, by = does, c
		}
	}
	return items, by
}

// leastPossible is a latency, in seconds, below which n devices of the kind serve the stream
// under no rule of dispatch; +Inf where they never do.
func (k kind) leastPossible(m *plan.ModuleProblem, n int) float64 {
	least, _ := k.leastLatency(m, n)
	if m.Bursts.Items == 0 || math.IsInf(least, 1) {
		return least
	}
	return lowest(least, func(latency float64) bool { return possible(m, []kind{k}, []int{n}, latency) })
}

// possible reports whether nothing rules out that devices keep a latency.
func possible(m *plan.ModuleProblem, kinds []kind, counts []int, latency float64) bool {
	share := 0.0
	for i, n := range counts {
		share += float64(n) * kinds[i].serves(m, latency)
	}
	return share >= 1-plan.RateTolerance && !m.Bursts.Cannot(latency, func(time float64) float64 {
		sum := 0.0
		for i, n := range counts {
			most := 0.0
			for _, c := range kinds[i].configs {
				most = math.Max(most, float64(c.Batch*c.Concurrency)*wholeTimes(time, c.Duration.Seconds()))
			}
			sum += float64(n) * most
		}
		return sum
	})
}

// lowest is the least time up to one at which ok holds, as ok does from some time on.
func lowest(high float64, ok func(float64) bool) float64 {
	for low := 0.0; high-low > 0.25e-9+1e-12*high; {
		if mid := (low + high) / 2; ok(mid) {
			high = mid
		} else {
			low = mid
		}
	}
	return high
}

// proveBursts is prove for bursts: the least latency at which the kinds do all items.
func (w *wholeModule) proveBursts(m *mixture) {
	if w.Bursts.Any {
		return // whose items come in no parts
	}
	does := func(latency float64) bool {
		items := 0
		for i, n := range m.counts {
			if n > 0 {
				most, _ := w.kinds[i].mostItems(w.ModuleProblem, n, latency)
				items += most
			}
		}
		return items >= w.Bursts.Items
	}
	high := w.Longest
	if !does(high) {
		return
	}
	m.sound, m.divides = plan.ToDuration(lowest(high, does)), true
	for i, n := range m.counts {
		if n > 0 {
			if items, c := w.kinds[i].mostItems(w.ModuleProblem, n, m.sound.Seconds()); items > 0 {
				m.groups = append(m.groups, member{c, n})
			}
		}
	}
}

// dividedBursts is the schedule of a mixture, each kind with as many items as it does in time.
func (w *wholeModule) dividedBursts(m *mixture) plan.Schedule {
	set, left := plan.Schedule{Worst: m.sound, Weight: m.weight}, w.Bursts.Items
	for _, g := range m.groups {
		items := min(left, g.Batch*w.Bursts.Batches(g.n*g.Concurrency, g.Duration.Seconds(), m.sound.Seconds()-plan.LeastWindow))
		if items == 0 {
			continue
		}
		left -= items
		set.Allocations = append(set.Allocations, w.BurstGroup(g.Config, g.n, items, m.sound))
	}
	return set
}

// oneKindInBursts is the schedule of one group.
func (w *wholeModule) oneKindInBursts(g member, budget time.Duration) plan.Schedule {
	unmixed, _ := w.InBursts(&g.Config, g.n)
	a := w.BurstGroup(g.Config, g.n, w.Bursts.Items, plan.ToDuration(unmixed))
	if shaped := plan.ToDuration(w.Bursts.Shaped()); a.Worst > budget {
		period := min(plan.Collection(g.Batch, w.Rate), budget-shaped-g.Duration)
		a.Items, a.Window, a.Period, a.Worst = 0, 0, period, g.Duration+period+shaped
	}
	return plan.Schedule{Allocations: []plan.Allocation{a}, Worst: a.Worst, Weight: float64(g.n) * g.Weight}
}
