package gateway

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/harpagon/harpagon/dispatcher"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/wire/attach"
)

// Attach serves the stream of one executor: it waits for the Hello, gives the
// executor batches as deployments ask for it, and returns when the stream has
// ended: nil after a drain, otherwise why. An executor of the same name that
// is attached already is taken for a connection that has broken, and replaced.
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
	switch {
	case m.Hello == nil || m.Hello.Executor == "":
		return nil, errors.New("gateway: an executor must say Hello with its name before anything else")
	case g.options.Token != "" && m.Hello.Token != g.options.Token:
		return nil, fmt.Errorf("gateway: executor %q has the wrong token; start its worker with the gateway's token", m.Hello.Executor)
	}
	return &executor{gateway: g, hello: *m.Hello, stream: s, gone: make(chan struct{})}, nil
}

// register makes the executor known and puts it to work where a deployment
// wants it already.
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
// older one that may have requests, and says whether it can serve it. Gateway.mu is held.
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

// checkRoute says why an executor cannot serve a node.
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

// announce wakes those who wait for executors. Gateway.mu is held.
func (g *Gateway) announce() {
	close(g.changed)
	g.changed = make(chan struct{})
}
