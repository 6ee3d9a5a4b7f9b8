package timing

import (
	"fmt"
	"slices"
	"strings"
	"time"

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

	MaxQueue int              // as in dispatch.TCOptions and dispatch.PoolOptions
	Eager    bool             // of tc
	Sharing  dispatch.Sharing // of tc
	Delay    dispatch.Delay   // of the others
	Margin   time.Duration    // of the others

	// Pool makes a policy other than tc; nil is dispatch.NewPool.
	Pool func(dispatch.PoolOptions) (dispatch.Policy, error)
}

// New makes the policy. The error says why the module cannot be served by it.
func (d Dispatcher) New() (dispatch.Policy, error) {
	name := d.Policy
	if name == "" || name == DefaultDispatch {
		return dispatch.NewTC(dispatch.TCOptions{Groups: d.Groups, MaxQueue: d.MaxQueue, Eager: d.Eager, Sharing: d.Sharing}), nil
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

// Keep is how much of a request's time is kept for a module while it is at the
// modules above: its deadline there is that much sooner. Policy tc sends
// batches off by their windows and only gives up what is hopeless, so that the
// least that the module needs is kept. The others hold batches back for as long
// as deadlines allow, and would leave nothing to those below but a batch of
// one: for them a module keeps its budget.
func Keep(policy string, m *plan.Module, groups []dispatch.GroupOptions) time.Duration {
	least := Least(groups)
	if m == nil || policy == "" || policy == DefaultDispatch {
		return least
	}
	return max(least, m.Budget)
}
