package executors

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Gateways are the addresses of the gateways that the executors of a host attach
// to, all of them at once. The zero value leaves an executor to the one gateway
// that its task names. Safe for concurrent use.
type Gateways struct {
	mu      sync.Mutex
	list    []string
	changed chan struct{} // closed, and replaced, by Set
}

// Set replaces the addresses. Executors attach to those that are new. A stream to
// one that is no longer among them is used as long as it lasts and then not dialled
// again: a gateway that the fleet has lost sight of may serve well. No addresses
// at all change nothing.
func (g *Gateways) Set(addresses []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(addresses) == 0 || slices.Equal(g.list, addresses) {
		return
	}
	g.list = slices.Clone(addresses)
	if g.changed != nil {
		close(g.changed)
	}
	g.changed = make(chan struct{})
}

// watch returns the addresses, and what is closed when they change.
func (g *Gateways) watch() ([]string, <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.changed == nil {
		g.changed = make(chan struct{})
	}
	return g.list, g.changed
}

// attendance is an executor's part in serving one gateway.
type attendance struct {
	address string
	leave   chan struct{} // closed when it is not to be dialled again
	left    bool
}

// serve attends all gateways until they have drained the executor, ctx ends, or
// the engine is lost for good.
func (e *executor) serve(ctx, run context.Context, stop func()) error {
	type over struct {
		*attendance
		err error
	}
	ends := make(chan over)
	attended := map[string]*attendance{}
	under := 0
	end := func(o over) error {
		under--
		delete(attended, o.address)
		return o.err
	}
	for {
		addresses, changed := e.host.Gateways.watch()
		if len(addresses) == 0 {
			addresses = []string{e.task.Gateway}
		}
		for _, address := range addresses {
			if attended[address] == nil && !e.ending(ctx, run) {
				a := &attendance{address: address, leave: make(chan struct{})}
				attended[address] = a
				under++
				go func() { ends <- over{a, e.attend(ctx, run, stop, a)} }()
			}
		}
		for address, a := range attended {
			if !slices.Contains(addresses, address) && !a.left {
				a.left = true
				close(a.leave)
			}
		}
		select {
		case <-changed:
			continue
		case o := <-ends:
			if err := end(o); err != nil {
				stop()
				e.cells.close()
				for under > 0 {
					_ = end(<-ends)
				}
				return err
			}
		}
		if under == 0 && e.ending(ctx, run) {
			return nil
		}
	}
}

// attend attaches to one gateway again and again until that drains the executor or
// is to be left, ctx ends, or the engine is lost for good.
func (e *executor) attend(ctx, run context.Context, stop func(), a *attendance) error {
	for attempt := 0; ; attempt++ {
		if e.attached.Load() == 0 {
			e.enter(Attaching)
		}
		if !e.mayDial(ctx, run, a, e.host.Retry.After(attempt)) {
			return nil
		}
		begin := time.Now()
		end := e.meet(ctx, run, stop, a.address)
		if end.final {
			if end.err == nil && ctx.Err() == nil {
				e.drained.Store(true)
			}
			return end.err
		}
		e.fail(end.err)
		e.reconnects.Add(1)
		e.observer.detached(e.status, end.err)
		if time.Since(begin) > defaultRetryMax {
			attempt = 0
		}
	}
}

// mayDial waits before a gateway is dialled, and is false when it is not to be: the
// executor is to stop, another gateway has drained it, or this one is left.
func (e *executor) mayDial(ctx, run context.Context, a *attendance, wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-a.leave:
		return false
	default:
	}
	if e.ending(ctx, run) {
		return false
	}
	if wait <= 0 {
		return true
	}
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-run.Done():
	case <-a.leave:
		return false
	}
	return !e.ending(ctx, run)
}

// ending says that the executor is to stop, or that a gateway has drained it.
func (e *executor) ending(ctx, run context.Context) bool {
	return ctx.Err() != nil || run.Err() != nil || e.drained.Load()
}

// meet serves one stream.
func (e *executor) meet(ctx, run context.Context, stop func(), address string) ending {
	life, hangUp := context.WithCancel(run)
	defer hangUp()
	unlink := context.AfterFunc(ctx, hangUp)
	stream, err := e.host.Dial(life, address)
	if err != nil {
		return ending{final: !unlink(), err: unlessDone(ctx, err)}
	}
	if !unlink() {
		_ = stream.Close()
		return ending{final: true}
	}
	s := &session{executor: e, stream: stream, stop: stop, turn: make(chan struct{}, 1)}
	return s.serve(ctx, run)
}

// unlessDone hides the error that ctx's own end has caused.
func unlessDone(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}
