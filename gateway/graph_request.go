package gateway

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/harpagon/harpagon/dispatcher"
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/dispatch/admission"
	"github.com/harpagon/harpagon/scheduler/flow"
	"github.com/harpagon/harpagon/wire"
)

// Request is one accepted request on its way through a graph. Make it with Init.
type Request struct {
	dispatcher.Request
	Graph  *Graph
	Inputs []wire.Tensor // in the order of Graph.Inputs
	Done   chan struct{} // closed when it is over

	// Class and Form are those of its items; see dispatcher.Item.
	Class int32
	Form  uint64

	// Refused means that a dispatcher elsewhere has not admitted it; see LockUnlessOver.
	Refused bool

	// splits counts what its items are split into; nil where nobody counts.
	splits *dispatcher.ServiceStats

	// Share is its place among the requests of all callers; under a lock of the gateway's.
	Share admission.Entry

	// Produced is what its modules have made, in bytes. What is less than free does not count.
	Produced HeldBytes
	free     int64

	// turn is its place in a stream with state; nil where there is none.
	turn *frameTurn

	// Own is what a gateway keeps of it besides.
	Own any

	mu     sync.Mutex
	err    *wire.Error
	flow   flow.Request
	values [][]wire.Tensor // outputs of items, by flow.Request.Index
	items  *Item           // all of them, linked by next
	last   *Item           // the one that completed the outputs
	counts []tally         // by node

	// Room for the nodes of a small graph, so that a request is one piece.
	fewValues [few][]wire.Tensor
	fewCounts [few]tally
	firstItem Item
}

// few nodes need no memory of their own.
const few = 4

// free is how many bytes that its modules have made do not count: small requests are
// cheaper to hold than to count.
const free = 4 << 10

// tally is what the stages need of a node.
type tally struct {
	items int
	last  *Item // that ended last
}

// Item is the run of one node for one frame. Ready of its times is when it came to
// the dispatcher.
type Item struct {
	dispatcher.Item
	Of     *Request
	Node   *Node
	Inputs []wire.Tensor // in the order of Node.Inputs

	frame     int32 // of the request's flow
	cause     *Item // whose end made this one ready; nil for the arrival
	next      *Item
	ran       *dispatcher.Batch                // that completed it
	in        atomic.Pointer[dispatcher.Batch] // that has begun with it; nil before, and once it has come back without an answer
	completed bool

	state []wire.NamedTensor // with which it comes to a module that keeps some; nil where its stream begins
	left  []wire.NamedTensor // with which it left
	fresh bool               // it began without
}

// newRequest makes a request; see Init.
func newRequest(g *Graph, inputs []wire.Tensor, arrival, deadline dispatch.Time) *Request {
	r := new(Request)
	r.Init(g, inputs, arrival, deadline)
	return r
}

// Init makes a request for the graph, with inputs in the order of the declaration; a
// deadline of 0 is none.
func (r *Request) Init(g *Graph, inputs []wire.Tensor, arrival, deadline dispatch.Time) {
	r.Generation, r.Gateway, r.Arrival, r.Deadline = g.Generation, g.gateway, arrival, deadline
	r.Graph, r.Inputs, r.Done, r.free = g, inputs, make(chan struct{}), free
	if n := len(g.Nodes); n <= few {
		r.values, r.counts = r.fewValues[:n], r.fewCounts[:n]
	} else {
		r.values, r.counts = make([][]wire.Tensor, n), make([]tally, n)
	}
}

// Err is why the request has ended without outputs. Read it after Done only.
func (r *Request) Err() *wire.Error { return r.err }

// Begin launches what waits for nothing but the request's inputs.
func (r *Request) Begin() {
	var ready [few]flow.Item
	var items [few]*Item
	r.mu.Lock()
	if r.Over() { // it has made room for another
		r.mu.Unlock()
		return
	}
	launched, err := r.launch(r.flow.Begin(r.Graph.Generation.Graph, ready[:0]), nil, items[:0])
	over := r.settle(nil, err)
	r.mu.Unlock()
	r.proceed(launched, over)
}

