package executors

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/harpagon/harpagon/internal/osutil"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/attach"
)

// session is one stream to a gateway. As many goroutines as the lanes hold batches
// take turns to receive: the one that got a batch runs it and answers it
// itself, so that a batch changes goroutine only where the stream does.
type session struct {
	executor *executor
	stream   attach.Stream
	stop     func() // gives up everything that still runs

	turn    chan struct{} // holds one token, whose holder receives
	sending sync.Mutex

	mu       sync.Mutex
	over     bool // no more batches are taken
	draining bool // we have requested it
	end      ending

	closing sync.Once
}

// ending states why a session is over: final when there is nothing to attach
// again for, and then err is the executor's result.
type ending struct {
	final bool
	err   error
}

func (s *session) serve(ctx, run context.Context) ending {
	e := s.executor
	s.turn <- struct{}{}
	defer s.closeStream()
	if err := s.send(&attach.Message{Hello: e.hello()}); err != nil {
		return ending{err: err}
	}
	e.attached.Add(1)
	defer e.attached.Add(-1)
	e.enter(Serving)
	e.observer.attached(e.status)

	var grace *time.Timer
	asked := make(chan struct{})
	cancelled := context.AfterFunc(ctx, func() {
		grace = time.AfterFunc(e.host.drainTimeout(), s.abortDrain)
		close(asked)
		s.drain("the executor was stopped")
	})
	var others sync.WaitGroup
	for range len(e.lanes.all)*e.lanes.depth - 1 {
		others.Go(func() { s.work(ctx, run) })
	}
	s.work(ctx, run)
	others.Wait()
	if !cancelled() {
		<-asked
		grace.Stop()
	}
	return s.end
}

func (h *Host) drainTimeout() time.Duration {
	if h.DrainTimeout > 0 {
		return h.DrainTimeout
	}
	return DefaultDrainTimeout
}

// work takes batches until the session is over.
func (s *session) work(ctx, run context.Context) {
	for batch := s.receive(); batch != nil; batch = s.receive() {
		if err := s.answer(ctx, run, batch); err != nil {
			s.closeStream()
			return
		}
	}
}

// answer runs a batch in a free lane. The error means that the session has ended with it.
func (s *session) answer(ctx, run context.Context, batch *attach.Batch) error {
	lanes := &s.executor.lanes
	c := lanes.acquire()
	if c == nil {
		return s.refuse(batch)
	}
	reply, crash := s.executor.run(run, c, batch, s.soon())
	switch {
	case crash == nil:
		lanes.release(c)
		return s.message(&reply.message, "a result")
	case !lanes.beginReload(c): // the batch before reloads it
		lanes.release(c)
		return s.answerReloading(&reply.result)
	}
	err := s.message(&reply.message, "a result")
	lanes.awaitAlone(c)
	err = errors.Join(err, s.reload(ctx, run, c, crash))
	gone := c.instances == nil
	lanes.endReload(c) // first: a batch may come as soon as the gateway has the result
	if err != nil || gone {
		return err
	}
	return s.message(&attach.Message{Ready: &attach.Ready{}}, "that the engine is back")
}

func (s *session) reload(ctx, run context.Context, c *lane, crash error) error {
	err := s.executor.reload(ctx, run, c, crash)
	if err != nil {
		s.finish(ending{final: true, err: err})
	}
	return err
}

// soon notifies the gateway that a batch is about to end; nil where nothing is taken ahead.
func (s *session) soon() func(attach.Soon) {
	if s.executor.lanes.depth == 1 {
		return nil
	}
	return func(soon attach.Soon) {
		_ = s.send(&attach.Message{Soon: &soon}) // or the result will fail to be sent
	}
}

// refuse answers a batch that came while another gateway's has cost all engines.
func (s *session) refuse(batch *attach.Batch) error {
	return s.answerReloading(&attach.Result{ID: batch.ID, Away: true,
		Err: wire.Errorf(wire.CodeUnavailable, s.executor.task.Module.Name, "the engine is being loaded again")})
}

// answerReloading answers a batch whose engine is being loaded for another.
func (s *session) answerReloading(r *attach.Result) error {
	if err := s.message(&attach.Message{Result: r}, "a result"); err != nil {
		return err
	}
	s.executor.lanes.awaitLoaded()
	return s.message(&attach.Message{Ready: &attach.Ready{}}, "that the engine is back")
}

// message sends a message; a failure ends the session.
func (s *session) message(m *attach.Message, what string) error {
	err := s.send(m)
	if err != nil {
		s.finish(ending{err: fmt.Errorf("executors: sending %s: %w", what, err)})
	}
	return err
}

// receive returns the next batch, or nil when the session is over.
func (s *session) receive() *attach.Batch {
	<-s.turn
	defer func() { s.turn <- struct{}{} }()
	for !s.isOver() {
		m, err := s.stream.Recv()
		switch {
		case err != nil:
			s.lost(err)
		case m.Batch != nil:
			return m.Batch
		case m.Drain != nil:
			s.executor.enter(Draining)
			s.executor.observer.draining(s.executor.status, m.Drain.Reason)
			s.finish(ending{final: true})
		}
	}
	return nil
}

// lost ends the session after Recv has failed: in good order when we had requested a drain and
// the gateway has closed.
func (s *session) lost(err error) {
	s.mu.Lock()
	orderly := s.draining && err == io.EOF
	s.mu.Unlock()
	if orderly {
		s.finish(ending{final: true})
		return
	}
	s.finish(ending{err: fmt.Errorf("executors: the stream to the gateway ended: %w", err)})
}

// drain requests that the gateway send no more batches; it answers by closing.
func (s *session) drain(reason string) {
	s.mu.Lock()
	s.draining = true
	s.mu.Unlock()
	s.executor.enter(Draining)
	s.executor.observer.draining(s.executor.status, reason)
	if err := s.send(&attach.Message{Drain: &attach.Drain{Reason: reason}}); err != nil {
		s.finish(ending{err: err})
		s.closeStream()
	}
}

// abortDrain ends a drain that takes too long.
func (s *session) abortDrain() {
	s.finish(ending{final: true, err: fmt.Errorf("executors: %s did not finish what it held within %v of being stopped",
		s.executor.task.Slot.Executor, s.executor.host.drainTimeout())})
	s.stop()
	s.closeStream()
}

// finish ends the session; the first ending counts.
func (s *session) finish(end ending) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.over {
		s.over, s.end = true, end
	}
}

// closeStream closes the stream, which also ends a Recv.
func (s *session) closeStream() {
	s.closing.Do(func() { _ = s.stream.Close() })
}

func (s *session) isOver() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.over
}

func (s *session) send(m *attach.Message) error {
	s.sending.Lock()
	defer s.sending.Unlock()
	return s.stream.Send(m)
}

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
		case err = <-e.failed:
			over()
			stop()
			e.lanes.close()
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
	linked := unlink()
	if err != nil && linked {
		return ending{err: err}
	}
	if err != nil {
		return ending{final: true} // ctx's own end is no failure of the gateway
	}
	if !linked {
		_ = stream.Close()
		return ending{final: true}
	}
	s := &session{executor: e, stream: e.assembly.Wrap(stream), stop: stop, turn: make(chan struct{}, 1)}
	return s.serve(ctx, run)
}
