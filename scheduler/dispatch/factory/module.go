package factory

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/dispatch/roundrobin"
	"github.com/harpagon/harpagon/scheduler/dispatch/shared"
	"github.com/harpagon/harpagon/scheduler/dispatch/tc"
)

// Default is the policy of a module where none is named: the one that the
// promises of plans are about.
const Default = "tc"

// Names lists the policies that can serve the modules of a plan, the default
// first.
func Names() []string {
	return append(append([]string{Default}, shared.Names()...), roundrobin.RoundRobin)
}

// Suits says why a policy cannot serve the modules of a plan; nil where it can.
func Suits(name string) error {
	if fault := pipelines.DispatchFault(name); fault.Summary != "" {
		return errors.New(strings.ToLower(fault.Detail[:1]) + fault.Detail[1:])
	}
	return nil
}

// Module says how the requests of one planned module are dispatched.
type Module struct {
	Policy string // one of Names, with variants or without; empty means the default

	// Groups of the module, as timing.Groups reads them off the plan. Executors
	// come up with the index of their group.
	Groups []tc.Group

	// SLO is the time that a request has at the module: the pipeline's less the
	// budgets above, and less what is kept for the modules below. tc goes by the
	// windows of its groups instead.
	SLO  time.Duration
	Rate float64 // requests per second that come to the module; 0 if unknown

	MaxQueue int            // as in tc.Options and shared.Options
	Early    tc.EarlyStart  // of tc
	Below    time.Duration  // of tc
	Delay    dispatch.Delay // of the others
	Margin   time.Duration  // of the others
}

// Spec is the policy to make for the module, by a driver that answers for shared devices. The
// error says why the module cannot be served by the policy that it names.
func (m Module) Spec() (Spec, error) {
	name, chosen, _ := pipelines.SplitDispatch(cmp.Or(m.Policy, Default))
	if err := Suits(m.Policy); err != nil {
		return Spec{}, err
	}
	switch {
	case name == roundrobin.RoundRobin, slices.Contains(chosen, "ratio"):
		return Spec{Turns: &roundrobin.Options{Groups: m.Groups, MaxQueue: m.MaxQueue, Batches: name == Default}}, nil
	case name == Default:
		return Spec{TC: &tc.Options{Groups: m.Groups, MaxQueue: m.MaxQueue, Early: m.Early, Below: m.Below, Rate: m.Rate, Shared: true}}, nil
	}
	model := shared.Model{SLO: m.SLO, Rate: m.Rate}
	for _, g := range m.Groups {
		model.Groups = append(model.Groups, g.Table())
	}
	if len(model.Groups) > 0 {
		model.Durations = model.Groups[0]
	}
	o := shared.Options{Models: []shared.Model{model}, MaxQueue: m.MaxQueue, Delay: m.Delay, Margin: m.Margin}
	return Spec{Shared: &Shared{Name: m.Policy, Options: o}}, nil
}
