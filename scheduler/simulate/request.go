package simulate

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/dispatch/admission"
	"github.com/harpagon/harpagon/scheduler/flow"
	"github.com/harpagon/harpagon/scheduler/plan"
)

// node is a module of a pipeline with what the simulator keeps beside it.
type node struct {
	*flow.Node
	station int32
	class   int32
	of      *pipelines.Module
	coin    uint64  // above zero where it has a condition, the same for all that have this one
	holds   float64 // in which share of items that holds
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
		of := *p.Module(g.Nodes[i].Module)
		nodes[i] = node{Node: &g.Nodes[i], of: &of}
		if of.IsConditional() {
			same := func(n node) bool { return n.of.When == of.When }
			nodes[i].coin = uint64(slices.IndexFunc(nodes[:i+1], same)) + 1
			nodes[i].holds = holds(p, of.When)
		}
	}
	return g, nodes, nil
}

// holds is the share of items in which a condition holds, by the modules that have it. An
// undeclared share counts as 1; where both when and else are used, shares are scaled to sum
// to 1.
func holds(p *pipelines.Pipeline, when pipelines.Ref) float64 {
	share := map[bool]float64{}
	for i := range p.Modules {
		if m := &p.Modules[i]; m.IsConditional() && m.When == when {
			share[m.Else] = max(share[m.Else], m.Fanout)
		}
	}
	switch yes, no := share[false], share[true]; {
	case no == 0:
		return yes
	case yes == 0:
		return 1 - no
	default:
		return yes / (yes + no)
	}
}

// request is a request on its way through a pipeline of several nodes.
type request struct {
	flow.Request
	load     int32
	stream   int32
	number   int64 // of the frame; 0 where no module keeps state
	arrival  Time
	spent    Time   // of devices
	items    int32  // the latest, linked by next; -1 for none
	coin     uint64 // of its conditions; zero before the first is looked at
	measured bool
	over     bool
}

// open begins a request.
func (e *engine) open(at int32, arrival Time, stream int32, number int64, measured bool) {
	r := int32(len(e.requests))
	if n := len(e.freeRequests); n > 0 {
		r, e.freeRequests = e.freeRequests[n-1], e.freeRequests[:n-1]
	} else {
		e.requests = append(e.requests, new(request))
	}
	q := e.requests[r]
	q.stream, q.number = stream, number
	q.load, q.arrival, q.spent, q.items, q.coin, q.measured, q.over = at, arrival, 0, -1, 0, measured, false
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
		k := int32(e.divide(q, n, it.Frame))
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
		e.answer(a, q.arrival, q.spent, q.stream, q.measured)
		e.close(r)
	}
}

// divide draws how many items there are of one at a node that scatters. Of when and else of one
// condition, one holds.
func (e *engine) divide(q *request, n *node, frame int32) int {
	if n.coin == 0 {
		return DrawFanout(e.loads[q.load].fan, n.of, e.spread)
	}
	if q.coin == 0 {
		q.coin = e.loads[q.load].fan.Uint64() | 1
	}
	var toss rand.PCG
	toss.Seed(q.coin, n.coin<<32|uint64(frame))
	if u := float64(toss.Uint64()>>11) / (1 << 53); (u < n.holds) != n.of.Else {
		return 1
	}
	return 0
}

// addItem makes an item and hands it to its station.
func (e *engine) addItem(r int32, of flow.Item, more bool) {
	i := e.newItem()
	it, q := &e.items[i], e.requests[r]
	it.arrival, it.node, it.load, it.request, it.frame, it.measured = q.arrival, of.Node, q.load, r, of.Frame, q.measured
	it.next, q.items = q.items, i
	e.enter(i, q.stream, q.number, more)
}

// close ends a request: what waits of it is taken back, the results of what runs are
// discarded, and its memory is used again.
func (e *engine) close(r int32) {
	q := e.requests[r]
	q.over = true
	e.leave(q.load, q.arrival, q.Done())
	e.countSpent(q.load, q.spent, q.Done() && e.now <= q.arrival+e.loads[q.load].slo)
	e.gone(q.load, q.stream, q.number) // first, so that no item is let in that is taken back
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
	case done, held:
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

// addAdmission registers a planned pipeline with admission control.
func (e *engine) addAdmission(at int, declared *pipelines.Pipeline, p *plan.Plan) {
	a := &e.loads[at]
	var modules []string
	for i := range a.nodes {
		modules = append(modules, a.nodes[i].Module)
	}
	devices := func(module string, group int) (list []int) {
		for i := range a.nodes {
			if a.nodes[i].Module != module {
				continue
			}
			for _, l := range e.stations[a.nodes[i].station].lanes {
				if int(l.group) == group {
					list = append(list, int(l.device))
				}
			}
		}
		return list
	}
	if e.admission == nil {
		e.admission = new(admission.Controller)
	}
	a.number = e.admission.Add(flow.AdmissionService(declared, p, modules, devices))
}

// admit decides whether a request that comes now is taken in.
func (e *engine) admit(at int32, arrival Time) bool {
	if e.admission == nil {
		return true
	}
	deadline := max(1, arrival+e.loads[at].slo)
	if !e.admission.Admit(e.now, e.loads[at].number, deadline) {
		return false
	}
	e.admission.Enter(e.loads[at].number) // its items wait before anything else comes
	return true
}

// leave reports to admission control how a request ended.
func (e *engine) leave(at int32, arrival Time, answered bool) {
	if e.admission != nil {
		deadline := max(1, arrival+e.loads[at].slo)
		how := admission.InTime
		switch {
		case !answered:
			how = admission.GivenUp
		case e.now > deadline:
			how = admission.Late
		}
		e.admission.Leave(e.now, e.loads[at].number, deadline, how)
	}
}

// fits reports whether so many items that a request was split into can be in time.
func (e *engine) fits(a *loadState, node int32, k int, arrival Time) bool {
	return e.admission == nil || e.dropping != "" || e.admission.Fits(e.now, a.number, int(node), k, max(1, arrival+a.slo-a.nodes[node].Keep.Least))
}

// countSpent reports to admission control the device time of a request that has ended.
func (e *engine) countSpent(at int32, took Time, useful bool) {
	if e.admission != nil {
		e.admission.Spent(e.now, e.loads[at].number, took, useful)
	}
}

// countWaiting counts an item into the queue of its module, or out of it.
func (e *engine) countWaiting(it *item, n int) {
	if e.admission != nil {
		e.admission.AddWaiting(e.loads[it.load].number, int(it.node), n)
	}
}

// batchEnded notes that a batch has come back, or was lost where its time is zero.
func (e *engine) batchEnded(items []int32, group int, sent, took, all Time) {
	if len(items) == 0 {
		return
	}
	if first := &e.items[items[0]]; e.admission != nil {
		e.admission.Returned(e.loads[first.load].number, int(first.node), len(items), sent)
		e.admission.Learn(e.now, e.loads[first.load].number, int(first.node), group, len(items), took, all)
	}
	each := took / Time(len(items))
	for _, i := range items {
		switch it := &e.items[i]; {
		case it.abandoned:
			e.countSpent(it.load, each, false)
		case it.request >= 0:
			e.requests[it.request].spent += each
		}
	}
}
