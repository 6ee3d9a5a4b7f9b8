package gateway

import (
	"sync"
	"sync/atomic"

	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/wire"
)

// request is one accepted request on its way through a graph.
type request struct {
	graph    *graph
	inputs   []wire.Tensor // in the order of graph.inputs
	arrival  dispatch.Time
	deadline dispatch.Time // 0 when there is none
	done     chan struct{} // closed when it is over

	over    atomic.Bool // set under mu; read without by stations
	entered bool        // admission control counts its items; under the lock of its books

	mu     sync.Mutex
	err    *wire.Error
	root   frame
	left   int     // nodes with outputs that are not complete at the root
	items  *item   // all of them, linked by next
	last   *item   // the one that completed the outputs
	counts []tally // by node

	// Room for the nodes of a small graph, so that a request is one piece.
	fewCells  [few]cell
	fewCounts [few]tally
}

// few nodes need no memory of their own.
const few = 4

// tally is what the stages need to know of a node.
type tally struct {
	items int
	last  *item // that ended last
}

// frame is one item of a level: the values that belong to it.
type frame struct {
	level  *level
	parent *frame
	cells  []cell // by node
}

// cell is the state of a node with respect to a frame. Which fields are in use
// follows from the levels of node and frame.
type cell struct {
	values  []wire.Tensor // frame of the node's scope: its outputs
	kids    []frame       // frame that the node has split: the items
	pending int           // frame of the node's common scope: feeders not complete
	left    int           // frame above the node's scope: kids without it
	done    bool          // complete with respect to this frame
}

// item is the run of one node for one frame.
type item struct {
	req    *request
	node   *node
	frame  *frame
	cause  *item // whose end made this one ready; nil for the arrival
	next   *item
	inputs []wire.Tensor // in the order of node.inputs

	// The station's, under its lock until the item has ended.
	state    itemState
	attempts int8
	tail     dispatch.Time // kept for the modules below
	batch    int32
	id       dispatch.RequestID
	times
}

type itemState uint8

const (
	fresh itemState = iota
	queued
	sent
	ended
)

// times of an item on the gateway's clock.
type times struct {
	ready, start, end    dispatch.Time
	queue, wait, compute dispatch.Time
}

func newRequest(g *graph, inputs []wire.Tensor, arrival, deadline dispatch.Time) *request {
	r := &request{
		graph: g, inputs: inputs, arrival: arrival, deadline: deadline,
		done: make(chan struct{}), left: g.sources,
	}
	r.root.level = g.root
	if n := len(g.nodes); n <= few {
		r.root.cells, r.counts = r.fewCells[:n], r.fewCounts[:n]
	} else {
		r.root.cells, r.counts = make([]cell, n), make([]tally, n)
	}
	r.root.init(g)
	return r
}

func (f *frame) init(g *graph) {
	for i, n := range g.nodes {
		if n.common == f.level {
			f.cells[i].pending = n.feeders
		}
	}
}

// begin launches what waits for nothing but the request's inputs.
func (r *request) begin() {
	r.mu.Lock()
	var ready []*item
	var err *wire.Error
	for _, n := range r.graph.nodes {
		if n.feeders == 0 && err == nil {
			ready, err = r.launch(n, &r.root, nil, ready)
		}
	}
	over := r.settle(nil, err)
	r.mu.Unlock()
	r.proceed(ready, over)
}

// complete takes the outputs of an item, in the order of its node's outs.
func (r *request) complete(it *item, values []wire.Tensor) {
	r.mu.Lock()
	if r.over.Load() {
		r.mu.Unlock()
		return
	}
	t := &r.counts[it.node.index]
	if t.last == nil || it.end >= t.last.end {
		t.last = it
	}
	it.frame.cells[it.node.index].values = values
	ready, err := r.mark(it.node, it.frame, it, nil)
	over := r.settle(it, err)
	r.mu.Unlock()
	r.proceed(ready, over)
}

