package server

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/harpagon/harpagon/dispatcher"
	"github.com/harpagon/harpagon/wire/attach"
	"github.com/harpagon/harpagon/wire/queue"
)

// control is the stream of an executor to a dispatcher elsewhere than its gateways.
type control struct {
	server   *Server
	stream   attach.Stream
	service  string
	name     string
	executor *dispatcher.Executor

	sending  sync.Mutex
	draining atomic.Bool
}

// Attach serves the stream of one executor, whom its port has let in: it waits for the Hello,
// has batches started on it, and returns when the stream has ended: nil after a drain,
// otherwise why.
func (s *Server) Attach(stream attach.Stream) error {
	defer func() { _ = stream.Close() }()
	m, err := stream.Recv()
	switch {
	case err != nil:
		return fmt.Errorf("dispatcher: waiting for an executor's Hello: %w", err)
	case m.Hello == nil || m.Hello.Executor == "":
		return errors.New("dispatcher: an executor must send Hello with its name before anything else")
	}
	h := m.Hello
	c := &control{server: s, stream: stream, service: h.Pipeline, name: h.Executor}
	s.mu.Lock()
	c.executor = s.dispatcher.Register(dispatcher.Introduction{
		Name: h.Executor, Service: h.Pipeline, Host: h.Host, Device: h.Device, Hardware: h.Hardware, Concurrency: h.Concurrency, Holder: c,
	}, false)
	s.controls = append(s.controls, c)
	c.sendEpoch(s.epochOf(h.Pipeline))
	s.mu.Unlock()
	s.dispatcher.Activate(c.executor)
	err = c.serve()
	s.mu.Lock()
	s.controls = slices.DeleteFunc(s.controls, func(other *control) bool { return other == c })
	s.mu.Unlock()
	s.dispatcher.Abandon(c.executor)
	s.mu.Lock()
	s.look(h.Pipeline)
	s.mu.Unlock()
	if c.draining.Load() {
		return nil
	}
	return err
}

// serve handles what comes until the stream ends, and returns why: on the goroutine that
// brings it, where that can be.
func (c *control) serve() error {
	attach.Direct(c.stream, c.handle)
	for {
		m, err := c.stream.Recv()
		if err == nil {
			err = c.handle(m)
		}
		if err != nil {
			return err
		}
	}
}

func (c *control) handle(m *attach.Message) error {
	d := c.server.dispatcher
	switch {
	case m.Done != nil:
		if b := c.executor.Started(m.Done.Epoch, m.Done.Batch); b != nil && c.executor.Take(b.ID) == b {
			d.Done(b, dispatcher.Report{Waited: m.Done.Waited, Compute: m.Done.Compute, Failed: m.Done.Failed, Away: m.Done.Away})
		}
	case m.Soon != nil:
		d.Prestart(c.executor, m.Soon.ID, m.Soon.Compute)
	case m.Ready != nil:
		d.Ready(c.executor)
	case m.Owner != nil: // the executor has seen a higher epoch, whose dispatcher is gone
		go c.server.claimed(c.service, m.Owner.Epoch)
	case m.Drain != nil:
		d.Detach(c.executor)
		c.draining.Store(true)
	default:
		return fmt.Errorf("dispatcher: executor %q sent a message that is none of Done, Soon, Ready, Owner and Drain", c.executor.Name)
	}
	if c.draining.Load() && c.executor.Idle() {
		return io.EOF
	}
	return nil
}

func (c *control) send(m *attach.Message) {
	c.sending.Lock()
	err := c.stream.Send(m)
	c.sending.Unlock()
	if err != nil {
		_ = c.stream.Close()
	}
}

// sendEpoch sends the executor the epoch by which its service is decided. Server.mu is held.
func (c *control) sendEpoch(epoch uint64) {
	if c.executor.SetEpoch(epoch) {
		c.send(&attach.Message{Owner: &attach.Owner{Epoch: epoch}})
	}
}

// dismiss has the executor finish what it holds and go.
func (c *control) dismiss() {
	c.server.dispatcher.Detach(c.executor)
	c.send(&attach.Message{Drain: &attach.Drain{Reason: "the deployment does not need this executor any more"}})
}

// skip orders the executor not to wait for a part.
func (c *control) skip(b *dispatcher.Batch, part int) {
	p := attach.Part{Epoch: b.Whole.Epoch, Batch: b.ID, Part: part, Parts: b.Parts}
	c.send(&attach.Message{Skip: &attach.Skip{Part: p}})
}

// skipPartsOf orders the executor not to wait for parts of a gateway that is gone.
func (c *control) skipPartsOf(p *peer) {
	for _, b := range c.executor.Running() {
		for part, g := range b.Gateways() {
			if g == dispatcher.Gateway(p) {
				c.skip(b, part)
			}
		}
	}
}

func isEnd(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrClosedPipe) }

// missingFor is how long a module may be without any executor until gateways are notified.
// Executors whose connection was cut reattach within it.
const missingFor = 100 * time.Millisecond

// look checks a little later whether an executor of every module of a service is attached.
// Where this server decides for a module that has none, it notifies the gateways, again and
// again until there is one: they may have executors that are cut off from here only, and then
// request another dispatcher. Server.mu is held.
func (s *Server) look(service string) {
	if s.looking[service] {
		return
	}
	s.looking[service] = true
	time.AfterFunc(missingFor, func() {
		n := s.dispatcher.Missing(service, missingFor)
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.looking, service)
		told, owned := s.missing[service], s.epochOf(service) > 0
		if told || owned && n > 0 {
			for _, p := range s.peers {
				p.conn.Send(&queue.Message{Kind: queue.Missing, Text: []byte(service), How: uint64(n)})
			}
			told = n > 0
			if s.missing[service] = told; !told {
				delete(s.missing, service)
			}
		}
		if len(s.peers) > 0 && (told || owned && s.dispatcher.Missing(service, 0) > 0) {
			s.look(service)
		}
	})
}
