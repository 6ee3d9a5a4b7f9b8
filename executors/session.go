package executors

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/harpagon/harpagon/wire/attach"
)

// session is one stream to the gateway. As many goroutines as there are cells
// take turns to receive: the one that got a batch runs it and answers it
// itself, so that a batch changes goroutine only where the stream does.
type session struct {
	executor *executor
	stream   attach.Stream
	stop     func() // gives up everything that still runs

	turn    chan struct{} // holds one token: who has it receives
	sending sync.Mutex

	mu       sync.Mutex
	over     bool // no more batches are taken
	draining bool // we have asked for it
	end      ending

	closing sync.Once
}

// ending says why a session is over: final when there is nothing to attach
// again for, and then err is the executor's result.
type ending struct {
	final bool
	err   error
}

func (s *session) serve(ctx, run context.Context) ending {
	e := s.executor
	s.turn <- struct{}{}
	defer s.hangUp()
	if err := s.send(&attach.Message{Hello: e.task.hello(e.host.Name, e.engine, e.model, e.signature)}); err != nil {
		return ending{err: err}
	}
	e.enter(Serving)
	e.observer.attached(e.status)

	var grace *time.Timer
	asked := make(chan struct{})
	cancelled := context.AfterFunc(ctx, func() {
		grace = time.AfterFunc(e.host.drainTimeout(), s.giveUp)
		close(asked)
		s.drain("the executor was told to stop")
	})
	var others sync.WaitGroup
	for _, c := range e.cells[1:] {
		others.Go(func() { s.work(ctx, run, c) })
	}
	s.work(ctx, run, e.cells[0])
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
func (s *session) work(ctx, run context.Context, c *cell) {
	for {
		batch := s.receive()
		if batch == nil {
			return
		}
		reply, crash := s.executor.run(run, c, batch)
		if err := s.send(&reply.message); err != nil {
			s.finish(ending{err: fmt.Errorf("executors: sending a result: %w", err)})
			s.hangUp()
			return
		}
		if crash == nil {
			continue
		}
		if err := s.executor.reload(ctx, run, c, crash); err != nil {
			s.finish(ending{final: true, err: err})
			s.hangUp()
			return
		}
		if err := s.ready(c); err != nil {
			s.finish(ending{err: fmt.Errorf("executors: saying that the engine is back: %w", err)})
			s.hangUp()
			return
		}
	}
}

// ready tells the gateway that the cell's engine is back, if it is.
func (s *session) ready(c *cell) error {
	if c.instance == nil {
		return nil
	}
	return s.send(&attach.Message{Ready: &attach.Ready{}})
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

// lost ends the session after Recv has failed: in good order when we had asked
// to drain and the gateway has closed.
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

// drain asks the gateway for no more batches; it answers by closing.
func (s *session) drain(reason string) {
	s.mu.Lock()
	s.draining = true
	s.mu.Unlock()
	s.executor.enter(Draining)
	s.executor.observer.draining(s.executor.status, reason)
	if err := s.send(&attach.Message{Drain: &attach.Drain{Reason: reason}}); err != nil {
		s.finish(ending{err: err})
		s.hangUp()
	}
}

// giveUp ends a drain that takes too long.
func (s *session) giveUp() {
	s.finish(ending{final: true, err: fmt.Errorf("executors: %s did not finish what it held within %v of being told to stop",
		s.executor.task.Slot.Executor, s.executor.host.drainTimeout())})
	s.stop()
	s.hangUp()
}

// finish ends the session; the first ending counts.
func (s *session) finish(end ending) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.over {
		s.over, s.end = true, end
	}
}

// hangUp closes the stream, which also wakes whoever receives.
func (s *session) hangUp() {
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
