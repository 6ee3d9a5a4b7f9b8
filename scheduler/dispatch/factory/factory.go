// Package factory makes dispatch policies from data. Whoever drives one, the gateway, the
// simulator or a replay, makes it here from the same Spec, so that the policy that is simulated
// is the one that runs, and a recording can say which one ran.
//
// # Models of clusters
//
// SharedModels says how the requests of a cluster are told apart: every module of
// every pipeline is a class of its own to the one policy that dispatches them. The
// simulator and whoever serves make them by the same call, so that what is simulated
// is what runs.
package factory

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/dispatch/grouped"
	"github.com/harpagon/harpagon/scheduler/dispatch/matching"
	"github.com/harpagon/harpagon/scheduler/dispatch/roundrobin"
	"github.com/harpagon/harpagon/scheduler/dispatch/shared"
	"github.com/harpagon/harpagon/scheduler/dispatch/tc"
	"github.com/harpagon/harpagon/scheduler/flow"
)

// Spec says which policy to make and from what. One of its fields is set. It is plain data and
// survives JSON.
type Spec struct {
	TC       *tc.Options               `json:",omitempty"`
	Shared   *Shared                   `json:",omitempty"`
	Turns    *roundrobin.Options       `json:",omitempty"`
	Matching *matching.Options         `json:",omitempty"`
	Baseline *matching.BaselineOptions `json:",omitempty"`
	Grouped  *grouped.Options          `json:",omitempty"`
}

// Shared is a policy of a cluster: any device runs any model.
type Shared struct {
	Name string // one of shared.Names, with variants or without
	shared.Options
}

// New makes the policy. The error says what is wrong with the options.
func New(s Spec) (dispatch.Policy, error) {
	switch {
	case s.TC != nil:
		return tc.New(*s.TC), nil
	case s.Shared != nil:
		p, err := shared.New(s.Shared.Name, s.Shared.Options)
		if err != nil {
			return nil, fmt.Errorf("dispatch %s: %w", s.Shared.Name, err)
		}
		return p, nil
	case s.Turns != nil:
		return roundrobin.New(*s.Turns), nil
	case s.Matching != nil:
		return matching.New(*s.Matching)
	case s.Baseline != nil:
		if err := s.Baseline.Check(); err != nil {
			return nil, fmt.Errorf("dispatch %s: %w", s.Baseline.Name, err)
		}
		return matching.NewBaseline(*s.Baseline), nil
	case s.Grouped != nil:
		if err := s.Grouped.Check(); err != nil {
			return nil, fmt.Errorf("dispatch grouped: %w", err)
		}
		return grouped.New(*s.Grouped), nil
	}
	return nil, fmt.Errorf("no dispatch policy is given")
}

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
		model.Groups = append(model.Groups, g.DurationTable())
	}
	if len(model.Groups) > 0 {
		model.Durations = model.Groups[0]
	}
	o := shared.Options{Models: []shared.Model{model}, MaxQueue: m.MaxQueue, Delay: m.Delay, Margin: m.Margin}
	return Spec{Shared: &Shared{Name: m.Policy, Options: o}}, nil
}

// SharedModels schedules the graph of a pipeline by budgets, and makes a class of every node, in
// their order: a request is due at a module when the budgets up to there have passed,
// and what a module leaves of its budget is the next one's. The pipeline's rate is what
// is expected of it. The error names a module without a profile on one of the kinds of
// hardware.
func SharedModels(p *pipelines.Pipeline, graph *flow.Graph, budgets map[string]time.Duration, hardware ...string) ([]shared.Model, error) {
	keep := make(map[string]flow.KeptWindows, len(budgets))
	for name, b := range budgets {
		keep[name] = flow.KeptWindows{Least: b, Planned: b}
	}
	graph.Schedule(budgets, keep)
	rates := p.Rates()
	all := make([]shared.Model, len(graph.Nodes))
	for i := range graph.Nodes {
		n := &graph.Nodes[i]
		model := shared.Model{SLO: p.SLO - n.Offset - n.Keep.Least, Rate: rates[n.Module]}
		for _, kind := range hardware {
			table := flow.DurationTable(p.Module(n.Module), kind)
			if table == nil {
				return nil, fmt.Errorf("module %q of pipeline %q has no profile on %q; every device of a cluster runs every module, so profile it there or leave the hardware out",
					n.Module, p.Name, kind)
			}
			model.Groups = append(model.Groups, table)
		}
		model.Durations = model.Groups[0]
		all[i] = model
	}
	return all, nil
}
