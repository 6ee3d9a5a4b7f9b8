package tc

import "github.com/harpagon/harpagon/scheduler/dispatch"

// divide is choose for bursts: every group takes its part of each. What is more than was planned
// for, or for a group that is down, goes where least waits for each executor.
func (p *tc) divide(arrival dispatch.Time) int {
	if arrival != p.Burst {
		p.Burst = arrival
		for i := range p.Groups {
			p.Groups[i].Part = 0
		}
	}
	least := -1
	for i := range p.Groups {
		g := &p.Groups[i]
		if g.Ups == 0 {
			continue
		}
		if g.Part < g.Items {
			g.Part++
			return i
		}
		if least < 0 || g.Queue.N*p.Groups[least].Ups < p.Groups[least].Queue.N*g.Ups {
			least = i
		}
	}
	return least
}
