package gateway

import (
	"slices"
	"sync"

	"github.com/harpagon/harpagon/executors/invoke"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/attach"
)

// executor is one attached executor: its stream and what it holds.
type executor struct {
	gateway *Gateway
	hello   attach.Hello
	stream  attach.Stream
	gone    chan struct{} // closed when the stream has ended
	device  *device
	place   int // on the device

	station *station // that it serves or has served last; under Gateway.mu

	// Of a function: its batches are calls, and it has no stream; see call.go.
	function *function
	group    int
	target   *invoke.Target

	sending sync.Mutex

	mu      sync.Mutex
	flights []*flight
	sent    uint64
	away    int // places whose engines are being loaded anew
	parting parting
	routes  []*route
}

// parting is how an executor is to leave once it holds nothing.
type parting uint8

const (
	staying  parting = iota
	dismiss          // the gateway sends Drain
	hangUp           // the executor has sent Drain; the gateway closes
	departed         // done
)

// flight is a batch on its way.
type flight struct {
	station *station
	exec    *executor
	items   []*item
	at      dispatch.Time
	lane    int32 // -1 when the station has forgotten it; under station.mu
	id      uint64
	few     [4]*item // items of a small batch
}

// route says how the tensors of a node's items lie in the signature of an
// executor.
type route struct {
	node     *node
	in, out  []int // in[j] is the binding for input j; out[j] is the output for outs[j]
	straight bool  // in and out change nothing
	err      *wire.Error
}

func (e *executor) concurrency() int { return max(e.hello.Concurrency, 1) }

// enter notes a batch that the station has decided to start.
func (e *executor) enter(f *flight) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sent++
	f.id, f.exec = e.sent, e
	e.flights = append(e.flights, f)
	e.device.begin()
}

// leave forgets a batch and returns it; nil when it is not known.
func (e *executor) leave(id uint64) *flight {
	e.mu.Lock()
	defer e.mu.Unlock()
	i := slices.IndexFunc(e.flights, func(f *flight) bool { return f.id == id })
	if i < 0 {
		return nil
	}
	e.device.end()
	f := e.flights[i]
	e.flights = slices.Delete(e.flights, i, i+1)
	return f
}

// leaves notes that places of the executor are away, or back where n is
// negative. The lock of the station that it serves is held.
func (e *executor) leaves(n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.away = max(e.away+n, 0)
}

// missing is the number of places that are away.
func (e *executor) missing() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.away
}

// back hands a place whose engine is loaded again to the station.
func (e *executor) back() {
	e.gateway.mu.Lock()
	s := e.station
	e.gateway.mu.Unlock()
	if s == nil {
		e.leaves(-1)
		return
	}
	s.back(e)
}

// leaveLane makes the station forget where the executor's batches run.
func (e *executor) leaveLane(s *station) {
	e.rest()
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, f := range e.flights {
		if f.station == s {
			f.lane = -1
		}
	}
}

func (e *executor) flightsOf(s *station) []*flight {
	e.mu.Lock()
	defer e.mu.Unlock()
	var all []*flight
	for _, f := range e.flights {
		if f.station == s {
			all = append(all, f)
		}
	}
	return all
}

// parcel is a message with its batch, made in one piece.
type parcel struct {
	message attach.Message
	batch   attach.Batch
	few     [4][]wire.Tensor // items of a small batch
}

// launch sends a batch. Should that fail, the stream is closed, and the
// receiving side takes care of all that the executor holds.
func (e *executor) launch(f *flight) {
	if e.target != nil {
		go e.call(f)
		return
	}
	e.gateway.batchBegin(f)
	p := &parcel{batch: attach.Batch{ID: f.id}}
	b := &p.batch
	if b.Items = p.few[:0]; f.rows() > len(p.few) {
		b.Items = make([][]wire.Tensor, 0, f.rows())
	}
	due := dispatch.Time(0)
	for i, it := range f.items {
		b.Items = it.appendRows(b.Items, e.route(it.node))
		// What the item is due by does not change once it is queued: no lock.
		if d := it.node.Due(it.req.arrival, it.req.deadline, it.kept); i == 0 || d < due {
			due = d
		}
	}
	b.Due = e.gateway.epoch.Add(due)
	p.message.Batch = b
	e.send(&p.message)
}

func (e *executor) send(m *attach.Message) {
	e.sending.Lock()
	err := e.stream.Send(m)
	e.sending.Unlock()
	if err != nil {
		_ = e.stream.Close()
	}
}

// serve receives until the stream ends and returns why.
func (e *executor) serve() error {
	for {
		m, err := e.stream.Recv()
		switch {
		case err != nil:
			return err
		case m.Result != nil:
			e.result(m.Result)
		case m.Ready != nil:
			e.back()
		case m.Drain != nil:
			e.gateway.detach(e)
			e.part(hangUp)
		default:
			return wire.Errorf(wire.CodeInvalid, "", "executor %q sent a message that is neither Result, Ready nor Drain", e.hello.Executor)
		}
	}
}

// part lets the executor go as soon as it holds nothing.
func (e *executor) part(how parting) {
	e.mu.Lock()
	if e.parting == staying {
		e.parting = how
	}
	e.mu.Unlock()
	e.depart()
}

func (e *executor) depart() {
	e.mu.Lock()
	how := e.parting
	if how == staying || how == departed || len(e.flights) > 0 {
		e.mu.Unlock()
		return
	}
	e.parting = departed
	e.mu.Unlock()
	if how == hangUp {
		_ = e.stream.Close()
		return
	}
	e.send(&attach.Message{Drain: &attach.Drain{Reason: "the deployment does not need this executor any more"}})
}

