package timing

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/plan"
)

// DefaultDispatch is the policy of a module where none is named: the one that
// the promises of plans are about.
const DefaultDispatch = "tc"

// Dispatches lists the policies that can serve the modules of a plan, the
// default first.
func Dispatches() []string { return append([]string{DefaultDispatch}, dispatch.PoolNames()...) }

// Dispatcher says how the requests of one planned module are dispatched.
type Dispatcher struct {
	Policy string // one of Dispatches; empty means the default

	// Groups of the module, as Groups reads them off the plan. Executors come
	// up with the index of their group.
	Groups []dispatch.GroupOptions

	// SLO is the time that a request has at the module: the pipeline's less the
	// budgets above, and less what is kept for the modules below. tc goes by the
	// windows of its groups instead.
	SLO  time.Duration
	Rate float64 // requests per second that come to the module; 0 if unknown

	MaxQueue int                 // as in dispatch.TCOptions and dispatch.PoolOptions
	Early    dispatch.EarlyStart // of tc
	Delay    dispatch.Delay      // of the others
	Margin   time.Duration       // of the others

	// Pool makes a policy other than tc; nil is dispatch.NewPool.
	Pool func(dispatch.PoolOptions) (dispatch.Policy, error)
}

// New makes the policy. The error says why the module cannot be served by it.
func (d Dispatcher) New() (dispatch.Policy, error) {
	name := d.Policy
	if name == "" || name == DefaultDispatch {
		return dispatch.NewTC(dispatch.TCOptions{Groups: d.Groups, MaxQueue: d.MaxQueue, Early: d.Early, Rate: d.Rate, Shared: true}), nil
	}
	if err := Suits(name); err != nil {
		return nil, err
	}
	model := dispatch.Model{SLO: d.SLO, Rate: d.Rate}
	for _, g := range d.Groups {
		model.Groups = append(model.Groups, table(g))
	}
	if len(model.Groups) > 0 {
		model.Durations = model.Groups[0]
	}
	o := dispatch.PoolOptions{Models: []dispatch.Model{model}, MaxQueue: d.MaxQueue, Delay: d.Delay, Margin: d.Margin}
	if d.Pool != nil {
		return d.Pool(o)
	}
	p, err := dispatch.NewPool(name, o)
	if err != nil {
		return nil, fmt.Errorf("dispatch %s: %w", name, err)
	}
	return p, nil
}

// Early says when the tc dispatchers of a planned pipeline may start batches
// before they are due; eager false means never. What a plan proves for every
// request, it proves for even arrivals. Where others are declared, or the proof
// is about mean rates, an early start can break no promise.
func Early(eager bool, declared *pipelines.Pipeline, p *plan.Plan) dispatch.EarlyStart {
	switch {
	case !eager:
		return dispatch.EarlyNever
	case p.Sound && p.Proof == plan.EveryRequest && even(declared.Arrivals):
		return dispatch.EarlyWithinPromise
	}
	return dispatch.EarlyAlways
}

func even(arrivals string) bool { return arrivals == "" || arrivals == "even" }

// table is how long a batch of each size takes in a group.
func table(g dispatch.GroupOptions) []time.Duration {
	if len(g.Durations) > 0 {
		return g.Durations
	}
	return slices.Repeat([]time.Duration{g.Duration}, max(1, g.Batch))
}

// Suits says why a policy cannot serve the modules of a plan; nil where it can.
func Suits(name string) error {
	switch {
	case name == "" || slices.Contains(Dispatches(), name):
		return nil
	case name == "matching":
		return fmt.Errorf("policy matching pairs queries of different sizes with instances; requests of a pipeline have no sizes. Declare a pool block for it")
	case name == "grouped":
		return fmt.Errorf("policy grouped batches applications that share a function; declare a function block for it")
	}
	return fmt.Errorf("there is no dispatch policy %q; there is tc for plans, and %s", name, strings.Join(dispatch.PoolNames(), ", "))
}

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
func Keep(policy string, m *plan.Module, groups []dispatch.GroupOptions) Kept {
	least := Least(groups)
	if m == nil {
		return Kept{least, least}
	}
	k := Kept{least, max(least, m.Budget)}
	if policy != "" && policy != DefaultDispatch {
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
