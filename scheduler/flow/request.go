package flow

// Item is the run of a node in a frame.
type Item struct {
	Node  int32
	Frame int32
}

// Request is how far a request has come. The zero value is ready for Begin; one
// that is over may begin anew and uses its memory again. It must not be copied
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

// Done says that all outputs are complete.
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
	scope, f := r.graph.Nodes[node].Scope, r.frames[under]
	if scope == f.scope {
		return append(list, under)
	}
	for r.graph.Scopes[scope].Parent != f.scope {
		scope = r.graph.Scopes[scope].Parent
	}
	c := r.cell(r.graph.Scopes[scope].Node, under)
	for at := c.first; at < c.first+c.n; at++ {
		list = r.Frames(node, at, list)
	}
	return list
}
