package simulate

import "github.com/harpagon/harpagon/scheduler/flow"

// Dropping is a rule that says by when an item must leave its module: whatever cannot is
// given up there.
type Dropping string

// The rules besides the default, which gateways follow, too: what the modules below need
// is kept for them: the least while the service is calm, their budgets as it is pressed
// (timing.Kept), which it is only known to be with Options.Admission.
const (
	// DropHopeless keeps the least that the modules below need: the durations of batches of
	// one.
	DropHopeless Dropping = "hopeless"

	// DropReactive keeps nothing for the modules below: an item is given up when its own
	// module cannot do it by the deadline of its request. As the PARD paper (arXiv
	// 2602.08747) describes Nexus.
	DropReactive Dropping = "reactive"

	// DropBySplit gives up an item that cannot leave within the budgets of its module and
	// those above. As the PARD paper describes Clipper++.
	DropBySplit Dropping = "split"
)

// kept is what is kept of an item's time for the modules below.
func (d Dropping) kept(e *engine, it *item) Time {
	a := &e.loads[it.load]
	n := a.nodes[it.node].Node
	switch d {
	case DropHopeless:
		return n.Keep.Under(0)
	case DropReactive:
		return 0
	case DropBySplit:
		return bySplit(n, a.slo)
	}
	return n.Keep.Under(e.pressure(it.load))
}

// bySplit keeps whatever of the objective is not of the budgets down to the node.
func bySplit(n *flow.Node, slo Time) Time {
	if n.Budget <= 0 {
		return 0
	}
	return max(0, slo-n.Offset-n.Budget)
}
