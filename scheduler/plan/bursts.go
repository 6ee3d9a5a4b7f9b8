package plan

import (
	"math"
	"slices"
	"time"

	"github.com/harpagon/harpagon/scheduler/plan/demand"
)

// InBursts is what n devices with c promise each item of a burst when they serve them alone, in
// seconds: where batches hold what has come when a device is free, of one burst where these come at
// one instant, in whole nanoseconds, and where they are collected from a fluid, once in so many
// seconds.
func (m *ModuleProblem) InBursts(c *Config, n int) (unmixed, shaped float64) {
	n = min(n, math.MaxInt32)
	unmixed = inBatches(m.Bursts, m.Bursts.Items, c.Batch, n*c.Concurrency, c.Duration.Seconds()) + LeastWindow
	if !math.IsInf(unmixed, 1) {
		unmixed = ToDuration(unmixed).Seconds()
	}
	wait := c.Interval() / float64(n)
	if m.Rate*wait > float64(c.Batch)*(1+RateTolerance) {
		return unmixed, math.Inf(1)
	}
	return unmixed, c.Duration.Seconds() + wait + m.Bursts.Shaped()
}

// inBatches is the least latency of so many items of each burst on n executors that begin a batch
// of what waits when they are free.
func inBatches(b demand.Bursts, items, batch, n int, duration float64) float64 {
	if !b.Any {
		return b.Unmixed(Batches(items, batch), n, duration)
	}
	b.Items = items
	return b.Collected(batch, n, duration)
}

// BurstGroup is what n devices with c run of each burst: so many items, in batches that are
// collected in the instant in which it comes.
func (m *ModuleProblem) BurstGroup(c Config, n, items int, worst time.Duration) Allocation {
	rate := m.Rate * (float64(items) / float64(m.Bursts.Items))
	return Allocation{
		Config: c, Machines: float64(n), Rate: rate, Collect: rate, Items: items,
		Period: ToDuration(m.Bursts.Gap), Window: ToDuration(LeastWindow), Worst: worst,
	}
}

// Batches is how many batches hold so many items.
func Batches(items, batch int) int { return (items + batch - 1) / max(1, batch) }

// MaxDevices bounds the devices of one group.
const MaxDevices = 1e9

// DevicesForBursts is the least number of devices with c for which a latency of the module's
// bursts keeps the budget, of devices that latency says; false where no number does.
func (m *ModuleProblem) DevicesForBursts(c *Config, budget time.Duration, latency func(n int) float64) (int, bool) {
	fits := func(n int) bool { return latency(n) <= budget.Seconds()*(1+RateTolerance) }
	high := Batches(Batches(m.Bursts.Items, c.Batch), c.Concurrency)
	if m.Bursts.Any {
		high++ // one may be busy with a batch that came before
	}
	overlaps := math.Ceil(c.Duration.Seconds() / m.Bursts.Gap)
	if m.Bursts.Any { // of which a jitter lets several come at once
		overlaps = math.Ceil((c.Duration.Seconds()+m.Bursts.Jitter)/m.Bursts.Gap) + 1
	}
	if len(m.Bursts.Kinds) > 0 { // of each kind several may come in its time
		overlaps = math.Ceil((c.Duration.Seconds()+m.Bursts.Jitter)/m.Bursts.Next()) + 1
	}
	if overlaps*float64(high) < MaxDevices {
		high *= int(max(1, overlaps)) // every batch finds a device
	}
	if high > MaxDevices || !fits(high) {
		return 0, false
	}
	low := 0
	for high-low > 1 {
		if mid := (low + high) / 2; fits(mid) {
			high = mid
		} else {
			low = mid
		}
	}
	return high, true
}

// proveBursts is prove for a stream that comes in bursts. Where groups divide each burst, every
// item has a place in the part of some group, and each group does its part in time; what
// runs on shared devices is for their test to say (UseDevices). Otherwise the groups collect
// from the fluid, and every item may wait for that.
func (m *Module) proveBursts(b demand.Bursts) bool {
	m.Burst, m.AnyPhase = b.Items, b.Any
	if !slices.ContainsFunc(m.Groups, func(g Group) bool { return g.Items > 0 || g.Rides }) {
		if m.Rate < float64(b.Items)/b.Gap*(1-RateTolerance) {
			return false // more may come than was planned for
		}
		budget := m.Budget
		m.Budget -= ToDuration(b.Shaped())
		fits := m.prove()
		m.Budget, m.Proven = budget, m.Proven+ToDuration(b.Shaped())
		if fits && slices.ContainsFunc(m.busy(), func(g Group) bool { return max(g.Duration, g.Deadline)+g.Window < m.Proven-provenTolerance }) {
			m.Groups = promising(m.Groups, m.Proven) // those of a plan for even items
		}
		return fits
	}
	items, latency := 0, 0.0
	for _, g := range m.Groups {
		switch items += g.Items; {
		case g.Rides:
			items = b.Items
			latency = math.Max(latency, Riding(b, g.Batch, g.Duration))
		case b.Any && (g.Items < b.Items || g.Deadline > 0):
			return false // no part of them comes at once
		case g.Deadline > 0:
			latency = math.Max(latency, (g.Window + g.Deadline).Seconds())
		default:
			latency = math.Max(latency, g.Window.Seconds()+inBatches(b, g.Items, g.Batch, g.executors(), g.Duration.Seconds()))
		}
	}
	if items < b.Items || math.IsInf(latency, 1) {
		return false
	}
	m.Proven = ToDuration(latency)
	return m.Proven <= m.Budget
}

// Riding is the latency of items that come in bursts to a step that rides, in seconds, by batches of that duration.
func Riding(b demand.Bursts, batch int, d time.Duration) float64 {
	latency := float64(Batches(b.Items, batch)) * d.Seconds()
	if b.Any {
		latency = math.Max(latency, b.Collected(batch, 1, d.Seconds()))
	}
	return latency
}

// executors are the batches of the group that run side by side.
func (g *Group) executors() int { return int(math.Round(g.Machines)) * max(1, g.Concurrency) }
