package flow

import (
	"time"

	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// Schedule fills in the times of the nodes: budgets by module, and what is kept
// for each module while a request is at those above it. Along a path budgets
// and what is kept add up; of several paths the longest counts.
func (g *Graph) Schedule(budget map[string]time.Duration, keep map[string]KeptWindows) {
	for i := range g.Nodes {
		n := &g.Nodes[i]
		n.Budget = budget[n.Module]
		for _, d := range n.Down {
			g.Nodes[d].Offset = max(g.Nodes[d].Offset, n.Offset+n.Budget)
		}
	}
	for i := len(g.Nodes) - 1; i >= 0; i-- {
		n := &g.Nodes[i]
		for _, d := range n.Down {
			below := &g.Nodes[d]
			n.Keep = n.Keep.Max(below.Keep.Plus(keep[below.Module]))
		}
	}
}

// Below is what the plan gives the modules below a node beyond the least that they need,
// where requests come to it with nothing done for them yet; else 0 (tc.Options.Below).
func (n *Node) Below() time.Duration {
	if n.Feeders > 0 {
		return 0
	}
	return n.Keep.Planned - n.Keep.Least
}

// SetTimes fills in the times that a policy is told of an item at the node: it
// arrived, and is to be answered, with the request that it is a part of; a
// deadline of 0 is none. kept is what is kept of the deadline for the modules
// below.
func (n *Node) SetTimes(r *dispatch.Request, arrival, deadline, kept dispatch.Time) {
	r.Arrival, r.Deadline, r.End = arrival+n.Offset, leaveBy(deadline, kept), deadline
}

// leaveBy is the latest that an item may leave its node; 0 where there is no deadline.
func leaveBy(deadline, kept dispatch.Time) dispatch.Time {
	if deadline == 0 {
		return 0
	}
	return max(1, deadline-kept)
}

// Due is when an item should leave the node: by the plan when its budget has
// passed since its virtual arrival, and no later than its deadline there.
// Devices that several executors share run batches in this order.
func (n *Node) Due(arrival, deadline, kept dispatch.Time) dispatch.Time {
	due, last := arrival+n.Offset+n.Budget, leaveBy(deadline, kept)
	switch {
	case last == 0:
		return due
	case n.Budget <= 0:
		return last
	}
	return min(due, last)
}
