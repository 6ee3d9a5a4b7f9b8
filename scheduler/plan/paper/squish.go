package paper

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/harpagon/harpagon/scheduler/plan"
)

// Squishy bin packing, the way in which Nexus (SOSP 2019, section 6.1) lets
// models share devices: the baseline of cost model shared.
//
// What a module leaves over beyond full machines is a node of its own first:
// with batch b it runs once in every duty cycle D = min(L - d, b/r), r the
// rest's rate. Nodes are merged while that helps: all that share a device run
// once in the shortest of their cycles, each with the batch that its rate then
// brings, and the durations must fit into the cycle. The rest of the highest
// rate is placed first, into the device that it leaves fullest. A request waits
// one cycle at most and then for its batch, which claims D + d; that the others'
// batches come at fixed places in the cycle is taken for granted, where a
// dispatcher that serves what is due first is held to the non-preemptive demand
// test. Sound distinguishes the two.

// node is a device that rests share in one duty cycle.
type node struct {
	hardware string
	cycle    time.Duration
	members  []restOf
}

// restOf is what a module leaves over, with the configuration of its batch.
type restOf struct {
	module int
	rate   float64
	budget time.Duration
	plan.Config
}

// squish takes the partly used machines out of the schedules, packs them, and
// puts them back as groups on shared devices.
func (p *search) squish(sets []plan.Schedule, budgets []time.Duration) []plan.Device {
	var nodes []node
	for _, r := range p.takeRests(sets, budgets) {
		cycle := min(r.budget-r.Duration, plan.Collection(r.Batch, r.rate))
		best, at := node{}, -1
		for k := range nodes {
			if merged, ok := p.merge(nodes[k], r, cycle); ok && (at < 0 || merged.occupancy() > best.occupancy()) {
				best, at = merged, k
			}
		}
		if at >= 0 {
			nodes[at] = best
			continue
		}
		nodes = append(nodes, node{hardware: r.Hardware, cycle: cycle, members: []restOf{r}})
	}
	var devices []plan.Device
	for k := range nodes {
		devices = append(devices, p.runs(&nodes[k], sets))
	}
	for i := range sets {
		sets[i] = again(sets[i])
	}
	return devices
}

// takeRests removes the partly used machines, highest rate first.
func (p *search) takeRests(sets []plan.Schedule, budgets []time.Duration) []restOf {
	var rests []restOf
	for i := range sets {
		var full []plan.Allocation
		for _, t := range sets[i].Allocations {
			if t.Machines >= 1 {
				full = append(full, t)
				continue
			}
			rests = append(rests, restOf{module: i, rate: t.Rate, budget: budgets[i], Config: t.Config})
		}
		sets[i].Allocations = full
	}
	slices.SortStableFunc(rests, func(a, b restOf) int { return cmp.Compare(b.rate, a.rate) })
	return rests
}

// merge puts one more rest on the device of a node; false when the durations do
// not fit into the shorter of the two cycles.
func (p *search) merge(n node, r restOf, cycle time.Duration) (node, bool) {
	out := node{hardware: n.hardware, cycle: min(n.cycle, cycle)}
	if r.Hardware != n.hardware {
		return out, false
	}
	memory := int64(0)
	for _, m := range append(slices.Clone(n.members), r) {
		c, ok := smallest(p.Modules[m.module], m.Config, m.rate*out.cycle.Seconds())
		if !ok || c.Duration > m.budget-out.cycle {
			return out, false
		}
		m.Config = c
		memory += c.Memory
		out.members = append(out.members, m)
	}
	fits := r.DeviceMemory == 0 || memory <= r.DeviceMemory
	return out, fits && out.occupancy() <= 1+plan.RateTolerance
}

// occupancy is the share of the cycle in which the device works.
func (n *node) occupancy() float64 {
	sum := time.Duration(0)
	for _, m := range n.members {
		sum += m.Duration
	}
	return float64(sum) / float64(n.cycle)
}

// smallest is the shortest configuration on the same hardware that holds so many
// requests.
func smallest(m *plan.ModuleProblem, like plan.Config, requests float64) (best plan.Config, ok bool) {
	for _, c := range m.Configs {
		if c.Hardware == like.Hardware && float64(c.Batch) >= math.Ceil(requests-plan.RateTolerance) && (!ok || c.Duration < best.Duration) {
			best, ok = c, true
		}
	}
	return best, ok
}

// runs adds the groups of a node to their modules' schedules.
func (p *search) runs(n *node, sets []plan.Schedule) plan.Device {
	d := plan.Device{Hardware: n.hardware, Price: n.members[0].Price, Share: n.occupancy()}
	for _, m := range n.members {
		use := float64(m.Duration) / float64(n.cycle)
		set := &sets[m.module]
		t := plan.Allocation{
			Config: m.Config, Machines: use, Rate: m.rate, Collect: m.rate, Period: n.cycle,
			Deadline: m.budget - n.cycle, Window: n.cycle, Worst: n.cycle + m.Duration, Charge: use / d.Share,
		}
		d.Tasks = append(d.Tasks, plan.Task{
			Pipeline: p.Pipeline.Name, Module: p.Modules[m.module].Name, Group: len(set.Allocations),
			Duration: m.Duration, Period: n.cycle, Deadline: t.Deadline, Share: use,
		})
		set.Allocations = append(set.Allocations, t)
	}
	return d
}

// again adds a schedule up again.
func again(s plan.Schedule) plan.Schedule {
	out := plan.Schedule{Dummies: s.Dummies}
	for _, t := range s.Allocations {
		out.Add(t)
	}
	return out
}
