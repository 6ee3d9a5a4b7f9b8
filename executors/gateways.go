package executors

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/harpagon/harpagon/internal/osutil"
)

// attachment is what binds an executor to one gateway.
type attachment struct {
	address string
	dialing context.Context // ends when the gateway is not to be dialled again
	leave   context.CancelFunc
}

// attachmentEnd is how an attachment has ended.
type attachmentEnd struct {
	*attachment
	drained bool // by the gateway
	err     error
}

// serve is attached to all gateways until they have drained the executor, ctx ends, or
// the engine is lost for good.
func (e *executor) serve(ctx, run context.Context, stop func()) error {
	dialing, over := context.WithCancel(ctx)
	defer over()
	ends := make(chan attachmentEnd)
	all := map[string]*attachment{}
	var err error
	for {
		addresses, changed := e.host.Gateways.Watch()
		if len(addresses) == 0 {
			addresses = []string{e.task.Gateway}
		}
		addresses = strings.Split(strings.Join(addresses, ","), ",") // with the dispatchers of gateways
		for _, address := range addresses {
			if all[address] == nil && dialing.Err() == nil {
				a := &attachment{address: address}
				a.dialing, a.leave = context.WithCancel(dialing)
				all[address] = a
				go func() { ends <- e.attachUntilDrained(ctx, run, stop, a) }()
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
				e.lanes.close()
			}
		}
	}
}

// attachUntilDrained attaches to one gateway again and again until it drains the
// executor or is no longer to be served, ctx ends, or the engine is lost for good.
func (e *executor) attachUntilDrained(ctx, run context.Context, stop func(), a *attachment) attachmentEnd {
	for attempt := 0; ; attempt++ {
		if e.attached.Load() == 0 {
			e.enter(Attaching)
		}
		if osutil.SleepTimer(a.dialing, e.host.Retry.After(attempt)) != nil {
			return attachmentEnd{attachment: a}
		}
		begin := time.Now()
		end := e.serveStream(ctx, run, stop, a.address)
		if end.final {
			return attachmentEnd{attachment: a, drained: end.err == nil, err: end.err}
		}
		e.fail(end.err)
		e.reconnects.Add(1)
		e.observer.detached(e.status, end.err)
		if time.Since(begin) > defaultRetryMax {
			attempt = 0
		}
	}
}

// serveStream serves a gateway for as long as one stream lasts.
func (e *executor) serveStream(ctx, run context.Context, stop func(), address string) ending {
	life, cut := context.WithCancel(run)
	defer cut()
	unlink := context.AfterFunc(ctx, cut)
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
