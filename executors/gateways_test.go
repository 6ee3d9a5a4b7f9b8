package executors

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/attach"
)

// gates are several gateways of one host, by address.
type gates struct {
	t   *testing.T
	mu  sync.Mutex
	all map[string]*gate
}

func (g *gates) at(address string) *gate {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.all[address] == nil {
		g.all[address] = &gate{t: g.t, lines: make(chan *line, 64)}
	}
	return g.all[address]
}

func (g *gates) dial(ctx context.Context, address string) (attach.Stream, error) {
	return g.at(address).dial(ctx, address)
}

func several(t *testing.T, f func(t *testing.T, r *rig, at func(string) *gate)) {
	bubble(t, func(t *testing.T, r *rig) {
		g := &gates{t: t, all: map[string]*gate{}}
		r.host.Dial = g.dial
		f(t, r, g.at)
	})
}

func TestAnExecutorServesAllGateways(t *testing.T) {
	several(t, func(t *testing.T, r *rig, at func(string) *gate) {
		most, running := 0, 0
		r.engine.run = func(context.Context, [][]wire.Tensor) error {
			r.engine.mu.Lock()
			running++
			most = max(most, running)
			r.engine.mu.Unlock()
			time.Sleep(time.Second)
			r.engine.mu.Lock()
			running--
			r.engine.mu.Unlock()
			return nil
		}
		r.host.Gateways.Set([]string{"a", "b"})
		r.start(task("e1"), Observer{})
		a, b := at("a"), at("b")
		a.accept()
		b.accept()
		for range 3 {
			ida, idb := a.send(vector(2)), b.send(vector(2))
			require.Equal(t, ida, a.result().ID)
			require.Equal(t, idb, b.result().ID)
		}
		require.Equal(t, 1, most, "one batch at a time, of all gateways")

		r.host.Gateways.Set([]string{"a", "b", "c"}) // one joins
		c := at("c")
		c.accept()
		require.Equal(t, c.send(vector(2)), c.result().ID)

		r.host.Gateways.Set([]string{"a", "c"}) // the fleet has lost sight of one
		require.Equal(t, b.send(vector(2)), b.result().ID, "which serves as long as its stream lasts")
		b.line.cut()
		time.Sleep(time.Minute)
		require.Empty(t, b.lines, "and is not dialled again")
		require.Equal(t, a.send(vector(2)), a.result().ID)
		a.line.cut() // a connection that breaks
		a.accept()
		require.Equal(t, a.send(vector(2)), a.result().ID)

		a.drain()
		synctest.Wait()
		require.Equal(t, c.send(vector(2)), c.result().ID, "the other gateway has not moved its traffic yet")
		c.drain()
		require.NoError(t, <-r.done)
	})
}

func TestADrainedExecutorDoesNotWaitForAGatewayThatIsGone(t *testing.T) {
	several(t, func(t *testing.T, r *rig, at func(string) *gate) {
		dial := r.host.Dial
		r.host.Dial = func(ctx context.Context, address string) (attach.Stream, error) {
			if address == "gone" {
				return nil, errors.New("nobody answers")
			}
			return dial(ctx, address)
		}
		r.host.Gateways.Set([]string{"a", "gone"})
		r.start(task("e1"), Observer{})
		at("a").accept()
		time.Sleep(time.Minute)
		at("a").drain()
		require.NoError(t, <-r.done)
	})
}

func TestAnEngineThatIsAwayIsAwayForAllGateways(t *testing.T) {
	several(t, func(t *testing.T, r *rig, at func(string) *gate) {
		r.engine.run = func(context.Context, [][]wire.Tensor) error {
			if r.engine.loads == 1 {
				return wire.Errorf(wire.CodeUnavailable, "", "it crashed")
			}
			return nil
		}
		r.engine.load = func(n int) error {
			if n > 1 {
				time.Sleep(10 * time.Second)
			}
			return nil
		}
		r.host.Gateways.Set([]string{"a", "b"})
		r.start(task("e1"), Observer{})
		a, b := at("a"), at("b")
		a.accept()
		b.accept()
		a.send(vector(2))
		require.True(t, a.result().Away)
		begin := time.Now()
		b.send(vector(2))
		turned := b.result()
		require.True(t, turned.Away)
		require.ErrorIs(t, turned.Err, wire.ErrUnavailable)
		require.Zero(t, time.Since(begin), "ended at once")
		a.ready()
		b.ready()
		require.Nil(t, b.send2(vector(2)).Err)
		r.cancel()
		for _, g := range []*gate{a, b} {
			m, err := g.line.Recv()
			require.NoError(t, err)
			require.NotNil(t, m.Drain)
			require.NoError(t, g.line.Close())
		}
		require.NoError(t, <-r.done)
	})
}

func TestAnEngineLostForGoodEndsAllSessions(t *testing.T) {
	several(t, func(t *testing.T, r *rig, at func(string) *gate) {
		r.engine.run = func(context.Context, [][]wire.Tensor) error {
			return wire.Errorf(wire.CodeUnavailable, "", "it crashed")
		}
		r.engine.load = func(n int) error {
			if n > 1 {
				return errors.New("the device fell off the bus")
			}
			return nil
		}
		r.host.Gateways.Set([]string{"a", "b"})
		r.start(task("e1"), Observer{})
		at("a").accept()
		at("b").accept()
		at("a").send(vector(2))
		at("b").send(vector(2))
		require.ErrorContains(t, <-r.done, "fell off the bus")
	})
}

// send2 sends a batch and waits for its result.
func (g *gate) send2(items ...[]wire.Tensor) *attach.Result {
	g.send(items...)
	return g.result()
}

// TestAnEndWhileADialFails: an ending is either final or has an error, whenever ctx ends.
func TestAnEndWhileADialFails(t *testing.T) {
	refused := errors.New("connection refused")
	for range 20_000 {
		ctx, cancel := context.WithCancel(context.Background())
		e := &executor{host: &Host{Dial: func(context.Context, string) (attach.Stream, error) {
			go cancel()
			return nil, refused
		}}}
		end := e.serveStream(ctx, context.Background(), func() {}, "a")
		require.NotEqual(t, end.final, end.err != nil)
	}
}