// Complete takes the outputs of an item, in the order of its node's Outs, and the batch
// that it ran in; nil where that is not known.
func (r *Request) Complete(it *Item, b *dispatcher.Batch, values []wire.Tensor) {
	var ready [few]flow.Item
	var items [few]*Item
	r.mu.Lock()
	if r.Over() {
		r.mu.Unlock()
		return
	}
	it.ran, it.completed = b, true
	t := &r.counts[it.Node.index]
	if t.last == nil || it.Ended >= t.last.Ended {
		t.last = it
	}
	at := flow.Item{Node: it.Node.index, Frame: it.frame}
	r.values[r.flow.Index(at)] = values
	var launched []*Item
	err := r.Keep(wire.DataSize(values))
	if err != nil {
		err.Stage = it.Node.Name
	} else {
		launched, err = r.launch(r.flow.Complete(at, ready[:0]), it, items[:0])
	}
	var next []admission.HeldItem[moduleState]
	if it.Node.state && r.turn != nil && err == nil {
		next, err = r.turn.answer(it.Node.Name, it.leaves())
	}
	over := r.settle(it, err)
	r.mu.Unlock()
	r.proceed(launched, over)
	goOn(next)
}

// Starts notes the batch that begins with the item; nil where it is to wait again.
func (it *Item) Starts(b *dispatcher.Batch) { it.in.Store(b) }

// Keep counts what is kept of the request besides what it has brought; the error is why
// it cannot be. One goroutine at a time may call it.
func (r *Request) Keep(n int64) *wire.Error {
	if r.free -= n; r.free >= 0 {
		return nil
	}
	err, _ := r.Produced.Grow(-r.free).(*wire.Error)
	r.free = 0
	return err
}

// Fail ends the request with an error; the first end counts.
func (r *Request) Fail(err *wire.Error) {
	r.mu.Lock()
	over := r.settle(nil, err)
	r.mu.Unlock()
	r.proceed(nil, over)
}

// Pending names the modules of which items have begun and are not completed.
func (r *Request) Pending() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []string
	for it := r.items; it != nil; it = it.next {
		if !it.completed && !slices.Contains(all, it.Node.Name) {
			all = append(all, it.Node.Name)
		}
	}
	return all
}

// Stuck is when the first of the batches that it waits for takes far longer than its profile;
// dispatch.Never where none is known to.
func (r *Request) Stuck() dispatch.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	first := dispatch.Never
	for it := r.items; it != nil; it = it.next {
		if b := it.in.Load(); b != nil && !it.completed && b.Stuck() != 0 {
			first = min(first, b.Stuck())
		}
	}
	return first
}

// settle ends the request when there is an error or nothing left to wait for.
// It reports whether it has done so just now.
func (r *Request) settle(it *Item, err *wire.Error) bool {
	if r.Over() || (err == nil && !r.flow.Done()) {
		return false
	}
	r.err, r.last = err, it
	r.End()
	return true
}

// proceed hands new items to their stations, or takes back what still waits
// when the request is over.
func (r *Request) proceed(items []*Item, over bool) {
	if over {
		if r.err != nil {
			r.withdraw()
		}
		close(r.Done)
		return
	}
	if it := r.unfit(items); it != nil {
		r.Graph.gateway.Drop(&it.Item, dispatcher.Late)
		return
	}
	for i, it := range items {
		it.More = i+1 < len(items) && items[i+1].Index == it.Index
		if it.Node.state && r.turn != nil && !r.admit(it) {
			continue
		}
		r.Graph.queue.Arrive(&it.Item)
	}
}

// unfit is the first of the items that a module has been split into and that cannot all be
// in time; nil where all can. What is launched at once stands together by modules.
func (r *Request) unfit(items []*Item) *Item {
	for n := 1; len(items) > 0; items, n = items[n:], 1 {
		it := items[0]
		if !it.Node.scatter {
			continue
		}
		for n < len(items) && items[n].Node == it.Node {
			n++
		}
		if !r.Graph.queue.Fits(&it.Item, n) {
			return it
		}
	}
	return nil
}

// withdraw removes the request's waiting items. No item is added once it is
// over, and the dispatcher looks at that when one comes.
func (r *Request) withdraw() {
	for it := r.items; it != nil; it = it.next {
		r.Graph.queue.Cancel(&it.Item)
	}
}

