package executors

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/attach"
)

var errCut = errors.New("cut")

// line is a stream in memory that a test can also cut.
type line struct {
	in, out   chan *attach.Message
	end       *lineEnd // of both directions
	closeOnce sync.Once
	closed    chan struct{} // by this side
	peer      *line
}

type lineEnd struct {
	once sync.Once
	cut  chan struct{}
}

func newLine() (a, b *line) {
	x, y := make(chan *attach.Message, 8), make(chan *attach.Message, 8)
	end := &lineEnd{cut: make(chan struct{})}
	a = &line{in: x, out: y, end: end, closed: make(chan struct{})}
	b = &line{in: y, out: x, end: end, closed: make(chan struct{})}
	a.peer, b.peer = b, a
	return a, b
}

func (l *line) cut() { l.end.once.Do(func() { close(l.end.cut) }) }

func (l *line) Send(m *attach.Message) error {
	select {
	case <-l.end.cut:
		return errCut
	case <-l.closed:
		return errors.New("closed here")
	case <-l.peer.closed:
		return errors.New("closed there")
	case l.out <- m:
		return nil
	}
}

func (l *line) Recv() (*attach.Message, error) {
	select {
	case m := <-l.in:
		return m, nil
	default:
	}
	select {
	case m := <-l.in:
		return m, nil
	case <-l.end.cut:
		return nil, errCut
	case <-l.closed:
		return nil, errors.New("closed here")
	case <-l.peer.closed:
		select {
		case m := <-l.in:
			return m, nil
		default:
			return nil, io.EOF
		}
	}
}

func (l *line) Close() error {
	l.closeOnce.Do(func() { close(l.closed) })
	return nil
}

// gate is the gateway's side of a test.
type gate struct {
	t     *testing.T
	lines chan *line
	line  *line
	sent  uint64
}

// dial is a Host.Dial.
func (g *gate) dial(ctx context.Context, _ string) (attach.Stream, error) {
	ours, theirs := newLine()
	context.AfterFunc(ctx, func() { theirs.cut() })
	g.lines <- ours
	return theirs, nil
}

// accept waits for the executor and returns its Hello.
func (g *gate) accept() *attach.Hello {
	g.line = <-g.lines
	m, err := g.line.Recv()
	require.NoError(g.t, err)
	require.NotNil(g.t, m.Hello)
	return m.Hello
}

func (g *gate) sendDue(due time.Time, items ...[]wire.Tensor) uint64 {
	g.sent++
	require.NoError(g.t, g.line.Send(&attach.Message{Batch: &attach.Batch{ID: g.sent, Due: due, Items: items}}))
	return g.sent
}

func (g *gate) send(items ...[]wire.Tensor) uint64 { return g.sendDue(time.Time{}, items...) }

func (g *gate) result() *attach.Result {
	m, err := g.line.Recv()
	require.NoError(g.t, err)
	require.NotNil(g.t, m.Result, "%+v", m)
	return m.Result
}

// ready waits for the end of what a result with Away has begun.
func (g *gate) ready() {
	m, err := g.line.Recv()
	require.NoError(g.t, err)
	require.NotNil(g.t, m.Ready, "%+v", m)
}

func (g *gate) drain() {
	require.NoError(g.t, g.line.Send(&attach.Message{Drain: &attach.Drain{Reason: "test"}}))
}

// fake is an engine made of functions.
type fake struct {
	name  string // "fake" when empty
	mu    sync.Mutex
	sig   pipelines.Signature
	load  func(n int) error // before the n-th load, from 1
	run   func(ctx context.Context, items [][]wire.Tensor) error
	loads int
	open  int
	last  Model // loaded

	deaths chan error // of an instance, while it is idle
}

func (f *fake) Version() string { return "7" }

func (f *fake) Name() string {
	if f.name == "" {
		return "fake"
	}
	return f.name
}

func (f *fake) Load(ctx context.Context, m Model) (Instance, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.loads++
	f.last = m
	if f.load != nil {
		if err := f.load(f.loads); err != nil {
			return nil, err
		}
	}
	f.open++
	return &fakeInstance{fake: f, ctx: ctx}, nil
}

type fakeInstance struct {
	fake   *fake
	ctx    context.Context
	closed bool
}

func (i *fakeInstance) Signature() pipelines.Signature { return i.fake.sig }
func (i *fakeInstance) Memory() int64                  { return 100 }

func (i *fakeInstance) Run(ctx context.Context, items [][]wire.Tensor) ([][]wire.Tensor, error) {
	if i.ctx.Err() != nil || i.closed {
		return nil, wire.Errorf(wire.CodeUnavailable, "", "used after its end")
	}
	if i.fake.run != nil {
		if err := i.fake.run(ctx, items); err != nil {
			return nil, err
		}
	}
	return items, nil // outputs are the inputs
}

func (i *fakeInstance) AwaitEnd(ctx context.Context) error {
	select {
	case err := <-i.fake.deaths:
		return err
	case <-ctx.Done():
		return nil
	}
}

func (i *fakeInstance) Close() error {
	if !i.closed {
		i.closed = true
		i.fake.mu.Lock()
		i.fake.open--
		i.fake.mu.Unlock()
	}
	return nil
}

// rig is a host with one fake engine and executors on device "cpu/0".
type rig struct {
	*gate
	host   *Host
	engine *fake
	cancel context.CancelFunc
	done   chan error
}

func port(name string, shape ...int64) pipelines.Port {
	return pipelines.Port{Name: name, Datatype: "FP32", Shape: shape}
}

// vector is an FP32 tensor of zeros with n elements.
func vector(n int) []wire.Tensor {
	return []wire.Tensor{{Datatype: "FP32", Shape: []int64{int64(n)}, Data: make([]byte, 4*n)}}
}

func newRig(t *testing.T) *rig {
	engine := &fake{sig: pipelines.Signature{Inputs: []pipelines.Port{port("x", 2)}, Outputs: []pipelines.Port{port("y", 2)}}}
	g := &gate{t: t, lines: make(chan *line, 8)}
	host := &Host{
		Name:    "a",
		Devices: []placement.Device{{Name: "cpu/0"}},
		Engines: []Engine{engine},
		Dial:    g.dial,
		Busy:    func() (ProcessorReading, error) { return ProcessorReading{}, ErrUseUnknown },
	}
	return &rig{gate: g, host: host, engine: engine}
}

func task(name string) Task {
	return Task{
		Slot:   placement.Slot{Executor: name, Pipeline: "p", Module: "m", Device: "cpu/0", Hardware: "cpu", Batch: 2, Batches: []int{1, 2}},
		Module: pipelines.Module{Name: "m", Engine: "fake"},
	}
}

// start runs an executor until stop or drain.
func (r *rig) start(t Task, o Observer) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	r.cancel, r.done = cancel, done
	go func() { done <- r.host.RunExecutor(ctx, t, o) }()
	r.t.Cleanup(cancel)
}

// bubble runs a test on a clock of its own.
func bubble(t *testing.T, f func(t *testing.T, r *rig)) {
	synctest.Test(t, func(t *testing.T) {
		f(t, newRig(t))
	})
}
