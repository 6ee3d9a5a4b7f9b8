package gateway

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/executors/child"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/attach"
)

func TestMain(m *testing.M) {
	if child.Requested() {
		child.Serve(mortal{})
	}
	os.Exit(m.Run())
}

// mortal is an engine that doubles a number and returns its process ID, within a millisecond.
// An input may also make it die (askDeath) or fail (askError).
type mortal struct{}

const (
	askDeath = -1
	askError = -2
)

func (mortal) Name() string    { return "mortal" }
func (mortal) Version() string { return "1" }

func (mortal) Load(context.Context, executors.Model) (executors.Instance, error) {
	return mortal{}, nil
}

func (mortal) Signature() pipelines.Signature { return addOne.sig }
func (mortal) Memory() int64                  { return 0 }
func (mortal) Close() error                   { return nil }

func (mortal) Run(_ context.Context, items [][]wire.Tensor) ([][]wire.Tensor, error) {
	time.Sleep(time.Millisecond)
	answers := make([][]wire.Tensor, len(items))
	for i, in := range items {
		x := floats(in[0])[0]
		switch x {
		case askDeath:
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		case askError:
			return nil, wire.Errorf(wire.CodeInvalid, "", "no such number")
		}
		answers[i] = []wire.Tensor{wire.FromFloat32([]float32{2 * x, float32(os.Getpid())}, 2)}
	}
	return answers, nil
}

// ward is a gateway with executors whose engines run in children.
type ward struct {
	*Gateway
	host   *executors.Host
	cancel context.CancelFunc
	ends   sync.WaitGroup
	begun  atomic.Int64
	ended  atomic.Int64

	mu    sync.Mutex
	alive map[int]bool // by id of the processes that have answered
}

func newWard(t *testing.T, n int, slo time.Duration) *ward {
	w := &ward{alive: make(map[int]bool)}
	w.Gateway = recorded(t, Options{Grace: time.Minute, Observer: Observer{
		RequestBegin: func(RequestInfo) { w.begun.Add(1) },
		RequestEnd:   func(RequestInfo) { w.ended.Add(1) },
	}})
	w.host = &executors.Host{
		Name: "h", Engines: []executors.Engine{child.New("mortal", child.Options{Output: new(nowhere)})}, ForceEngine: "mortal",
		Retry: executors.Backoff{Min: time.Millisecond, Max: 10 * time.Millisecond},
		Dial: func(context.Context, string) (attach.Stream, error) {
			ours, theirs := attach.Pipe()
			go func() { _ = w.Attach(theirs) }()
			return ours, nil
		},
	}
	d := deployment(single(slo), 1, map[string]spec{"m": {executors: n, batch: 8, window: 2 * time.Millisecond, duration: 2 * time.Millisecond}})
	ctx, cancel := context.WithCancel(t.Context())
	w.cancel = cancel
	for _, slot := range d.Slots {
		w.ends.Go(func() {
			err := w.host.RunExecutor(ctx, executors.NewTask(d, slot, "here"), executors.Observer{})
			if err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		})
	}
	ready, done := context.WithTimeout(t.Context(), time.Minute)
	defer done()
	require.NoError(t, w.Prepare(ready, d))
	require.NoError(t, w.Install(ready, d))
	t.Cleanup(w.end)
	return w
}

func (w *ward) end() {
	w.cancel()
	w.ends.Wait()
	_ = w.Gateway.Close()
}

// ask sends one number and notes which process has answered.
func (w *ward) ask(x float32) error {
	r, err := w.Infer(context.Background(), &wire.InferRequest{Pipeline: "p", Inputs: vector(x, 0)})
	if err != nil {
		return err
	}
	v := floats(r.Outputs[0].Tensor)
	if v[0] != 2*x {
		return errors.New("a wrong answer")
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, known := w.alive[int(v[1])]; !known {
		w.alive[int(v[1])] = true
	}
	return nil
}

// victim is one of the processes that have answered and were not victims yet.
func (w *ward) victim() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	for pid, alive := range w.alive {
		if alive {
			w.alive[pid] = false
			return pid
		}
	}
	return 0
}

