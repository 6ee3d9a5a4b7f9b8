package gateway

import (
	"sync"
	"sync/atomic"

	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/flow"
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
	flow   flow.Request
	values [][]wire.Tensor // outputs of items, by flow.Request.Index
	items  *item           // all of them, linked by next
	last   *item           // the one that completed the outputs
	counts []tally         // by node

	function *functionRequest // nil unless a function serves it

	// Room for the nodes of a small graph, so that a request is one piece.
	fewValues [few][]wire.Tensor
	fewCounts [few]tally
	firstItem item
}

// few nodes need no memory of their own.
const few = 4

// tally is what the stages need to know of a node.
type tally struct {
	items int
	last  *item // that ended last
}

// item is the run of one node for one frame.
type item struct {
	req    *request
	node   *node
	frame  int32 // of the request's flow
	cause  *item // whose end made this one ready; nil for the arrival
	next   *item
	inputs []wire.Tensor // in the order of node.inputs

	// The station's, under its lock until the item has ended.
	state    itemState
	attempts int8
	kept     dispatch.Time // of the request's time for the modules below
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
	r := new(request)
	r.init(g, inputs, arrival, deadline)
	return r
}

func (r *request) init(g *graph, inputs []wire.Tensor, arrival, deadline dispatch.Time) {
	r.graph, r.inputs, r.arrival, r.deadline, r.done = g, inputs, arrival, deadline, make(chan struct{})
	if n := len(g.nodes); n <= few {
		r.values, r.counts = r.fewValues[:n], r.fewCounts[:n]
	} else {
		r.values, r.counts = make([][]wire.Tensor, n), make([]tally, n)
	}
}

// begin launches what waits for nothing but the request's inputs.
func (r *request) begin() {
	var ready [few]flow.Item
	var items [few]*item
	r.mu.Lock()
	launched, err := r.launch(r.flow.Begin(r.graph.Graph, ready[:0]), nil, items[:0])
	over := r.settle(nil, err)
	r.mu.Unlock()
	r.proceed(launched, over)
}

// complete takes the outputs of an item, in the order of its node's outs.
func (r *request) complete(it *item, values []wire.Tensor) {
	var ready [few]flow.Item
	var items [few]*item
	r.mu.Lock()
	if r.over.Load() {
		r.mu.Unlock()
		return
	}
	t := &r.counts[it.node.index]
	if t.last == nil || it.end >= t.last.end {
		t.last = it
	}
	at := flow.Item{Node: int32(it.node.index), Frame: it.frame}
	r.values[r.flow.Index(at)] = values
	launched, err := r.launch(r.flow.Complete(at, ready[:0]), it, items[:0])
	over := r.settle(it, err)
	r.mu.Unlock()
	r.proceed(launched, over)
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
	if r.over.Load() || (err == nil && !r.flow.Done()) {
		return false
	}
	r.err, r.last = err, it
	r.over.Store(true)
	return true
}

// proceed hands new items to their stations, or takes back what still waits
// when the request is over.
func (r *request) proceed(items []*item, over bool) {
	if over {
		if r.err != nil {
			r.withdraw()
		}
		close(r.done)
		return
	}
	for _, it := range items {
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

// launch makes the items of what is ready, with their inputs. A node that
// scatters has one for every row of its inputs.
func (r *request) launch(ready []flow.Item, cause *item, items []*item) ([]*item, *wire.Error) {
	for i := 0; i < len(ready); i++ {
		at := ready[i]
		n := r.graph.nodes[at.Node]
		inputs, err := r.gatherInputs(n, at.Frame)
		if err != nil {
			return items, err
		}
		if !n.Scatter {
			it := &r.firstItem
			if r.items != nil {
				it = new(item)
			}
			it.node, it.frame, it.cause, it.inputs = n, at.Frame, cause, inputs
			items = append(items, r.link(it))
			continue
		}
		rows, k, err := split(n, inputs)
		if err != nil {
			return items, err
		}
		var first int32
		first, ready = r.flow.Split(at, k, ready)
		r.values = append(r.values, make([][]wire.Tensor, r.flow.Len()-len(r.values))...)
		made, width := make([]item, k), len(inputs)
		for row := range made {
			made[row] = item{node: n, frame: first + int32(row), cause: cause, inputs: rows[row*width : (row+1)*width : (row+1)*width]}
			items = append(items, r.link(&made[row]))
		}
	}
	return items, nil
}

// link notes an item of the request.
func (r *request) link(it *item) *item {
	it.req, it.next = r, r.items
	r.items = it
	r.counts[it.node.index].items++
	return it
}

// gatherInputs collects the inputs of a node in a frame of its common scope.
func (r *request) gatherInputs(n *node, frame int32) ([]wire.Tensor, *wire.Error) {
	if r.function != nil {
		return r.inputs, nil // its module takes what the request brings
	}
	inputs := make([]wire.Tensor, len(n.inputs))
	for j, in := range n.inputs {
		if in.from == nil {
			inputs[j] = r.inputs[in.port]
			continue
		}
		var err *wire.Error
		if inputs[j], err = r.collect(in.from, in.port, frame); err != nil {
			return nil, err
		}
	}
	return inputs, nil
}
