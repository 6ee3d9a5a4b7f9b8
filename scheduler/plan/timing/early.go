package timing

import (
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/dispatch/factory"
	"github.com/harpagon/harpagon/scheduler/dispatch/tc"
	"github.com/harpagon/harpagon/scheduler/plan"
)

// Early says when the tc dispatchers of a planned pipeline may start batches
// before they are due; eager false means never. What a plan proves for every
// request, it proves for even arrivals. Where others are declared, or the proof
// is about mean rates, an early start can break no promise.
func Early(eager bool, declared *pipelines.Pipeline, p *plan.Plan) tc.EarlyStart {
	switch {
	case !eager:
		return tc.EarlyNever
	case p.Sound && p.Proof == plan.EveryRequest && even(declared.Arrivals):
		return tc.EarlyWithinPromise
	}
	return tc.EarlyAlways
}

func even(arrivals string) bool { return arrivals == "" || arrivals == "even" }

// Kept is how much of a request's time is kept for a module while it is at the
// modules above: its deadline there is that much sooner.
type Kept struct {
	Calm, Pressed time.Duration
}

// Keep says what is kept for a module. Policy tc sends batches off by their
// windows and, while nearly all requests are in time, only gives up what is
// hopeless: the least that the module needs is kept. Where many are given up, a
// request that leaves the modules above no sooner than that is in time for
// nothing: then a module keeps its budget. The other policies hold batches back
// for as long as deadlines allow, and would leave nothing to those below but a
// batch of one: for them a module always keeps its budget.
func Keep(policy string, m *plan.Module, groups []tc.Group) Kept {
	least := Least(groups)
	if m == nil {
		return Kept{least, least}
	}
	k := Kept{least, max(least, m.Budget)}
	if policy != "" && policy != factory.Default {
		k.Calm = k.Pressed
	}
	return k
}

// Plus adds what two modules keep, one below the other.
func (k Kept) Plus(other Kept) Kept { return Kept{k.Calm + other.Calm, k.Pressed + other.Pressed} }

// Max is the larger of what two paths keep.
func (k Kept) Max(other Kept) Kept {
	return Kept{max(k.Calm, other.Calm), max(k.Pressed, other.Pressed)}
}

// Under is what is kept at a pressure from 0 to 1 (admission.Controller).
func (k Kept) Under(pressure float64) time.Duration {
	return k.Calm + time.Duration(pressure*float64(k.Pressed-k.Calm))
}