func (w *ward) batches() (n, reloads int64) {
	for _, s := range w.host.Executors() {
		n, reloads = n+s.Batches, reloads+s.Reloads
	}
	return n, reloads
}

type nowhere struct{}

func (*nowhere) Write(p []byte) (int, error) { return len(p), nil }

// TestEnginesAreKilled kills processes of engines in the middle of batches: with
// HARPAGON_LONG 20 within 1000.
// Every request has one outcome, an answer unless it was twice with an engine
// that was killed, and once they are let live all is as before.
func TestEnginesAreKilled(t *testing.T) {
	kills, batches := 5, int64(250)
	if os.Getenv("HARPAGON_LONG") != "" {
		kills, batches = 20, 1000
	}
	for name, n := range map[string]int{"one executor": 1, "two executors": 2} {
		t.Run(name, func(t *testing.T) {
			w := newWard(t, n, 10*time.Second)
			var over atomic.Bool
			var group sync.WaitGroup
			var asked, answered, unavailable atomic.Int64
			for range 6 {
				group.Go(func() {
					for x := float32(1); !over.Load(); x++ {
						asked.Add(1)
						err := w.ask(x)
						switch {
						case err == nil:
							answered.Add(1)
						case errors.Is(err, wire.ErrUnavailable):
							unavailable.Add(1)
						default:
							t.Error(err)
						}
					}
				})
			}
			rng := rand.New(rand.NewPCG(1, 1))
			killed := 0
			for killed < kills || total(w) < batches {
				due := batches * int64(killed+1) / int64(kills+1)
				pid := 0
				if killed < kills && total(w) >= due {
					pid = w.victim()
				}
				if pid != 0 && syscall.Kill(pid, syscall.SIGKILL) == nil {
					killed++
				}
				time.Sleep(time.Duration(rng.IntN(2000)) * time.Microsecond)
			}
			over.Store(true)
			group.Wait()
			_, reloads := w.batches()
			t.Logf("%d kills, %d reloads, %d batches, %d requests: %d answered, %d failed", killed, reloads, total(w), asked.Load(), answered.Load(), unavailable.Load())
			require.Equal(t, asked.Load(), answered.Load()+unavailable.Load())
			require.Equal(t, asked.Load(), w.begun.Load())
			require.Equal(t, asked.Load(), w.ended.Load())
			require.Zero(t, w.Measures("p").InFlight)
			require.GreaterOrEqual(t, reloads, int64(killed-n), "those that were killed last may have died unnoticed")
			before := w.Totals("p")
			for x := range 50 {
				require.NoError(t, w.ask(float32(x)), "the engine is back")
			}
			require.Equal(t, before[Completed]+50, w.Totals("p")[Completed], "in time")
		})
	}
}

func total(w *ward) int64 { n, _ := w.batches(); return n }

func TestARequestThatKillsItsEngine(t *testing.T) {
	w := newWard(t, 1, 10*time.Second)
	require.NoError(t, w.ask(1))
	err := w.ask(askDeath)
	require.ErrorIs(t, err, wire.ErrUnavailable)
	require.ErrorContains(t, err, "signal: killed")
	require.NoError(t, w.ask(2))
	_, reloads := w.batches()
	require.EqualValues(t, 2, reloads, "it was given a second engine, and no third")
}

func TestARequestThatSpoilsItsBatch(t *testing.T) {
	w := newWard(t, 1, 10*time.Second)
	var group sync.WaitGroup
	for x := range 40 {
		group.Go(func() {
			if x%8 == 3 {
				if err := w.ask(askError); !errors.Is(err, wire.ErrInvalid) {
					t.Error(err)
				}
				return
			}
			if err := w.ask(float32(x)); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	_, reloads := w.batches()
	require.Zero(t, reloads)
}
