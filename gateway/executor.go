package gateway

import (
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/harpagon/harpagon/dispatcher"
	"github.com/harpagon/harpagon/executors/serverless"
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/attach"
	"github.com/harpagon/harpagon/wire/queue"
)

// executor is one attached executor, or one that calls a group of a function.
type executor struct {
	gateway      *Gateway
	hello        attach.Hello
	stream       attach.Stream
	gone         chan struct{}        // closed when the stream has ended
	registration *dispatcher.Executor // its entry at the dispatcher

	modules []*Module // that it serves or has served last; under Gateway.mu
	cluster string    // in which it serves; under Gateway.mu

	// Of a function: its batches are calls, and it has no stream; see function.go.
	function *function
	target   *serverless.Target

	sending sync.Mutex

	mu      sync.Mutex
	parting parting
	routes  map[*Node]*Route
}

// parting is how an executor is to leave once it holds nothing.
type parting uint8

const (
	staying  parting = iota
	dismiss          // the gateway sends Drain
	hangUp           // the executor has sent Drain; the gateway closes
	departed         // done
)

// Start sends the tensors of a batch; see dispatcher.Gateway.
func (g *Gateway) Start(b *dispatcher.Batch, items []*dispatcher.Item, _ int) {
	for i := 0; g.tenants.Any() && i < len(items); i++ {
		g.tenants.Begun(&itemOf(items[i]).Of.Share)
	}
	e := b.Executor.Holder.(*executor)
	if e.target != nil {
		go e.call(b)
		return
	}
	e.launch(b)
}

func itemOf(it *dispatcher.Item) *Item { return it.Holder.(*Item) }

// launchMessage is a message with its batch, made in one piece.
type launchMessage struct {
	message attach.Message
	batch   attach.Batch
	few     [4][]wire.Tensor // items of a small batch
}

