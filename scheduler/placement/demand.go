package placement

import (
	"math"
	"slices"
	"time"

	"github.com/harpagon/harpagon/scheduler/plan"
)

// tolerance is the share of a device that counts as rounding.
const tolerance = 1e-9

// demand is the device time and memory that one group needs.
type demand struct {
	module string
	group  int
	config plan.Group
	share  float64 // device time per time, over all its executors
	engine ModuleEngine
	memory int64 // of one executor
	sizes  []int
}

// item is one executor to be placed: part of a demand.
type item struct {
	*demand
	share float64

	// Of one that is placed as proven: between its batches, and from closing a
	// batch to its end.
	period, deadline time.Duration

	atOnce int  // batches that one burst releases
	bursts bool // no other group can count on what it leaves of its device
}

// demands lists the groups of the plan that receive requests.
func (r *Request) demands(scale float64) []demand {
	var all []demand
	for _, m := range r.Plan.Modules {
		engine := r.Engines[m.Name]
		for i, g := range m.Groups {
			share := r.use(g) * scale
			if share <= 0 {
				continue
			}
			all = append(all, demand{
				module: m.Name, group: i, config: g, share: share, engine: engine,
				memory: r.memory(m.Name, g, engine), sizes: r.sizes(m.Name, g),
			})
		}
	}
	return all
}

// use is the device time that a group takes: its machines, or less where the
// plan counts dummy requests. Those are a means of planning and never sent, so
// there are at most as many batches as real requests. Machines that are whole
// devices need not be busy all the time.
func (r *Request) use(g plan.Group) float64 {
	if r.Whole {
		return math.Round(g.Machines)
	}
	busy := g.Duration.Seconds() / float64(max(1, g.Concurrency)) // of a device, for each batch
	most := math.Min(g.Machines, g.Rate*busy)
	if g.Items > 0 {
		busy *= float64(plan.Batches(g.Items, g.Batch))
	}
	if r.ofDevices() && g.Period > 0 {
		most = math.Min(most, busy/g.Period.Seconds())
	}
	return most
}

// sideBySide is the concurrency of a group as slots encode it.
func sideBySide(g plan.Group) int {
	if g.Concurrency > 1 {
		return g.Concurrency
	}
	return 0
}

// memory is what the engine reported, times the batches that run side by side, or the
// profile's.
func (r *Request) memory(module string, g plan.Group, e ModuleEngine) int64 {
	if e.Memory > 0 {
		return e.Memory * int64(max(1, g.Concurrency))
	}
	if m := r.Pipeline.Module(module); m != nil {
		for _, pt := range m.Profile.Points {
			if pt.Hardware == g.Hardware && pt.Batch == g.Batch && max(1, pt.Concurrency) == max(1, g.Concurrency) {
				return int64(pt.MemoryMiB * (1 << 20))
			}
		}
	}
	return 0
}

// sizes lists the batch sizes to warm up: those profiled on the hardware up to
// the group's own, which is always among them.
func (r *Request) sizes(module string, g plan.Group) []int {
	sizes := []int{g.Batch}
	if m := r.Pipeline.Module(module); m != nil {
		for _, pt := range m.Profile.Points {
			if pt.Hardware == g.Hardware && pt.Batch < g.Batch {
				sizes = append(sizes, pt.Batch)
			}
		}
	}
	slices.Sort(sizes)
	return slices.Compact(sizes)
}

// cutter decides into how many executors a demand is cut.
type cutter func(d *demand, least int) int

// finer cuts every demand into a multiple of the least number of executors.
func finer(times int) cutter {
	return func(_ *demand, least int) int { return times * least }
}

// asRunning keeps the number of executors that run for a demand, unless it
// became too small a number or the demand shrank considerably.
func (r *Request) asRunning(d *demand, least int) int {
	const shrunk = 1.25
	n, share := 0, 0.0
	for i := range r.Actual {
		if s := &r.Actual[i]; s.Group == d.group && r.serves(s, d) {
			n++
			share += s.Share
		}
	}
	if n > least && share <= d.share*shrunk {
		return n
	}
	return least
}

// serves reports whether a running executor can be used for the demand.
func (r *Request) serves(s *Slot, d *demand) bool {
	return s.Pipeline == r.Plan.Pipeline && s.Module == d.module && s.Batch == d.config.Batch && s.Concurrency == sideBySide(d.config) &&
		s.Hardware == d.config.Hardware && s.Engine == d.engine.Engine && s.Model == d.engine.Model
}

// items cuts demands into executors. The least number is that which keeps each
// executor within the bound.
func items(demands []demand, bound float64, cut cutter) []item {
	var all []item
	for i := range demands {
		d := &demands[i]
		n := cut(d, int(math.Max(1, math.Ceil(d.share/bound-tolerance))))
		for range n {
			all = append(all, item{demand: d, share: d.share / float64(n)})
		}
	}
	slices.SortStableFunc(all, func(a, b item) int {
		switch {
		case a.share > b.share+tolerance:
			return -1
		case b.share > a.share+tolerance:
			return 1
		}
		return 0
	})
	return all
}
