package executors

import (
	"context"
	"slices"
	"strings"
	"time"
)

// attendance is an executor's part in serving one gateway.
type attendance struct {
	address string
	dialing context.Context // ends when the gateway is not to be dialled again
	leave   context.CancelFunc
}

// attended is how an attendance has ended.
type attended struct {
	*attendance
	drained bool // by the gateway
	err     error
}

// serve attends all gateways until they have drained the executor, ctx ends, or
// the engine is lost for good.
func (e *executor) serve(ctx, run context.Context, stop func()) error {
	dialing, over := context.WithCancel(ctx)
	defer over()
	ends := make(chan attended)
	all := map[string]*attendance{}
	var err error
	for {
		addresses, changed := e.host.Gateways.Watch()
		if len(addresses) == 0 {
			addresses = []string{e.task.Gateway}
		}
		addresses = strings.Split(strings.Join(addresses, ","), ",") // with the dispatchers of gateways
		for _, address := range addresses {
			if all[address] == nil && dialing.Err() == nil {
				a := &attendance{address: address}
				a.dialing, a.leave = context.WithCancel(dialing)
				all[address] = a
				go func() { ends <- e.attend(ctx, run, stop, a) }()
			}
		}
		for address, a := range all {
			if !slices.Contains(addresses, address) {
				a.leave()
			}
		}
		if len(all) == 0 {
			return err
		}
		select {
		case <-changed:
		case end := <-ends:
			end.leave()
			delete(all, end.address)
			if end.drained || end.err != nil {
				over() // the deployment needs the executor no more, or it can do no more
			}
			if end.err != nil && err == nil {
				err = end.err
				stop()
				e.cells.close()
			}
		}
	}
}

// attend attaches to one gateway again and again until that drains the executor or
// is to be left, ctx ends, or the engine is lost for good.
func (e *executor) attend(ctx, run context.Context, stop func(), a *attendance) attended {
	for attempt := 0; ; attempt++ {
		if e.attached.Load() == 0 {
			e.enter(Attaching)
		}
		if !pause(a.dialing, e.host.Retry.After(attempt)) {
			return attended{attendance: a}
		}
		begin := time.Now()
		end := e.meet(ctx, run, stop, a.address)
		if end.final {
			return attended{attendance: a, drained: end.err == nil, err: end.err}
		}
		e.fail(end.err)
		e.reconnects.Add(1)
		e.observer.detached(e.status, end.err)
		if time.Since(begin) > defaultRetryMax {
			attempt = 0
		}
	}
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
	s := &session{executor: e, stream: e.assembly.Wrap(stream), stop: stop, turn: make(chan struct{}, 1)}
	return s.serve(ctx, run)
}

// unlessDone hides the error that ctx's own end has caused.
func unlessDone(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}
