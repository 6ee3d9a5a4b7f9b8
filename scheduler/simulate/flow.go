package simulate

import (
	"fmt"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/flow"
)

// node is a module of a pipeline with what the simulator keeps beside it.
type node struct {
	*flow.Node
	station int32
	class   int32
	fanout  float64 // items on average, where it scatters
	kept    Time    // of the objective, for the modules below; see Dropping
	tally   moduleTally
}

// compile makes the nodes of a pipeline.
func compile(p *pipelines.Pipeline) (*flow.Graph, []node, error) {
	g, err := flow.Compile(p)
	if err != nil {
		return nil, nil, fmt.Errorf("simulate: %w", err)
	}
	if len(g.Nodes) == 0 {
		return nil, nil, fmt.Errorf("simulate: pipeline %q has no modules", p.Name)
	}
	nodes := make([]node, len(g.Nodes))
	for i := range nodes {
		nodes[i] = node{Node: &g.Nodes[i], fanout: p.Module(g.Nodes[i].Module).Fanout}
	}
	return g, nodes, nil
}

// request is a request on its way through a pipeline of several nodes.
type request struct {
	flow.Request
	load     int32
	arrival  Time
	spent    Time  // of devices
	items    int32 // the latest, linked by next; -1 for none
	measured bool
	over     bool
}

// open begins a request.
func (e *engine) open(at int32, arrival Time, measured bool) {
	r := int32(len(e.requests))
	if n := len(e.freeRequests); n > 0 {
		r, e.freeRequests = e.freeRequests[n-1], e.freeRequests[:n-1]
	} else {
		e.requests = append(e.requests, new(request))
	}
	q := e.requests[r]
	q.load, q.arrival, q.spent, q.items, q.measured, q.over = at, arrival, 0, -1, measured, false
	e.launch(r, q.Begin(e.loads[at].graph, e.ready[:0]))
}

// launch hands items that are ready to their stations, split where their node
// scatters, and answers a request that waits for nothing more. A policy may
// drop an item at once, and the request is over then.
func (e *engine) launch(r int32, ready []flow.Item) {
	q := e.requests[r]
	a := &e.loads[q.load]
	items, fits := e.launched[:0], true
	for i := 0; i < len(ready); i++ {
		it := ready[i]
		n := &a.nodes[it.Node]
		if !n.Scatter {
			items = append(items, it)
			continue
		}
		k := int32(DrawFanout(a.fan, n.fanout, e.spread))
		var first int32
		first, ready = q.Split(it, int(k), ready)
		for f := first; f < first+k; f++ {
			items = append(items, flow.Item{Node: it.Node, Frame: f})
		}
		fits = fits && e.fits(a, it.Node, int(k), q.arrival)
	}
	e.ready, e.launched = ready, items
	if !fits {
		e.miss(a, q.measured, dispatch.Late)
		e.close(r)
		return
	}
	for i := 0; i < len(items) && !q.over; i++ {
		e.addItem(r, items[i], i+1 < len(items) && items[i+1].Node == items[i].Node)
	}
	if !q.over && q.Done() {
		e.answer(a, q.arrival, q.spent, q.measured)
		e.close(r)
	}
}

// addItem makes an item and hands it to its station.
func (e *engine) addItem(r int32, of flow.Item, more bool) {
	i := e.newItem()
	it, q := &e.items[i], e.requests[r]
	it.arrival, it.node, it.load, it.request, it.frame, it.measured = q.arrival, of.Node, q.load, r, of.Frame, q.measured
	it.next, q.items = q.items, i
	e.submit(i, more)
}

// close ends a request: what waits of it is taken back, what runs goes on for
// nobody, and its memory is used again.
func (e *engine) close(r int32) {
	q := e.requests[r]
	q.over = true
	e.leave(q.load, q.arrival, q.Done())
	e.countSpent(q.load, q.spent, q.Done() && e.now <= q.arrival+e.loads[q.load].slo)
	for i := q.items; i >= 0; {
		next := e.items[i].next
		e.withdraw(i)
		i = next
	}
	e.freeRequests = append(e.freeRequests, r)
}

// withdraw takes an item of a request that is over out of wherever it is.
func (e *engine) withdraw(i int32) {
	it := &e.items[i]
	switch it.state {
	case done:
		e.freeItem(i)
	case sent, dropped:
		it.abandoned = true
	case waiting:
		n := &e.loads[it.load].nodes[it.node]
		if it.measured {
			n.tally.withdrawn++
		}
		ev := dispatch.Event{Kind: dispatch.Cancel}
		e.describe(i, &ev.Request)
		e.countWaiting(it, -1)
		e.freeItem(i)
		e.step(n.station, &ev)
	}
}