// fail ends the request with an error; the first end counts.
func (r *request) fail(err *wire.Error) {
	r.mu.Lock()
	over := r.settle(nil, err)
	r.mu.Unlock()
	r.proceed(nil, over)
}

// settle ends the request when there is an error or nothing left to wait for.
// It says whether it has done so just now.
func (r *request) settle(it *item, err *wire.Error) bool {
	if r.over.Load() || (err == nil && r.left > 0) {
		return false
	}
	r.err, r.last = err, it
	r.over.Store(true)
	return true
}

// proceed hands new items to their stations, or takes back what still waits
// when the request is over.
func (r *request) proceed(ready []*item, over bool) {
	if over {
		if r.err != nil {
			r.withdraw()
		}
		close(r.done)
		return
	}
	for _, it := range ready {
		it.node.station.submit(it)
	}
}

// withdraw removes the request's waiting items. No item is added once it is
// over, and submit looks at over under the station's lock.
func (r *request) withdraw() {
	for it := r.items; it != nil; it = it.next {
		it.node.station.withdraw(it)
	}
}

// mark notes that a node is complete with respect to a frame, launches what
// waited for that, and goes on to the frame above when its last part is there.
func (r *request) mark(n *node, f *frame, cause *item, ready []*item) ([]*item, *wire.Error) {
	c := &f.cells[n.index]
	c.done = true
	if f.parent == nil && n.source {
		r.left--
	}
	for _, d := range n.down {
		if d.common != f.level {
			continue
		}
		if f.cells[d.index].pending--; f.cells[d.index].pending > 0 {
			continue
		}
		var err *wire.Error
		if ready, err = r.launch(d, f, cause, ready); err != nil {
			return ready, err
		}
	}
	if f.parent == nil {
		return ready, nil
	}
	up := &f.parent.cells[n.index]
	if up.left--; up.left > 0 {
		return ready, nil
	}
	return r.mark(n, f.parent, cause, ready)
}

// launch makes the items of a node in a frame of its common scope.
func (r *request) launch(n *node, f *frame, cause *item, ready []*item) ([]*item, *wire.Error) {
	inputs := make([]wire.Tensor, len(n.inputs))
	for j, in := range n.inputs {
		if in.from == nil {
			inputs[j] = r.inputs[in.port]
			continue
		}
		var err *wire.Error
		if inputs[j], err = collect(in.from, in.port, f); err != nil {
			return ready, err
		}
	}
	if !n.scatter {
		return append(ready, r.item(n, f, cause, inputs)), nil
	}
	return r.scatter(n, f, cause, inputs, ready)
}

func (r *request) item(n *node, f *frame, cause *item, inputs []wire.Tensor) *item {
	it := &item{req: r, node: n, frame: f, cause: cause, inputs: inputs, next: r.items}
	r.items = it
	r.counts[n.index].items++
	return it
}

// scatter opens a frame for every row of the inputs. Without any row all nodes
// within are complete at once.
func (r *request) scatter(n *node, f *frame, cause *item, inputs []wire.Tensor, ready []*item) ([]*item, *wire.Error) {
	rows, k, err := split(n, inputs)
	if err != nil {
		return ready, err
	}
	nodes := len(r.graph.nodes)
	kids := make([]frame, k)
	cells := make([]cell, k*nodes)
	for i := range kids {
		kids[i] = frame{level: n.scope, parent: f, cells: cells[i*nodes : (i+1)*nodes : (i+1)*nodes]}
		kids[i].init(r.graph)
		ready = append(ready, r.item(n, &kids[i], cause, rows[i]))
	}
	f.cells[n.index].kids = kids
	for _, w := range n.scope.within {
		f.cells[w.index].left = k
	}
	if k > 0 {
		return ready, nil
	}
	for _, w := range n.scope.within {
		if ready, err = r.mark(w, f, cause, ready); err != nil {
			return ready, err
		}
	}
	return ready, nil
}
