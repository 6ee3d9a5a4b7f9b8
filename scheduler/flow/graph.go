package flow

import (
	"fmt"
	"slices"
	"time"

	"github.com/harpagon/harpagon/pipelines"
)

// Graph is a pipeline compiled for running. It does not change once it has been
// scheduled, and any number of requests may share it.
type Graph struct {
	Nodes  []Node  // those that outputs depend on, each after all that feed it
	Scopes []Scope // the request's own first, each after its parent

	outputs int32 // nodes that outputs come from
}

// Node is a module in a graph.
type Node struct {
	Module  string
	Down    []int32 // nodes that it feeds
	Feeders int32   // distinct nodes that feed it
	Output  bool    // an output of the pipeline comes from it

	// The node runs once in every frame of Scope. One that scatters splits each
	// frame of Common into frames of Scope; for others the two are one.
	Scatter bool
	Common  int32
	Scope   int32

	Offset time.Duration // budgets of the modules above, on the longest path
	Budget time.Duration
	Keep   KeptWindows // what is kept of a request's time for the modules below
}

// Scope is a level of fan-out.
type Scope struct {
	Parent int32 // -1 for the request's own
	Node   int32 // the node that scatters into it; -1 for the request's own

	within []int32 // nodes whose scope is this one or lies below it
	fresh  []cell  // of a frame of it, by node
}

// Compile orders the modules that outputs depend on and finds their scopes. A
// pipeline without outputs, as a simulation may have one, runs all modules.
func Compile(p *pipelines.Pipeline) (*Graph, error) {
	order, err := p.Order()
	if err != nil {
		return nil, fmt.Errorf("pipeline %q: %w", p.Name, err)
	}
	outputs := outputModules(p)
	needed := neededModules(p, outputs)
	g := &Graph{Scopes: []Scope{{Parent: -1, Node: -1}}, outputs: int32(len(outputs))}
	index := make(map[string]int32, len(order))
	for _, name := range order {
		if needed[name] {
			index[name] = int32(len(g.Nodes))
			g.add(p, p.Module(name), slices.Contains(outputs, name), index)
		}
	}
	g.prepareFrames()
	return g, nil
}

// outputModules are the modules that outputs come from; where a pipeline has no
// outputs, those that feed no other.
func outputModules(p *pipelines.Pipeline) []string {
	var names []string
	for _, o := range p.Outputs {
		if o.From.Module != "" && !slices.Contains(names, o.From.Module) {
			names = append(names, o.From.Module)
		}
	}
	if len(p.Outputs) > 0 {
		return names
	}
	for _, m := range p.Modules {
		if len(p.Downstream(m.Name)) == 0 {
			names = append(names, m.Name)
		}
	}
	return names
}

// neededModules are those that the given ones depend on, and these.
func neededModules(p *pipelines.Pipeline, outputs []string) map[string]bool {
	needed := map[string]bool{}
	var visit func(name string)
	visit = func(name string) {
		if needed[name] {
			return
		}
		needed[name] = true
		for _, up := range p.Upstream(name) {
			visit(up)
		}
	}
	for _, name := range outputs {
		visit(name)
	}
	return needed
}

// add appends the node of a module, all of whose feeders are in index.
func (g *Graph) add(p *pipelines.Pipeline, m *pipelines.Module, output bool, index map[string]int32) {
	at := int32(len(g.Nodes))
	n := Node{Module: m.Name, Output: output, Scatter: m.Scatter, Common: g.commonScope(m, index)}
	for _, up := range p.Upstream(m.Name) {
		above := &g.Nodes[index[up]]
		above.Down = append(above.Down, at)
		n.Feeders++
	}
	n.Scope = n.Common
	if n.Scatter {
		n.Scope = int32(len(g.Scopes))
		g.Scopes = append(g.Scopes, Scope{Parent: n.Common, Node: at})
	}
	g.Nodes = append(g.Nodes, n)
}

// commonScope is the deepest scope that holds all inputs of a module, as in
// pipelines.Pipeline.CommonScope. Inputs of the pipeline are in scope 0.
func (g *Graph) commonScope(m *pipelines.Module, index map[string]int32) int32 {
	common := int32(-1)
	for _, in := range m.Inputs {
		if in.IsConstant() {
			continue
		}
		scope := int32(0)
		if in.From.Module != "" {
			scope = g.Nodes[index[in.From.Module]].Scope
		}
		if common < 0 {
			common = scope
		}
		for common != scope { // a parent has a lower number than its child
			common, scope = min(common, scope), g.Scopes[max(common, scope)].Parent
		}
	}
	return max(common, 0)
}

// prepareFrames finds what lies within each scope, and how its frames begin.
func (g *Graph) prepareFrames() {
	for at := range g.Scopes {
		g.Scopes[at].fresh = make([]cell, len(g.Nodes))
	}
	for i := range g.Nodes {
		n := &g.Nodes[i]
		g.Scopes[n.Common].fresh[i].pending = n.Feeders
		for s := n.Scope; s >= 0; s = g.Scopes[s].Parent {
			g.Scopes[s].within = append(g.Scopes[s].within, int32(i))
		}
	}
}

// Node is the place of a module in Nodes; -1 where the graph does not run it.
func (g *Graph) Node(module string) int {
	return slices.IndexFunc(g.Nodes, func(n Node) bool { return n.Module == module })
}

// Single says that the graph is one node that does not scatter: a request is
// one item.
func (g *Graph) Single() bool { return len(g.Nodes) == 1 && !g.Nodes[0].Scatter }
