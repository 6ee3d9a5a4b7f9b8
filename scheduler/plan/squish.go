package plan

import (
	"cmp"
	"math"
	"slices"
	"time"
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
// test. Sound tells the two apart.

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
	config
}

// squishing says whether the plan is Nexus's on shared devices.
func (p *planner) squishing() bool {
	return p.options.policy() == PolicyNexus && p.options.costModel() == CostShared
}

// squish takes the partly used machines out of the schedules, packs them, and
// puts them back as groups on shared devices.
func (p *planner) squish(sets []schedule, budgets []time.Duration) []Device {
	var nodes []node
	for _, r := range p.takeRests(sets, budgets) {
		cycle := min(r.budget-r.duration, collection(r.batch, r.rate))
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
		nodes = append(nodes, node{hardware: r.hardware, cycle: cycle, members: []restOf{r}})
	}
	var devices []Device
	for k := range nodes {
		devices = append(devices, p.runs(&nodes[k], sets))
	}
	for i := range sets {
		sets[i] = sets[i].again()
	}
	return devices
}

// takeRests removes the partly used machines, highest rate first.
func (p *planner) takeRests(sets []schedule, budgets []time.Duration) []restOf {
	var rests []restOf
	for i := range sets {
		var full []tranche
		for _, t := range sets[i].tranches {
			if t.machines >= 1 {
				full = append(full, t)
				continue
			}
			rests = append(rests, restOf{module: i, rate: t.rate, budget: budgets[i], config: t.config})
		}
		sets[i].tranches = full
	}
	slices.SortStableFunc(rests, func(a, b restOf) int { return cmp.Compare(b.rate, a.rate) })
	return rests
}

// merge puts one more rest on the device of a node; false when the durations do
// not fit into the shorter of the two cycles.
func (p *planner) merge(n node, r restOf, cycle time.Duration) (node, bool) {
	out := node{hardware: n.hardware, cycle: min(n.cycle, cycle)}
	if r.hardware != n.hardware {
		return out, false
	}
	memory := int64(0)
	for _, m := range append(slices.Clone(n.members), r) {
		c, ok := p.modules[m.module].smallest(m.config, m.rate*out.cycle.Seconds())
		if !ok || c.duration > m.budget-out.cycle {
			return out, false
		}
		m.config = c
		memory += c.memory
		out.members = append(out.members, m)
	}
	fits := r.room == 0 || memory <= r.room
	return out, fits && out.occupancy() <= 1+rateTolerance
}

// occupancy is the share of the cycle in which the device works.
func (n *node) occupancy() float64 {
	sum := time.Duration(0)
	for _, m := range n.members {
		sum += m.duration
	}
	return float64(sum) / float64(n.cycle)
}

// smallest is the shortest configuration on the same hardware that holds so many
// requests.
func (s *scheduler) smallest(like config, requests float64) (best config, ok bool) {
	for _, c := range s.configs {
		if c.hardware == like.hardware && float64(c.batch) >= math.Ceil(requests-rateTolerance) && (!ok || c.duration < best.duration) {
			best, ok = c, true
		}
	}
	return best, ok
}

// runs adds the groups of a node to their modules' schedules.
func (p *planner) runs(n *node, sets []schedule) Device {
	d := Device{Hardware: n.hardware, Price: n.members[0].price, Share: n.occupancy()}
	for _, m := range n.members {
		use := float64(m.duration) / float64(n.cycle)
		set := &sets[m.module]
		t := tranche{
			config: m.config, machines: use, rate: m.rate, collect: m.rate, period: n.cycle,
			deadline: m.budget - n.cycle, worst: n.cycle + m.duration, part: use / d.Share,
		}
		d.Tasks = append(d.Tasks, Task{
			Pipeline: p.pipe.Name, Module: p.modules[m.module].name, Group: len(set.tranches),
			Duration: m.duration, Period: n.cycle, Deadline: t.deadline, Share: use,
		})
		set.tranches = append(set.tranches, t)
	}
	return d
}

// again adds a schedule up anew.
func (s schedule) again() schedule {
	out := schedule{dummies: s.dummies}
	for _, t := range s.tranches {
		out.add(t)
	}
	return out
}
