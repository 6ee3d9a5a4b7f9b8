package executors

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/attach"
)

// watch checks from inside the engine that a device is used as it should be.
type watch struct {
	mu      sync.Mutex
	running map[string]int // batches by executor
	broken  string
}

func (w *watch) enter(name string, limit int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running[name]++
	if w.running[name] > limit || len(w.running) > 1 {
		w.broken = fmt.Sprintf("%s with limit %d runs beside %v", name, limit, w.running)
	}
}

func (w *watch) leave(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running[name]--; w.running[name] == 0 {
		delete(w.running, name)
	}
}

// client is a gateway for one executor that counts what it gets.
type client struct {
	lines chan *line
	now   *line
	sent  map[uint64]bool // on the current line, unanswered
	next  uint64
}

func (c *client) attach() {
	c.now, c.sent = <-c.lines, map[uint64]bool{}
	if m, err := c.now.Recv(); err != nil || m.Hello == nil {
		panic("no hello")
	}
}

// collect takes results until want are outstanding.
func (c *client) collect(t require.TestingT, want int) {
	for len(c.sent) > want {
		m, err := c.now.Recv()
		require.NoError(t, err)
		if m.Ready != nil {
			continue
		}
		require.NotNil(t, m.Result)
		require.True(t, c.sent[m.Result.ID], "answered once, and only what was sent")
		delete(c.sent, m.Result.ID)
	}
}

// Whatever crashes and breaks, executors of different modules never run side
// by side on a device, none exceeds its concurrency, every batch on a stream
// that stays up is answered exactly once, and all comes to rest.
func TestSharedDeviceUnderFaults(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		seed := rapid.Uint64().Draw(rt, "seed")
		synctest.Test(t, func(t *testing.T) { faultRun(t, rand.New(rand.NewPCG(seed, 0))) })
	})
}

// chaos is one random run.
type chaos struct {
	t       *testing.T
	mu      sync.Mutex
	rng     *rand.Rand
	watch   watch
	host    *Host
	clients map[string]*client
	deaths  chan error
}

func (c *chaos) draw(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rng.IntN(n)
}

// engine crashes, panics and fails now and then, and so does every second of the loads that
// follow the first ones, but fewer than an executor tolerates of one lane.
func (c *chaos) engine(name string, limit int) Engine {
	e := newRig(c.t).engine
	e.name = name
	e.deaths = c.deaths
	e.load = func(n int) error {
		if n > limit && n%2 == 0 && n < 2*maxReloads {
			return errors.New("still down")
		}
		return nil
	}
	e.run = func(context.Context, [][]wire.Tensor) error {
		c.watch.enter(name, limit)
		defer c.watch.leave(name)
		time.Sleep(time.Duration(c.draw(5)) * time.Millisecond)
		switch c.draw(12) {
		case 0:
			return wire.Errorf(wire.CodeUnavailable, "m", "crash")
		case 1:
			panic("crash")
		case 2:
			return errors.New("bad request")
		}
		return nil
	}
	return e
}

func (c *chaos) dial(_ context.Context, address string) (attach.Stream, error) {
	if c.draw(4) == 0 {
		return nil, errors.New("refused")
	}
	ours, theirs := newLine()
	c.clients[address].lines <- ours
	return theirs, nil
}

func (c *chaos) step(k *client) {
	if c.draw(10) == 0 {
		k.now.cut()
		k.attach()
		return
	}
	if c.draw(10) == 0 {
		select {
		case c.deaths <- wire.Errorf(wire.CodeUnavailable, "m", "killed"):
		default:
		}
	}
	k.next++
	k.sent[k.next] = true
	due := time.Now().Add(time.Duration(c.draw(50)) * time.Millisecond)
	require.NoError(c.t, k.now.Send(&attach.Message{Batch: &attach.Batch{ID: k.next, Due: due, Items: [][]wire.Tensor{vector(2)}}}))
	k.collect(c.t, c.draw(3))
}

func faultRun(t *testing.T, rng *rand.Rand) {
	c := &chaos{t: t, rng: rng, watch: watch{running: map[string]int{}}, clients: map[string]*client{}, deaths: make(chan error)}
	c.host = &Host{Dial: c.dial}
	var names []string
	var jobs []Task
	ends := map[string]chan error{}
	for i := range 1 + c.draw(3) {
		name := fmt.Sprintf("e%d", i)
		names = append(names, name)
		c.clients[name], ends[name] = &client{lines: make(chan *line, 8)}, make(chan error, 1)
		job := task(name)
		job.Gateway, job.Module.Engine, job.Concurrency = name, name, 1+c.draw(2)
		c.host.Engines = append(c.host.Engines, c.engine(name, job.Concurrency))
		jobs = append(jobs, job)
	}
	for _, job := range jobs {
		go func() { ends[job.Gateway] <- c.host.RunExecutor(t.Context(), job, Observer{}) }()
	}
	for _, name := range names {
		c.clients[name].attach()
	}
	for range 30 {
		c.step(c.clients[names[c.draw(len(names))]])
	}
	for _, name := range names {
		c.clients[name].collect(t, 0)
		require.NoError(t, c.clients[name].now.Send(&attach.Message{Drain: &attach.Drain{}}))
		require.NoError(t, <-ends[name])
	}
	require.Empty(t, c.watch.broken)
	waited, err := c.host.devices["cpu/0"].Acquire(t.Context(), new(queueUser), time.Time{})
	require.NoError(t, err)
	require.False(t, waited, "it is neither held nor waited for")
}