// result ends a batch and lets its requests go on.
func (e *executor) result(m *attach.Result) {
	f := e.leave(m.ID)
	if f == nil {
		return
	}
	err := m.Err
	if rows := f.rows(); err == nil && len(m.Items) != rows {
		err = wire.Errorf(wire.CodeInternal, f.station.name, "executor %q answered %d requests of a batch of %d", e.hello.Executor, len(m.Items), rows)
	}
	failed, row := 0, 0
	for _, it := range f.items {
		if errorOf(m, err, row, it.size()) != nil {
			failed++
		}
		row += it.size()
	}
	now := f.station.returned(f, returned{waited: m.Waited, compute: m.Compute, failed: failed, away: m.Away})
	e.device.offer()
	e.gateway.batchEnd(f, now, m.Waited, m.Compute, firstOf(m, err))
	e.depart()
	row = 0
	for _, it := range f.items {
		first, n := row, it.size()
		row += n
		if err := errorOf(m, err, first, n); err != nil {
			f.station.repeat(it, staged(err, f.station.name, it, now))
			continue
		}
		values, err := it.gather(e.route(it.node), m.Items[first:row])
		if err != nil {
			it.req.fail(err)
			continue
		}
		it.req.complete(it, values)
	}
}

// errorOf is the error of the request with n rows from the first on, given that
// of the whole batch.
func errorOf(m *attach.Result, all *wire.Error, first, n int) *wire.Error {
	for i := first; all == nil && i < min(first+n, len(m.Errs)); i++ {
		all = m.Errs[i]
	}
	return all
}

func firstOf(m *attach.Result, all *wire.Error) *wire.Error {
	for i := 0; all == nil && i < len(m.Errs); i++ {
		all = m.Errs[i]
	}
	return all
}

// staged completes an executor's error with what the gateway knows.
func staged(err *wire.Error, stage string, it *item, now dispatch.Time) *wire.Error {
	c := *err
	if c.Stage == "" {
		c.Stage = stage
	}
	c.Elapsed = now - it.req.arrival
	if it.req.deadline != 0 {
		c.Budget = it.req.deadline - it.req.arrival
	}
	return &c
}

// lost takes care of all batches of an executor whose stream has ended.
func (e *executor) lost(cause error) {
	e.mu.Lock()
	flights := e.flights
	e.flights = nil
	e.parting = departed
	e.mu.Unlock()
	for range flights {
		e.device.end()
	}
	e.resign()
	for _, f := range flights {
		now := e.gateway.now()
		e.gateway.batchEnd(f, now, 0, 0, wire.Errorf(wire.CodeUnavailable, f.station.name, "executor %q is gone: %v", e.hello.Executor, cause))
		e.gateway.door.end(f, -1, now, 0)
		f.station.again(f)
	}
}

// route finds or makes the executor's route for a node.
func (e *executor) route(n *node) *route {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, r := range e.routes {
		if r.node == n {
			return r
		}
	}
	const kept = 4 // a deployment and those just before it
	if len(e.routes) == kept {
		e.routes = slices.Delete(e.routes, 0, 1)
	}
	r := newRoute(n, &e.hello)
	e.routes = append(e.routes, r)
	return r
}

func newRoute(n *node, h *attach.Hello) *route {
	r := &route{node: n, straight: len(n.outs) == len(h.Signature.Outputs)}
	for j, p := range h.Signature.Inputs {
		i := slices.IndexFunc(n.inputs, func(in input) bool { return in.name == p.Name })
		if i < 0 && r.err == nil {
			r.err = wire.Errorf(wire.CodeInternal, n.Module, "executor %q takes an input %q that the module does not bind", h.Executor, p.Name)
		}
		r.in = append(r.in, i)
		r.straight = r.straight && i == j
	}
	if len(n.inputs) != len(r.in) && r.err == nil {
		r.err = wire.Errorf(wire.CodeInternal, n.Module, "executor %q takes %d inputs, but the module binds %d", h.Executor, len(r.in), len(n.inputs))
	}
	for j, name := range n.outs {
		i := slices.IndexFunc(h.Signature.Outputs, func(p pipelines.Port) bool { return p.Name == name })
		if i < 0 && r.err == nil {
			r.err = wire.Errorf(wire.CodeInternal, n.Module, "executor %q has no output %q", h.Executor, name)
		}
		r.out = append(r.out, i)
		r.straight = r.straight && i == j
	}
	return r
}

func (r *route) inputs(bound []wire.Tensor) []wire.Tensor {
	if r.straight || r.err != nil {
		return bound
	}
	return pick(bound, r.in)
}

func (r *route) outputs(made []wire.Tensor) ([]wire.Tensor, *wire.Error) {
	switch {
	case r.err != nil:
		return nil, r.err
	case r.straight && len(made) == len(r.out):
		return made, nil
	case len(r.out) > 0 && slices.Max(r.out) >= len(made):
		return nil, wire.Errorf(wire.CodeInternal, r.node.Module, "an answer has %d outputs; its executor promised more", len(made))
	}
	return pick(made, r.out), nil
}

func pick(from []wire.Tensor, at []int) []wire.Tensor {
	out := make([]wire.Tensor, len(at))
	for j, i := range at {
		out[j] = from[i]
	}
	return out
}
