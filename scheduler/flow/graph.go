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

// commonScope is the scope in whose frames a module runs, as in
// pipelines.Pipeline.CommonScope. Inputs of the pipeline are in scope 0.
func (g *Graph) commonScope(m *pipelines.Module, index map[string]int32) int32 {
	common, deepest := int32(-1), int32(0)
	for _, r := range m.Reads() {
		scope := int32(0)
		if r.Module != "" {
			scope = g.Nodes[index[r.Module]].Scope
		}
		if deepest = max(deepest, scope); common < 0 {
			common = scope
		}
		common = g.around(common, scope)
	}
	common = max(common, 0)
	if to, ok := index[m.Gather]; ok {
		return g.around(common, g.Nodes[to].Scope)
	}
	if m.Gather == pipelines.GatherAround && deepest == common {
		return max(g.Scopes[common].Parent, 0)
	}
	return common
}

// around is the deepest scope that holds both.
func (g *Graph) around(a, b int32) int32 {
	for a != b { // a parent has a lower number than its child
		a, b = min(a, b), g.Scopes[max(a, b)].Parent
	}
	return a
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

// Single reports that the graph is one node that does not scatter: a request is
// one item.
func (g *Graph) Single() bool { return len(g.Nodes) == 1 && !g.Nodes[0].Scatter }

// Item is the run of a node in a frame.
type Item struct {
	Node  int32
	Frame int32
}

// Request is how far a request has come. The zero value is ready for Begin; one
// that is over may begin again and uses its memory again. It must not be copied
// between Begin and the end.
type Request struct {
	graph  *Graph
	left   int32   // nodes with outputs that are not complete
	frames []frame // the request's own first
	cells  []cell  // by Index

	// Room for the nodes of a small graph without a fan-out.
	root [1]frame
	few  [4]cell
}

// frame is one item of a scope.
type frame struct {
	parent int32 // -1 for the request's own
	scope  int32
}

// cell is the state of a node with respect to a frame. Which fields are in use
// follows from the scopes of the two.
type cell struct {
	pending int32 // in a frame of the node's common scope: feeders that are not complete
	left    int32 // in a frame above the node's scope: items below in which it is not complete
	first   int32 // in a frame that the node has split: the first of its items,
	n       int32 // and how many there are
}

// Begin starts a request through the graph. It appends the items that wait for
// nothing but the request's inputs.
func (r *Request) Begin(g *Graph, ready []Item) []Item {
	r.graph, r.left = g, g.outputs
	if r.frames = r.frames[:0]; cap(r.frames) == 0 {
		r.frames = r.root[:0]
	}
	if r.cells = r.cells[:0]; cap(r.cells) == 0 && len(g.Nodes) <= len(r.few) {
		r.cells = r.few[:0]
	}
	r.open(-1, 0)
	for i := range g.Nodes {
		if g.Nodes[i].Feeders == 0 {
			ready = append(ready, Item{Node: int32(i)})
		}
	}
	return ready
}

// open adds a frame.
func (r *Request) open(parent, scope int32) {
	r.frames = append(r.frames, frame{parent: parent, scope: scope})
	r.cells = append(r.cells, r.graph.Scopes[scope].fresh...)
}

func (r *Request) cell(node, frame int32) *cell {
	return &r.cells[int(frame)*len(r.graph.Nodes)+int(node)]
}

// Complete notes that an item has been computed, and appends those that became
// ready by it. Every item completes once at most.
func (r *Request) Complete(it Item, ready []Item) []Item { return r.complete(it.Node, it.Frame, ready) }

// complete notes that a node is complete with respect to a frame, and to the
// frames above whose last part that was.
func (r *Request) complete(node, at int32, ready []Item) []Item {
	n := &r.graph.Nodes[node]
	for {
		f := r.frames[at]
		if f.parent < 0 && n.Output {
			r.left--
		}
		for _, d := range n.Down {
			if r.graph.Nodes[d].Common != f.scope {
				continue
			}
			c := r.cell(d, at)
			if c.pending--; c.pending == 0 {
				ready = append(ready, Item{Node: d, Frame: at})
			}
		}
		if f.parent < 0 {
			return ready
		}
		c := r.cell(node, f.parent)
		if c.left--; c.left > 0 {
			return ready
		}
		at = f.parent
	}
}

// Split opens k frames for an item that is ready at a node that scatters: the
// node runs in the frames from first to first+k-1. Where k is 0, the node and
// all that lie in its scope are complete at once, and what becomes ready by
// that is appended.
func (r *Request) Split(it Item, k int, ready []Item) (first int32, more []Item) {
	n := &r.graph.Nodes[it.Node]
	within := r.graph.Scopes[n.Scope].within
	first = int32(len(r.frames))
	if k == 0 {
		for _, w := range within {
			ready = r.complete(w, it.Frame, ready)
		}
		return first, ready
	}
	for _, w := range within {
		r.cell(w, it.Frame).left = int32(k)
	}
	c := r.cell(it.Node, it.Frame)
	c.first, c.n = first, int32(k)
	for range k {
		r.open(it.Frame, n.Scope)
	}
	return first, ready
}

// Done reports that all outputs are complete.
func (r *Request) Done() bool { return r.left == 0 }

// Len is how many items there may be so far: the bound of Index.
func (r *Request) Len() int { return len(r.cells) }

// Index is the number of an item in the request, by which a driver keeps what
// belongs to it.
func (r *Request) Index(it Item) int { return int(it.Frame)*len(r.graph.Nodes) + int(it.Node) }

// Scope is the scope of a frame.
func (r *Request) Scope(frame int32) int32 { return r.frames[frame].scope }

// Frames appends the frames in which the node runs at or below a frame of the
// request, in order: the frame itself where it is of the node's scope, else
// those of all the items that it has been split into. The node is complete with
// respect to the frame.
func (r *Request) Frames(node, under int32, list []int32) []int32 {
	if r.graph.Nodes[node].Scope == r.frames[under].scope {
		return append(list, under)
	}
	first, n := r.Below(node, under)
	for at := first; at < first+n; at++ {
		list = r.Frames(node, at, list)
	}
	return list
}

// Below are the frames that one above the node's scope has been split into on the way there: the
// first, and how many there are.
func (r *Request) Below(node, under int32) (first, n int32) {
	scope, f := r.graph.Nodes[node].Scope, r.frames[under]
	for r.graph.Scopes[scope].Parent != f.scope {
		scope = r.graph.Scopes[scope].Parent
	}
	c := r.cell(r.graph.Scopes[scope].Node, under)
	return c.first, c.n
}
