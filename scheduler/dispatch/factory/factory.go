// Package factory makes dispatch policies from data. Dispatcher, simulator and replay make
// one from the same Spec, so that the simulated policy is the one that runs, and a
// recording can name it.
//
// # Models of clusters
//
// SharedModels reports how the requests of a cluster are distinguished: every module of
// every pipeline is a class of its own to the one policy that dispatches them. Simulator
// and dispatcher make them by the same call, so that what is simulated is what runs.
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

// Spec states which policy to make and from what. One of its fields is set. It is plain data and
// survives JSON.
type Spec struct {
	TC       *tc.Options         `json:",omitempty"`
	Shared   *Shared             `json:",omitempty"`
	Turns    *roundrobin.Options `json:",omitempty"`
	Matching *matching.Options   `json:",omitempty"`
	Grouped  *grouped.Options    `json:",omitempty"`
	Module   *Module             `json:",omitempty"` // of a policy that is made from the module itself
}

// Groups reports that the policy cuts batches for the groups of a plan.
func (s Spec) Groups() bool { return s.TC != nil || s.Turns != nil || s.Module != nil }

// Shared is a policy of a cluster: any device runs any model.
type Shared struct {
	Name string // of the policy, with variants or without
	shared.Options
}

// Policy is a dispatch policy that serves modules, and what makes it: one of the two. A program
// that brings its own gives it a name with a slash (pipelines.Qualified).
type Policy struct {
	Name string

	// Groups makes one that cuts batches for the groups of a module's plan.
	Groups func(Module) (dispatch.Policy, error)

	// Cluster makes one that runs any model on any executor. It serves clusters, too.
	Cluster func(shared.Options) (dispatch.Policy, error)

	// spec reports what to make it from, where that is not the module itself.
	spec func(m Module, variants []string) Spec
}

// table lists the policies that cut batches for groups; package shared lists those of
// clusters, and pipelines.DispatchPolicies what declarations may set of either.
func table() []Policy {
	return []Policy{
		{Name: Default, spec: func(m Module, _ []string) Spec {
			return Spec{TC: &tc.Options{Groups: m.Groups, MaxQueue: m.MaxQueue, Early: m.Early, Below: m.Below, Rate: m.Rate, Shared: true}}
		}},
		{Name: roundrobin.RoundRobin, spec: func(m Module, variants []string) Spec {
			return Spec{Turns: &roundrobin.Options{Groups: m.Groups, MaxQueue: m.MaxQueue, Batches: variants[0] == "batches"}}
		}},
	}
}

// Policies are those that a program brings beside the ones of this project; nil for none.
type Policies []Policy

// Check reports what is wrong with them.
func (own Policies) Check() error {
	for i, p := range own {
		switch {
		case !pipelines.Qualified(p.Name) || strings.Contains(p.Name, ":"):
			return fmt.Errorf("dispatch policy %q: give it a name with a slash, such as \"acme/%s\"", p.Name, p.Name)
		case (p.Groups == nil) == (p.Cluster == nil):
			return fmt.Errorf("dispatch policy %q: give either Groups or Cluster, which makes it", p.Name)
		case slices.ContainsFunc(own[:i], func(other Policy) bool { return other.Name == p.Name }):
			return fmt.Errorf("there are two dispatch policies %q", p.Name)
		}
	}
	return nil
}

// Has returns an error where no policy of that name can be made; the name may be empty or
// have variants.
func (own Policies) Has(policy string) error {
	name, _, _ := pipelines.SplitDispatch(cmp.Or(policy, Default))
	_, err := own.named(name)
	return err
}

// named finds a policy; one of clusters that is of this project has neither field set.
func (own Policies) named(name string) (Policy, error) {
	for _, p := range append(table(), own...) {
		if p.Name == name {
			return p, nil
		}
	}
	if slices.Contains(shared.Names(), name) {
		return Policy{Name: name}, nil
	}
	return Policy{}, fmt.Errorf("this program has no dispatch policy %q; start the one that brings it, or choose one of %s",
		name, pipelines.Quoted(pipelines.Dispatches(pipelines.KindPipeline)))
}

// Groups reports whether the policy, with variants or without, cuts batches for the groups of a
// plan. Empty is the default.
func (own Policies) Groups(policy string) bool {
	name, _, _ := pipelines.SplitDispatch(cmp.Or(policy, Default))
	p, _ := own.named(name)
	return p.Groups != nil || p.spec != nil
}

// New makes a built-in policy. The error names invalid options.
func New(s Spec) (dispatch.Policy, error) { return Policies(nil).New(s) }

// New makes a policy, built-in or the program's own. The error names invalid options.
func (own Policies) New(s Spec) (dispatch.Policy, error) {
	switch {
	case s.TC != nil:
		return tc.New(*s.TC), nil
	case s.Shared != nil:
		p, err := own.cluster(*s.Shared)
		if err != nil {
			return nil, fmt.Errorf("dispatch %s: %w", s.Shared.Name, err)
		}
		return p, nil
	case s.Turns != nil:
		return roundrobin.New(*s.Turns), nil
	case s.Matching != nil:
		return matching.New(*s.Matching)
	case s.Grouped != nil:
		if err := s.Grouped.Check(); err != nil {
			return nil, fmt.Errorf("dispatch grouped: %w", err)
		}
		return grouped.New(*s.Grouped), nil
	case s.Module != nil:
		p, err := own.named(s.Module.Policy)
		if err != nil {
			return nil, err
		}
		if p.Groups == nil {
			return nil, fmt.Errorf("dispatch %s: it is not made from a module alone; take its own options", p.Name)
		}
		return p.Groups(*s.Module)
	}
	return nil, fmt.Errorf("no dispatch policy is given")
}

func (own Policies) cluster(s Shared) (dispatch.Policy, error) {
	if !pipelines.Qualified(s.Name) {
		return shared.New(s.Name, s.Options)
	}
	p, err := own.named(s.Name)
	if err != nil {
		return nil, err
	}
	if p.Cluster == nil {
		return nil, fmt.Errorf("it cuts batches for the groups of a plan; a cluster has none. Choose one of %s", pipelines.Quoted(pipelines.Dispatches(pipelines.KindCluster)))
	}
	if err := s.Options.Check(); err != nil {
		return nil, err
	}
	return p.Cluster(s.Options)
}

// Default is the policy of a module where none is named: the one that the
// promises of plans are about.
const Default = "tc"

// Suits reports why a policy cannot serve the modules of a kind of service; nil where it can.
func Suits(k pipelines.Kind, name string) error {
	if fault := pipelines.DispatchFault(k, name); fault.Summary != "" {
		return errors.New(strings.ToLower(fault.Detail[:1]) + fault.Detail[1:])
	}
	return nil
}

// Module states how the requests of one planned module are dispatched.
type Module struct {
	Policy string // its name, with variants or without; empty means the default

	// Groups of the module, as flow.DispatchGroups reads them off the plan. Executors
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
// error reports why the module cannot be served by the policy that it names.
func (own Policies) Spec(m Module) (Spec, error) {
	if err := Suits(pipelines.KindPipeline, m.Policy); err != nil {
		return Spec{}, err
	}
	name, variants, _ := pipelines.SplitDispatch(cmp.Or(m.Policy, Default))
	p, err := own.named(name)
	switch {
	case err != nil:
		return Spec{}, err
	case p.spec != nil:
		return p.spec(m, variants), nil
	case p.Groups != nil:
		return Spec{Module: &m}, nil
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