// launch makes the items of what is ready, with their inputs. A node that
// scatters has one for every row of its inputs.
func (r *Request) launch(ready []flow.Item, cause *Item, items []*Item) ([]*Item, *wire.Error) {
	for i := 0; i < len(ready); i++ {
		at := ready[i]
		n := r.Graph.Nodes[at.Node]
		inputs, err := r.gatherInputs(n, at.Frame)
		if err != nil {
			return items, err
		}
		if !n.scatter {
			it := &r.firstItem
			if r.items != nil {
				it = new(Item)
			}
			it.Node, it.frame, it.cause, it.Inputs = n, at.Frame, cause, inputs
			items = append(items, r.link(it))
			continue
		}
		rows, k, err := r.divide(n, at.Frame, inputs)
		if err != nil {
			return items, err
		}
		if r.splits != nil {
			now := r.Arrival
			if cause != nil {
				now = cause.Ended
			}
			r.splits.Split(now, n.Name, k)
		}
		if told := r.Graph.exceeded; told != nil && n.most > 0 && k > n.most {
			told(ExceedInfo{r.Graph.Deployment.Name(), n.Name, k, n.most})
		}
		var first int32
		first, ready = r.flow.Split(at, k, ready)
		r.values = append(r.values, make([][]wire.Tensor, r.flow.Len()-len(r.values))...)
		made, width := make([]Item, k), len(inputs)
		for row := range made {
			made[row] = Item{Node: n, frame: first + int32(row), cause: cause, Inputs: rows[row*width : (row+1)*width : (row+1)*width]}
			items = append(items, r.link(&made[row]))
		}
	}
	return items, nil
}

// link notes an item of the request.
func (r *Request) link(it *Item) *Item {
	it.Of, it.next = r, r.items
	r.items = it
	it.Request, it.Holder, it.Index = &r.Request, it, it.Node.index
	it.Size, it.Class, it.Form = it.Node.sizeOf(it.Inputs), r.Class, r.Form
	r.counts[it.Node.index].items++
	return it
}

// gatherInputs collects the inputs of a node in a frame of its common scope.
func (r *Request) gatherInputs(n *Node, frame int32) ([]wire.Tensor, *wire.Error) {
	if r.Graph.Whole {
		return r.Inputs, nil // its module takes what the request brings
	}
	inputs := make([]wire.Tensor, len(n.Inputs))
	for j := range n.Inputs {
		in, at := &n.Inputs[j], frame
		if in.From == nil {
			inputs[j] = r.Inputs[in.Port]
			continue
		}
		if in.Or != nil {
			in, at = r.branch(in, frame)
		}
		var err *wire.Error
		if inputs[j], err = r.collect(in.From, in.Port, at, n, in.Name); err != nil {
			return nil, err
		}
	}
	return inputs, nil
}

// branch is that of the two that feed an input which ran in a frame, and its own frame there.
func (r *Request) branch(in *Input, frame int32) (*Input, int32) {
	if first, n := r.flow.Below(in.From.index, frame); n > 0 {
		return in, first
	}
	first, _ := r.flow.Below(in.Or.From.index, frame) // one of the two has run
	return in.Or, first
}

// divide gives the inputs of every item of a node that scatters, one after the other: as many as
// there are rows, or one where the node has a condition that holds.
func (r *Request) divide(n *Node, frame int32, inputs []wire.Tensor) (rows []wire.Tensor, k int, err *wire.Error) {
	if n.when == nil {
		return split(n, inputs)
	}
	var value wire.Tensor
	if n.when.From == nil {
		value = r.Inputs[n.when.Port]
	} else if value, err = r.collect(n.when.From, n.when.Port, frame, nil, ""); err != nil {
		return nil, 0, err
	}
	if holds := slices.ContainsFunc(value.Data, func(b byte) bool { return b != 0 }); holds == n.not {
		return nil, 0, nil
	}
	return inputs, 1, nil
}

// Output collects an output of the graph once the request is done.
func (r *Request) Output(o Output) (wire.Tensor, *wire.Error) {
	if o.From == nil {
		return r.Inputs[o.Port], nil
	}
	t, err := r.collect(o.From, o.Port, 0, nil, "")
	if err == nil && len(t.Shape) == 0 {
		t.Shape = []int64{1}
	}
	return t, err
}

