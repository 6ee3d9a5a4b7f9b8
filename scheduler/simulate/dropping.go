package simulate

import "github.com/harpagon/harpagon/scheduler/flow"

// Dropping is a rule that says by when an item must leave its module: whatever cannot is
// given up there.
type Dropping string

// The rules besides the default, which gateways follow, too: the least that the modules
// below need is kept for them, and at the first module, where nothing is lost yet by giving
// a request up, their budgets, as long as a queue stands there and others take its place
// (tc.Options.Below).
const (
	// DropHopeless keeps the least that the modules below need everywhere: the durations of
	// batches of one.
	DropHopeless Dropping = "hopeless"

	// DropReactive keeps nothing for the modules below: an item is given up when its own
	// module cannot do it by the deadline of its request. As the PARD paper (arXiv
	// 2602.08747) describes Nexus.
	DropReactive Dropping = "reactive"

	// DropBySplit gives up an item that cannot leave within the budgets of its module and
	// those above. As the PARD paper describes Clipper++.
	DropBySplit Dropping = "split"
)

// kept is what is kept of the objective at a node for the modules below.
func (d Dropping) kept(n *flow.Node, slo Time) Time {
	switch d {
	case DropReactive:
		return 0
	case DropBySplit:
		return bySplit(n, slo)
	}
	return n.Keep.Least
}

// below is what the plan gives the modules below a first one, as far as the rule goes by it.
func (d Dropping) below(n *flow.Node) Time {
	if d != "" {
		return 0
	}
	return n.Below()
}

// bySplit keeps whatever of the objective is not of the budgets down to the node.
func bySplit(n *flow.Node, slo Time) Time {
	if n.Budget <= 0 {
		return 0
	}
	return max(0, slo-n.Offset-n.Budget)
}
