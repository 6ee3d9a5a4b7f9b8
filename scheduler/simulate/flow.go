package simulate

import "github.com/harpagon/harpagon/scheduler/dispatch"

// request is a request of a pipeline of several nodes on its way.
type request struct {
	app      int32
	arrival  Time
	left     int32 // nodes with outputs that are not complete
	items    int32 // the latest, linked by next; -1 for none
	frames   int32 // the latest, linked by next; -1 for none
	measured bool
	over     bool
}

// frame is one item of a scope: the request itself, or one of the items that a
// node has split it into.
type frame struct {
	parent int32 // -1 for the request's own
	scope  int32
	next   int32 // frame of the same request
}

// cell is the state of a node with respect to a frame.
type cell struct {
	pending int32 // frame of the node's common scope: feeders that are not complete
	left    int32 // frame above the node's scope: items in which it is not complete
}

// open begins a request: it launches what waits for nothing.
func (e *engine) open(at int32, arrival Time, measured bool) {
	a := &e.apps[at]
	r := int32(len(e.requests))
	if n := len(e.freeReqs); n > 0 {
		r, e.freeReqs = e.freeReqs[n-1], e.freeReqs[:n-1]
	} else {
		e.requests = append(e.requests, request{})
	}
	e.requests[r] = request{app: at, arrival: arrival, left: a.sources, items: -1, frames: -1, measured: measured}
	root := e.frame(r, a, -1, 0)
	for i := range a.nodes {
		if a.nodes[i].feeders > 0 {
			continue
		}
		e.launch(r, a, int32(i), root)
		if e.requests[r].over {
			break
		}
	}
	e.finish(r)
}

// frame makes a frame of the scope.
func (e *engine) frame(r int32, a *app, parent, scope int32) int32 {
	f := int32(len(a.frames))
	if n := len(a.freeFrames); n > 0 {
		f, a.freeFrames = a.freeFrames[n-1], a.freeFrames[:n-1]
	} else {
		a.frames = append(a.frames, frame{})
		for range a.nodes {
			a.cells = append(a.cells, cell{})
		}
	}
	a.frames[f] = frame{parent: parent, scope: scope, next: e.requests[r].frames}
	e.requests[r].frames = f
	for i := range a.nodes {
		c := cell{}
		if a.nodes[i].common == scope {
			c.pending = a.nodes[i].feeders
		}
		*a.cell(f, int32(i)) = c
	}
	return f
}

func (a *app) cell(frame, node int32) *cell { return &a.cells[int(frame)*len(a.nodes)+int(node)] }

// launch makes the items of a node in a frame of its common scope.
func (e *engine) launch(r int32, a *app, node, f int32) {
	n := &a.nodes[node]
	if !n.scatter {
		e.put(r, a, node, f)
		return
	}
	k := drawFanout(a.fan, n.fanout, e.spread)
	for _, w := range n.within {
		a.cell(f, w).left = int32(k)
	}
	first := e.requests[r].frames
	for range k {
		e.frame(r, a, f, n.scope)
	}
	for kid := e.requests[r].frames; kid != first; {
		next := a.frames[kid].next
		e.put(r, a, node, kid)
		if e.requests[r].over {
			return
		}
		kid = next
	}
	for _, w := range n.within {
		if k == 0 && !e.requests[r].over {
			e.mark(r, a, w, f)
		}
	}
}

// put makes an item and hands it over. A policy may drop it at once, and the
// request is over then.
func (e *engine) put(r int32, a *app, node, f int32) {
	i := e.newItem()
	it, q := &e.items[i], &e.requests[r]
	it.arrival, it.node, it.app, it.request, it.frame, it.measured = q.arrival, node, q.app, r, f, q.measured
	it.next, q.items = q.items, i
	e.submit(i)
}

// mark notes that a node is complete with respect to a frame, launches what
// waited for that, and goes on to the frame above when its last part is there.
func (e *engine) mark(r int32, a *app, node, f int32) {
	e.visit(r, a, node, f)
	e.finish(r)
}

func (e *engine) visit(r int32, a *app, node, f int32) {
	if e.requests[r].over {
		return
	}
	if a.frames[f].parent < 0 && a.nodes[node].source {
		e.requests[r].left--
	}
	for _, d := range a.nodes[node].down {
		if a.nodes[d].common != a.frames[f].scope {
			continue
		}
		c := a.cell(f, d)
		if c.pending--; c.pending > 0 {
			continue
		}
		e.launch(r, a, d, f)
		if e.requests[r].over {
			return
		}
	}
	above := a.frames[f].parent
	if above < 0 {
		return
	}
	up := a.cell(above, node)
	if up.left--; up.left > 0 {
		return
	}
	e.visit(r, a, node, above)
}

// finish answers a request that waits for nothing more.
func (e *engine) finish(r int32) {
	q := &e.requests[r]
	if q.over || q.left > 0 {
		return
	}
	e.answer(&e.apps[q.app], q.arrival, q.measured)
	e.close(r)
}

// close ends a request: what waits of it is taken back, what runs goes on for
// nobody, and its memory is used again.
func (e *engine) close(r int32) {
	q := &e.requests[r]
	q.over = true
	e.left(q.app, q.arrival, q.left == 0)
	a := &e.apps[q.app]
	for f := q.frames; f >= 0; {
		next := a.frames[f].next
		a.freeFrames = append(a.freeFrames, f)
		f = next
	}
	for i := q.items; i >= 0; {
		next := e.items[i].next
		e.withdraw(i)
		i = next
	}
	e.freeReqs = append(e.freeReqs, r)
}

// withdraw takes an item of a request that is over out of wherever it is.
func (e *engine) withdraw(i int32) {
	it := &e.items[i]
	switch it.state {
	case done:
		e.freeItem(i)
	case sent, fell:
		it.orphan = true
	case waiting:
		n := &e.apps[it.app].nodes[it.node]
		if it.measured {
			n.tally.withdrawn++
		}
		ev := dispatch.Event{Kind: dispatch.Cancel, Request: e.known(i)}
		e.waits(it, -1)
		e.freeItem(i)
		e.step(n.station, ev)
	}
}