// LockUnlessOver locks the request and returns true, unless it is over; then Unlock must follow.
// Whoever sees it over sees what was written in between.
func (r *Request) LockUnlessOver() bool {
	r.mu.Lock()
	if r.Over() {
		r.mu.Unlock()
		return false
	}
	return true
}

// Unlock ends what LockUnlessOver has begun.
func (r *Request) Unlock() { r.mu.Unlock() }

// Step is the run of one module for one frame of a request, for traces. Of a step that
// was not completed only Module and Begin are known.
type Step struct {
	Module    string
	Begin     dispatch.Time // the end of what it waited for, or the arrival
	Completed bool
	Critical  bool              // on the request's critical path; see Stages
	Batch     *dispatcher.Batch // that it ran in, where that is known
	Size      int               // of that batch
	Attempts  int               // how often it was queued again after it may have reached an engine
	dispatcher.Times
}

// Steps are what has run for a request that is over, and what was still to run, in the
// order in which they became ready.
func (r *Request) Steps() []Step {
	r.mu.Lock()
	defer r.mu.Unlock()
	var steps []Step
	critical := r.last
	for it := r.items; it != nil; it = it.next {
		s := Step{Module: it.Node.Name, Begin: r.Arrival, Completed: it.completed}
		if it.cause != nil {
			s.Begin = it.cause.Ended
		}
		if it.completed { // before that, its times belong to its station
			s.Batch, s.Size, s.Attempts, s.Times = it.ran, int(it.Batch), int(it.Attempts), it.Times
		}
		steps = append(steps, s)
		if it == critical {
			steps[len(steps)-1].Critical, critical = true, it.cause
		}
	}
	slices.Reverse(steps)
	return steps
}

// Stages reports where the time of an answered request went. The critical path is
// found backwards: from the item that completed the outputs to the one whose
// end made it ready, and so on to the arrival. Each of its stages takes the
// time since the end of the one before, the last also what follows; what is
// neither queue nor wait nor compute is transfer. So the parts of the critical
// stages add up to the time from arrival to now exactly.
//
// A stage off the path stands for its item that ended last, a critical stage
// for the item on the path.
func (r *Request) Stages(now dispatch.Time) []wire.Stage {
	stages := make([]wire.Stage, 0, len(r.Graph.Nodes))
	for i, n := range r.Graph.Nodes {
		s := wire.Stage{Module: n.Name, Items: r.counts[i].items}
		if it := r.counts[i].last; it != nil {
			s.Batch = int(it.Batch)
			account(&s, it, it.Ready, it.Ended)
		}
		stages = append(stages, s)
	}
	end := now
	for it := r.last; it != nil; it = it.cause {
		begin := r.Arrival
		if it.cause != nil {
			begin = it.cause.Ended
		}
		s := &stages[it.Node.index]
		s.Critical = true
		account(s, it, begin, end)
		end = begin
	}
	return stages
}

// account splits the span from begin to end, which holds the item's own.
func account(s *wire.Stage, it *Item, begin, end dispatch.Time) {
	s.Queue, s.Wait, s.Compute = it.Queue, it.Wait, it.Compute
	s.Transfer = end - begin - it.Queue - it.Wait - it.Compute
}

// fresh reports whether a module that keeps state began without. The request is over.
func (r *Request) fresh() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for it := r.items; it != nil; it = it.next {
		if it.fresh {
			return true
		}
	}
	return false
}

// admit gives an item of a module with state what it begins with; false where it waits for a frame
// before.
func (r *Request) admit(it *Item) bool {
	state, ok := r.turn.admit(it.Node.Name, it)
	if ok { // else it may have been admitted by now
		it.begins(state)
	}
	return ok
}

// begins gives an item the state of its stream, where its module is the one that left it.
func (it *Item) begins(state moduleState) {
	it.state = nil
	if state.by == it.Node.Module.Identity {
		it.state = state.of
	}
}

// leaves is what the item's module keeps of it.
func (it *Item) leaves() moduleState { return moduleState{it.Node.Module.Identity, it.left} }

// goOn queues items that have waited for a frame before. One whose request is over is dropped by the
// dispatcher.
func goOn(next []admission.HeldItem[moduleState]) {
	for _, h := range next {
		it := h.Item.(*Item)
		it.begins(h.State)
		it.Of.Graph.queue.Arrive(&it.Item)
	}
}
