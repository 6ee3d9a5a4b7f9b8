package gateway

import (
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/scheduler/plan/timing"
)

// graph is a deployment compiled for running. It does not change, except for
// the count of its requests.
type graph struct {
	deployment placement.Deployment
	slo        time.Duration
	inputs     []pipelines.Port
	nodes      []*node // each after all that feed it; only what the outputs need
	root       *level
	outputs    []output
	sources    int // distinct nodes that outputs come from
	largest    int // size of a query; 0 where requests are none
	number     int // at the door; see unguarded

	inFlight atomic.Int64
}

// node is a module in a graph.
type node struct {
	index   int
	name    string
	module  pipelines.Module
	station *station
	sharing sharing // of its policy

	inputs  []input
	outs    []string // ports that are referred to, in order of first mention
	down    []*node
	feeders int // distinct nodes that feed this one
	source  bool

	// The node runs once per frame of scope. A node that scatters splits the
	// frames of common into those of scope; for others the two are one.
	scatter bool
	common  *level
	scope   *level

	offset time.Duration // budgets above, on the longest path
	budget time.Duration
	tail   timing.Kept // for the modules below
}

// input is one bound input of a node.
type input struct {
	name string
	from *node // nil for an input of the pipeline
	port int   // index into from.outs, or into graph.inputs

	varies bool // of an input of the pipeline: its first dimension
}

type output struct {
	name string
	from *node
	port int
}

// level is a scope: the root, or what lies within one scattering node.
type level struct {
	parent *level
	depth  int
	node   *node   // the one that scatters into this level; nil at the root
	within []*node // nodes whose scope is this level or lies below it
}

// compile checks what running depends on and leaves out modules that no output
// needs. The stations are set by Install.
func compile(d placement.Deployment) (*graph, error) {
	p := &d.Pipeline
	order, err := p.Order()
	if err != nil {
		return nil, err
	}
	if len(p.Outputs) == 0 {
		return nil, fmt.Errorf("gateway: pipeline %q has no output", p.Name)
	}
	g := &graph{deployment: d, slo: p.SLO, inputs: p.Inputs, root: &level{}}
	needed := neededModules(p)
	byName := make(map[string]*node, len(order))
	for _, name := range order {
		if !needed[name] {
			continue
		}
		n := &node{index: len(g.nodes), name: name, module: *p.Module(name)}
		if err := g.bind(n, byName); err != nil {
			return nil, err
		}
		g.nodes = append(g.nodes, n)
		byName[name] = n
	}
	for _, o := range p.Outputs {
		from, port, err := g.resolve(o.From, byName)
		if err != nil {
			return nil, err
		}
		g.outputs = append(g.outputs, output{name: o.Name, from: from, port: port})
		if from != nil && !from.source {
			from.source = true
			g.sources++
		}
	}
	if d.Pool != nil {
		g.largest = d.Pipeline.Modules[0].Profile.Latency(d.Pool.Base).Largest()
	}
	g.schedule()
	return g, nil
}

// neededModules are those that some output depends on.
func neededModules(p *pipelines.Pipeline) map[string]bool {
	needed := make(map[string]bool)
	var visit func(string)
	visit = func(name string) {
		if name == "" || needed[name] {
			return
		}
		needed[name] = true
		for _, up := range p.Upstream(name) {
			visit(up)
		}
	}
	for _, o := range p.Outputs {
		visit(o.From.Module)
	}
	return needed
}

func (g *graph) resolve(r pipelines.Ref, byName map[string]*node) (*node, int, error) {
	if r.Module == "" {
		i := slices.IndexFunc(g.inputs, func(p pipelines.Port) bool { return p.Name == r.Port })
		if i < 0 {
			return nil, 0, fmt.Errorf("gateway: pipeline %q has no input %q", g.deployment.Pipeline.Name, r.Port)
		}
		return nil, i, nil
	}
	n := byName[r.Module]
	if n == nil {
		return nil, 0, fmt.Errorf("gateway: pipeline %q has no module %q", g.deployment.Pipeline.Name, r.Module)
	}
	port := slices.Index(n.outs, r.Port)
	if port < 0 {
		port = len(n.outs)
		n.outs = append(n.outs, r.Port)
	}
	return n, port, nil
}

// bind resolves the inputs of a node and finds its scope.
func (g *graph) bind(n *node, byName map[string]*node) error {
	for _, b := range n.module.Inputs {
		if b.IsConstant() {
			continue // its executors fill it in
		}
		from, port, err := g.resolve(b.From, byName)
		if err != nil {
			return err
		}
		in := input{name: b.Name, from: from, port: port}
		scope := g.root
		if from == nil {
			shape := g.inputs[port].Shape
			in.varies = len(shape) > 0 && shape[0] < 0
		} else {
			scope = from.scope
			if !slices.Contains(from.down, n) {
				from.down = append(from.down, n)
				n.feeders++
			}
		}
		n.inputs = append(n.inputs, in)
		if n.common == nil {
			n.common = scope
		} else {
			n.common = commonLevel(n.common, scope)
		}
	}
	if n.common == nil {
		n.common = g.root
	}
	n.scope = n.common
	if n.scatter = n.module.Scatter; n.scatter {
		n.scope = &level{parent: n.common, depth: n.common.depth + 1, node: n}
	}
	for l := n.scope; l != nil; l = l.parent {
		l.within = append(l.within, n)
	}
	return nil
}

func commonLevel(a, b *level) *level {
	for a != b {
		if a.depth < b.depth {
			a, b = b, a
		}
		a = a.parent
	}
	return a
}

// brought says whether an input is one of the request itself.
func (n *node) brought() bool {
	return slices.ContainsFunc(n.inputs, func(in input) bool { return in.from == nil })
}

// node of a module by name; nil when the graph does not run it.
func (g *graph) node(name string) *node {
	for _, n := range g.nodes {
		if n.name == name {
			return n
		}
	}
	return nil
}
