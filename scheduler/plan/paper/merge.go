package paper

import (
	"math"
	"slices"
	"time"

	"github.com/harpagon/harpagon/scheduler/plan"
)

// units groups the modules that one operation may move together. Node merger,
// section III-D of the Harpagon paper: modules that share parents and children
// should have the same budget, so they are moved as one super-module.
func (p *search) units(merge bool) [][]int {
	var units [][]int
next:
	for i := range p.Modules {
		if merge {
			for k, unit := range units {
				if p.twins(unit[0], i) {
					units[k] = append(unit, i)
					continue next
				}
			}
		}
		units = append(units, []int{i})
	}
	return units
}

func (p *search) twins(i, j int) bool {
	return sameSet(p.DAG.Up[i], p.DAG.Up[j]) && sameSet(p.DAG.Down[i], p.DAG.Down[j])
}

func sameSet(a, b []int) bool {
	if len(a) != len(b) {
		return false
	}
	return !slices.ContainsFunc(a, func(x int) bool { return !slices.Contains(b, x) })
}

// merged lists the moves of a super-module: for every worst case that a member
// could have, each member goes to its cheapest configuration within it. The
// cost saved is that of all members; the budget needed is what the slowest of
// them gains, because they run side by side.
func (p *search) merged(s state, unit []int) []operation {
	now := time.Duration(0)
	for _, i := range unit {
		now = max(now, s.worst[i])
	}
	var ops []operation
	for _, limit := range p.limits(s, unit, now) {
		op := operation{at: unit, extra: limit - now}
		was := 0.0
		for _, i := range unit {
			c := p.cheapestWithin(s, i, limit)
			op.to = append(op.to, c)
			op.gain += (s.pick[i].Unit() - c.Unit()) * p.rateOf(i)
			op.ratio = math.Max(op.ratio, 1/c.Unit())
			was += s.pick[i].Unit() * p.rateOf(i)
		}
		if op.gain > plan.CostTolerance*was {
			ops = append(ops, op)
		}
	}
	return ops
}

// limits are the common worst cases worth trying: the present one, and those
// of the members' configurations that are longer and fit into the SLO.
func (p *search) limits(s state, unit []int, now time.Duration) []time.Duration {
	limits := []time.Duration{now}
	for _, i := range unit {
		for _, c := range p.Modules[i].Configs {
			worst := p.worstAt(c, p.rateOf(i))
			if worst > now && plan.Saturate(s.around[i], worst) <= p.Pipeline.SLO {
				limits = append(limits, worst)
			}
		}
	}
	slices.Sort(limits)
	return slices.Compact(limits)
}

func (p *search) cheapestWithin(s state, i int, limit time.Duration) plan.Config {
	for _, c := range p.Modules[i].Configs { // best ratio first
		if p.worstAt(c, p.rateOf(i)) <= limit {
			return c
		}
	}
	return s.pick[i]
}
