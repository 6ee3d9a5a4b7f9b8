package flow

import (
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/dispatch/tc"
	"github.com/harpagon/harpagon/scheduler/plan"
)

// EarlyStart says when the tc dispatchers of a planned pipeline may start batches
// before they are due; eager false means never. What a plan proves for every
// request, it proves for even arrivals. Where others are declared, or the proof
// is about mean rates, an early start can break no promise.
func EarlyStart(eager bool, declared *pipelines.Pipeline, p *plan.Plan) tc.EarlyStart {
	switch {
	case !eager:
		return tc.EarlyNever
	case p.Sound && p.Proof == plan.EveryRequest && even(declared.Arrivals):
		return tc.EarlyWithinPromise
	}
	return tc.EarlyAlways
}

func even(arrivals string) bool { return arrivals == "" || arrivals == "even" }

// KeptWindows is how much of a request's time is kept for a module while it is at the
// modules above: its deadline there is that much sooner by LeastTime, and it should
// leave sooner than that, by Planned.
type KeptWindows struct {
	Least, Planned time.Duration
}

// KeepWindows says what is kept for a module. Policy tc sends batches off by their
// windows and gives up what is hopeless: the least that the module needs is kept.
// What the plan gives it beyond that counts where a request has taken nothing yet,
// and others take its place (tc.Options.Below). The other policies hold batches
// back for as long as deadlines allow, and would leave nothing to those below but a
// batch of one: for them a module always keeps its budget.
func KeepWindows(policy string, m *plan.Module, groups []tc.Group) KeptWindows {
	least := LeastTime(groups)
	if m == nil {
		return KeptWindows{least, least}
	}
	k := KeptWindows{least, max(least, m.Budget)}
	if policy != "" && !pipelines.DispatchesGroups(policy) {
		k.Least = k.Planned
	}
	return k
}

// Plus adds what two modules keep, one below the other.
func (k KeptWindows) Plus(other KeptWindows) KeptWindows {
	return KeptWindows{k.Least + other.Least, k.Planned + other.Planned}
}

// Max is the larger of what two paths keep.
func (k KeptWindows) Max(other KeptWindows) KeptWindows {
	return KeptWindows{max(k.Least, other.Least), max(k.Planned, other.Planned)}
}
