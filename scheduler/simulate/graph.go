package simulate

import (
	"fmt"
	"slices"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/plan/timing"
)

// graph is a pipeline compiled for running, by the rules of the gateway: only
// modules that outputs need, and for each the scope of items that it runs in.
type graph struct {
	nodes   []node  // each after all that feed it
	parents []int32 // of the scopes, by index; the request's own scope is 0, with parent -1
	sources int32   // distinct nodes that outputs come from
	simple  bool    // one node that does not scatter: an item is a request
}

// node is a module in a graph.
type node struct {
	module  string
	station int32
	class   int32
	down    []int32
	feeders int32 // distinct nodes that feed it
	source  bool

	// The node runs once in every frame of scope. One that scatters splits the
	// frames of common into those of scope; for others the two are one.
	scatter bool
	fanout  float64
	common  int32
	scope   int32
	within  []int32 // of one that scatters: the nodes whose scope is its own or lies below

	offset time.Duration // budgets above, on the longest path
	budget time.Duration
	tail   timing.Kept // for the modules below
	tally  moduleTally
}

// compile orders the modules and finds their scopes.
func compile(p *pipelines.Pipeline) (graph, error) {
	order, err := p.Order()
	if err != nil {
		return graph{}, fmt.Errorf("simulate: pipeline %q: %w", p.Name, err)
	}
	outputs := outputsOf(p)
	needed := neededFor(p, outputs)
	g := graph{parents: []int32{-1}}
	index := map[string]int32{}
	scopes := map[string]int32{"": 0} // by the scope written out
	for _, name := range order {
		if !needed[name] {
			continue
		}
		m := p.Module(name)
		n := node{module: name, scatter: m.Scatter, fanout: m.Fanout, source: slices.Contains(outputs, name)}
		n.common = g.scope(p.CommonScope(name), scopes)
		n.scope = g.scope(p.Scope(name), scopes)
		at := int32(len(g.nodes))
		for _, up := range p.Upstream(name) {
			g.nodes[index[up]].down = append(g.nodes[index[up]].down, at)
			n.feeders++
		}
		if n.source {
			g.sources++
		}
		index[name] = at
		g.nodes = append(g.nodes, n)
	}
	if len(g.nodes) == 0 {
		return graph{}, fmt.Errorf("simulate: pipeline %q has no modules", p.Name)
	}
	for i := range g.nodes {
		if g.nodes[i].scatter {
			g.nodes[i].within = g.below(g.nodes[i].scope)
		}
	}
	g.simple = len(g.nodes) == 1 && !g.nodes[0].scatter
	return g, nil
}

// outputsOf are the modules that outputs come from; the last modules where a
// pipeline was built without outputs.
func outputsOf(p *pipelines.Pipeline) []string {
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

func neededFor(p *pipelines.Pipeline, outputs []string) map[string]bool {
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

// scope is the index of a chain of scattering modules.
func (g *graph) scope(chain []string, known map[string]int32) int32 {
	at, text := int32(0), ""
	for _, name := range chain {
		text += name + "\x00"
		next, ok := known[text]
		if !ok {
			next = int32(len(g.parents))
			g.parents = append(g.parents, at)
			known[text] = next
		}
		at = next
	}
	return at
}

// below are the nodes whose scope is the given one or lies within it.
func (g *graph) below(scope int32) []int32 {
	var list []int32
	for i := range g.nodes {
		for s := g.nodes[i].scope; s >= 0; s = g.parents[s] {
			if s == scope {
				list = append(list, int32(i))
			}
		}
	}
	return list
}

// schedule fills in the times of the nodes: budgets are those given by module;
// tails are the sums of what the modules below keep for themselves.
func (g *graph) schedule(budget map[string]time.Duration, keep map[string]timing.Kept) {
	for i := range g.nodes {
		n := &g.nodes[i]
		n.budget = budget[n.module]
		for _, d := range n.down {
			g.nodes[d].offset = max(g.nodes[d].offset, n.offset+n.budget)
		}
	}
	for i := len(g.nodes) - 1; i >= 0; i-- {
		n := &g.nodes[i]
		for _, d := range n.down {
			n.tail = n.tail.Max(g.nodes[d].tail.Plus(keep[g.nodes[d].module]))
		}
	}
}