// launch sends a batch. Should that fail, the stream is closed, and the
// receiving side takes care of all that the executor holds.
func (e *executor) launch(started *dispatcher.Batch) {
	e.gateway.batchBegin(started)
	p := &launchMessage{batch: attach.Batch{
		ID: started.ID, Module: itemOf(started.Items[0]).Node.Resident, Due: e.gateway.epoch.Add(started.Due), Part: started.Whole, Apart: started.Apart,
	}}
	b := &p.batch
	if b.Items = p.few[:0]; started.Rows > len(p.few) {
		b.Items = make([][]wire.Tensor, 0, started.Rows)
	}
	for _, it := range started.Items {
		it := itemOf(it)
		it.Starts(started)
		b.Items = it.AppendRows(b.Items, e.route(it.Node))
	}
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

// receive handles what comes until the stream ends, and returns why. What comes from the same
// process is handled on the sender's goroutine.
func (e *executor) receive() error {
	attach.Direct(e.stream, e.handle)
	for {
		m, err := e.stream.Recv()
		if err == nil {
			err = e.handle(m)
		}
		if err != nil {
			return err
		}
	}
}

func (e *executor) handle(m *attach.Message) error {
	switch {
	case m.Result != nil:
		e.result(m.Result)
	case m.Ready != nil:
		e.gateway.queue.Ready(e.registration)
	case m.Soon != nil:
		e.gateway.queue.Prestart(e.registration, m.Soon.ID, m.Soon.Compute)
	case m.Drain != nil:
		e.gateway.queue.Detach(e.registration)
		e.part(hangUp)
	default:
		return wire.Errorf(wire.CodeInvalid, "", "executor %q sent a message that is none of Result, Soon, Ready and Drain", e.hello.Executor)
	}
	return nil
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
	if how == staying || how == departed || !e.registration.Idle() {
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
	b := e.registration.Take(m.ID)
	if b == nil {
		return
	}
	err := m.Err
	if err == nil && len(m.Items) != b.Rows {
		err = wire.Errorf(wire.CodeInternal, itemOf(b.Items[0]).Node.Name, "executor %q answered %d requests of a batch of %d", e.hello.Executor, len(m.Items), b.Rows)
	}
	failed, row := 0, 0
	for _, it := range b.Items {
		if errorOf(m, err, row, int(it.Size)) != nil {
			failed++
		}
		row += int(it.Size)
	}
	now := e.gateway.queue.Done(b, dispatcher.Report{Waited: m.Waited, Compute: m.Compute, Failed: failed, Away: m.Away})
	e.gateway.batchEnd(b, now, m.Waited, m.Compute, firstOf(m, err))
	e.depart()
	row = 0
	for _, it := range b.Items {
		it := itemOf(it)
		first := row
		row += int(it.Size)
		if err := errorOf(m, err, first, int(it.Size)); err != nil {
			e.gateway.again(it, staged(err, it.Node.Name, it, now), m.Untouched || first >= b.Rows-m.Behind)
			continue
		}
		values, err := it.Gather(e.route(it.Node), m.Items[first:row])
		if err != nil {
			it.Of.Fail(err)
			continue
		}
		it.Of.Complete(it, b, values)
	}
}

// again queues an item again that has failed because its engine was lost: once; or
// that no engine has seen. Whatever failed otherwise fails.
func (g *Gateway) again(it *Item, err *wire.Error, untouched bool) {
	it.Starts(nil)
	if err.Code != wire.CodeUnavailable || !g.queue.Requeue(&it.Item, untouched) {
		it.Of.Fail(err)
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

// staged completes an executor's error with stage, budget and elapsed time.
func staged(err *wire.Error, stage string, it *Item, now dispatch.Time) *wire.Error {
	c := *err
	if c.Stage == "" {
		c.Stage = stage
	}
	c.Elapsed = now - it.Of.Arrival
	if it.Of.Deadline != 0 {
		c.Budget = it.Of.Deadline - it.Of.Arrival
	}
	return &c
}

// lost has the dispatcher take care of what an executor held whose stream has ended.
func (e *executor) lost(cause error) {
	e.mu.Lock()
	e.parting = departed
	e.mu.Unlock()
	g := e.gateway
	g.queue.Lost(e.registration, func(b *dispatcher.Batch) {
		g.batchEnd(b, g.now(), 0, 0, wire.Errorf(wire.CodeUnavailable, stageOf(itemOf(b.Items[0])), "executor %q is gone: %v", e.hello.Executor, cause))
	})
}

// route finds or makes the executor's route for a node.
func (e *executor) route(n *Node) *Route {
	e.mu.Lock()
	defer e.mu.Unlock()
	if r := e.routes[n]; r != nil {
		return r
	}
	const generations = 4 // a deployment and those just before it
	if e.routes == nil || len(e.routes) >= generations*max(1, len(e.hello.Residents)) {
		e.routes = make(map[*Node]*Route)
	}
	r := newRoute(n, &e.hello)
	e.routes[n] = r
	return r
}

// Attach serves the stream of one executor: it waits for the Hello, gives the executor batches
// of the deployments that use it, and returns when the stream has ended: nil after a drain,
// otherwise why. An executor of the same name that is attached already is taken for a
// connection that has broken, and replaced.
func (g *Gateway) Attach(s attach.Stream) error {
	e, err := g.handshake(s)
	if err != nil {
		_ = s.Close()
		return err
	}
	if err := g.register(e); err != nil {
		_ = s.Close()
		return err
	}
	if o := g.options.Observer.Attached; o != nil {
		o(e.info(nil))
	}
	cause := e.receive()
	_ = s.Close()
	e.mu.Lock()
	drained := e.parting == departed
	e.mu.Unlock()
	g.unregister(e)
	e.lost(cause)
	if drained {
		cause = nil
	} else if errors.Is(cause, io.EOF) {
		cause = fmt.Errorf("gateway: executor %q closed its stream without draining", e.hello.Executor)
	}
	if o := g.options.Observer.Detached; o != nil {
		o(e.info(cause))
	}
	close(e.gone)
	return cause
}

func (e *executor) info(err error) ExecutorInfo {
	h := &e.hello
	return ExecutorInfo{Pipeline: h.Pipeline, Module: h.Module, Executor: h.Executor, Host: h.Host, Device: h.Device, Err: err}
}

func (g *Gateway) handshake(s attach.Stream) (*executor, error) {
	m, err := s.Recv()
	if err != nil {
		return nil, fmt.Errorf("gateway: waiting for an executor's Hello: %w", err)
	}
	if m.Hello == nil || m.Hello.Executor == "" {
		return nil, errors.New("gateway: an executor must send Hello with its name before anything else")
	}
	return &executor{gateway: g, hello: *m.Hello, stream: s, gone: make(chan struct{})}, nil
}

// register adds the executor and puts it to work where a deployment has it already.
func (g *Gateway) register(e *executor) error {
	g.mu.Lock()
	if g.closed {
		g.mu.Unlock()
		return errors.New("gateway: closed")
	}
	before := g.executors[e.hello.Executor]
	g.executors[e.hello.Executor] = e
	if before != nil {
		_ = before.stream.Close()
	}
	h := &e.hello
	e.registration = g.queue.Register(dispatcher.Introduction{
		Name: h.Executor, Service: h.Pipeline, Host: h.Host, Device: h.Device, Hardware: h.Hardware, Concurrency: h.Concurrency, Holder: e,
	}, g.assignModule(e))
	g.announce()
	g.mu.Unlock()
	return nil
}

// assignModule finds the module that the current deployment has for the executor, or an
// older one that may have requests, and reports whether it can serve it. Gateway.mu is held.
func (g *Gateway) assignModule(e *executor) bool {
	all := g.graphsOf(e.hello.Pipeline)
	fits := len(all) > 0
	for _, gr := range all {
		fits = fits && e.serveSlot(g, gr)
	}
	if p := g.pipeline(e.hello.Pipeline); p != nil && !fits {
		return slices.ContainsFunc(p.old, func(gr *deployed) bool { return e.serveSlot(g, gr) })
	}
	return fits
}

// serveSlot has the executor serve what a graph has a slot for it for. Gateway.mu is held.
func (e *executor) serveSlot(g *Gateway, gr *deployed) bool {
	slot := gr.Deployment.Slot(e.hello.Executor)
	return slot != nil && e.serve(g, gr, slot.Module)
}

// serve notes the modules of a graph that the executor is to serve from now on, unless
// it cannot. Gateway.mu is held.
func (e *executor) serve(g *Gateway, gr *deployed, module string) bool {
	nodes := gr.nodesOf(module)
	for _, n := range nodes {
		if checkRoute(n, e) != nil {
			return false
		}
	}
	if module != placement.AllModules {
		e.modules = nil // it serves one at a time
	} else if p := g.pipeline(gr.Deployment.Name()); p != nil {
		e.cluster = p.within
	}
	for _, n := range nodes {
		if !slices.Contains(e.modules, n.Module) {
			e.modules = append(e.modules, n.Module)
		}
		n.Module.Announce(e.hello.SignatureOf(n.Resident))
	}
	return len(nodes) > 0
}

// checkRoute reports why an executor cannot serve a node.
func checkRoute(n *Node, e *executor) error {
	if n == nil {
		return nil
	}
	if r := newRoute(n, &e.hello); r.Err != nil {
		return r.Err
	}
	return nil
}

// unregister forgets the executor, unless another has taken its name.
func (g *Gateway) unregister(e *executor) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.executors[e.hello.Executor] == e {
		delete(g.executors, e.hello.Executor)
	}
	g.announce()
}

// announce wakes the waiters for executors. Gateway.mu is held.
func (g *Gateway) announce() {
	close(g.changed)
	g.changed = make(chan struct{})
}

// ServeDispatcher lets the dispatcher at the other end of a connection decide for the services
// that it owns, and returns when the connection has ended, and why. Of several that own
// a service the one with the highest epoch is obeyed. The gateway sends its name and the token.
// Patience is how long the dispatcher may be silent before it counts as gone; see
// keepalive.Conn.Listen. It is for gateways that are Dispatched.
func (g *Gateway) ServeDispatcher(c net.Conn, name, token string, patience time.Duration) error {
	self := queue.Self{Role: queue.Gateway, Name: name, Token: token, Patience: patience}
	conn, err := queue.Open(c, self, queue.Dispatcher, nil)
	if err != nil {
		return err
	}
	return g.queue.Obey(conn, g)
}

// HasDispatcher reports whether a dispatcher decides for the service now.
func (g *Gateway) HasDispatcher(service string) bool { return g.queue.Owned(service) }
