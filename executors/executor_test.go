package executors

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/attach"
)

func TestExecutorAnswersBatchesUntilDrained(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		var calls []string
		note := func(what string) func(Status) { return func(Status) { calls = append(calls, what) } }
		r.engine.run = func(context.Context, [][]wire.Tensor) error { time.Sleep(7 * time.Millisecond); return nil }
		r.start(task("e1"), Observer{
			Loaded: note("loaded"), Attached: note("attached"), Drained: note("drained"),
			BatchBegin: func(BatchInfo) { calls = append(calls, "begin") },
			BatchEnd: func(b BatchInfo) {
				calls = append(calls, "end")
				require.Equal(t, 7*time.Millisecond, b.Compute)
			},
			Draining: func(_ Status, reason string) { calls = append(calls, "draining: "+reason) },
		})
		hello := r.accept()
		require.Equal(t, &attach.Hello{
			Executor: "e1", Pipeline: "p", Module: "m", Host: "a", Device: "cpu/0", Hardware: "cpu", Engine: "fake",
			MaxBatch: 2, Concurrency: 1, Signature: r.engine.sig,
		}, hello)

		id := r.send(vector(2), vector(2))
		result := r.result()
		require.Equal(t, id, result.ID)
		require.Nil(t, result.Err)
		require.Len(t, result.Items, 2)
		require.Equal(t, 7*time.Millisecond, result.Compute)
		require.Zero(t, result.Waited)

		synctest.Wait()
		status, ok := r.host.Status("e1")
		require.True(t, ok)
		require.Equal(t, Serving, status.Phase)
		require.EqualValues(t, 2, status.Items)
		require.EqualValues(t, 100, status.Memory)
		require.Len(t, r.host.Executors(), 1)
		require.Contains(t, status.Describe(), "e1 serving on cpu/0 with fake: 1 batches, 2 items, 0 failed, busy 7ms")

		r.drain()
		require.NoError(t, <-r.done)
		require.Equal(t, []string{"loaded", "attached", "begin", "end", "draining: test", "drained"}, calls)
		require.Zero(t, r.engine.open)
		require.Empty(t, r.host.Executors())
	})
}

func TestBadBatchesAreRefusedBeforeTheEngine(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.engine.run = func(context.Context, [][]wire.Tensor) error { panic("must not run") }
		r.start(task("e1"), Observer{})
		r.accept()
		short := vector(2)
		short[0].Data = short[0].Data[:4]
		wrong := vector(2)
		wrong[0].Datatype = "INT64"
		for _, c := range []struct {
			items [][]wire.Tensor
			says  string
		}{
			{nil, "a batch of 0 requests, but the executor takes 1 to 2"},
			{[][]wire.Tensor{vector(2), vector(2), vector(2)}, "a batch of 3 requests"},
			{[][]wire.Tensor{vector(3)}, `"x" has shape [3] where [2] is expected`},
			{[][]wire.Tensor{{}}, "0 tensors where 1 are expected"},
			{[][]wire.Tensor{short}, `"x": wire: shape [2] of FP32 needs 2 elements of 4 bytes, but there are 4`},
			{[][]wire.Tensor{wrong}, `"x" is INT64 where FP32 is expected`},
		} {
			r.send(c.items...)
			result := r.result()
			require.ErrorIs(t, result.Err, wire.ErrInvalid)
			require.ErrorContains(t, result.Err, c.says)
			require.Empty(t, result.Items)
		}
		r.drain()
		require.NoError(t, <-r.done)
	})
}

func TestEngineErrorsFailTheirBatchOnly(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		faults := []error{wire.Errorf(wire.CodeInvalid, "m", "no"), errors.New("odd"), nil}
		r.engine.run = func(context.Context, [][]wire.Tensor) error {
			f := faults[0]
			faults = faults[1:]
			return f
		}
		r.start(task("e1"), Observer{})
		r.accept()
		for _, want := range []error{wire.ErrInvalid, wire.ErrInternal, nil} {
			r.send(vector(2))
			if err := r.result().Err; want == nil {
				require.Nil(t, err)
			} else {
				require.ErrorIs(t, err, want)
			}
		}
		status, _ := r.host.Status("e1")
		require.EqualValues(t, 2, status.Failed)
		require.Contains(t, status.LastError, "odd")
		require.Equal(t, 1, r.engine.loads)
		r.drain()
		require.NoError(t, <-r.done)
	})
}

// numbers is a batch of vectors that begin with these.
func numbers(all ...float32) (items [][]wire.Tensor) {
	for _, x := range all {
		items = append(items, []wire.Tensor{wire.FromFloat32([]float32{x, 0}, 2)})
	}
	return items
}

func TestOneRequestDoesNotSpoilTheBatch(t *testing.T) {
	const bad, crash = -1, -2
	bubble(t, func(t *testing.T, r *rig) {
		var runs []int
		r.engine.run = func(_ context.Context, items [][]wire.Tensor) error {
			runs = append(runs, len(items))
			for _, in := range items {
				switch v, _ := in[0].Float32s(); v[0] {
				case bad:
					return wire.Errorf(wire.CodeInvalid, "m", "no such number")
				case crash:
					return wire.Errorf(wire.CodeUnavailable, "m", "the child has died")
				}
			}
			return nil
		}
		job := task("e1")
		job.Slot.Batch = 8
		var failed []int
		r.start(job, Observer{BatchEnd: func(i BatchInfo) { failed = append(failed, i.Failed) }})
		r.accept()
		for _, c := range []struct {
			items [][]wire.Tensor
			codes []wire.Code // of each request
			runs  []int
			all   bool // one error for all
			away  bool
		}{
			{numbers(1, 2, 3), []wire.Code{"", "", ""}, []int{3}, false, false},
			{numbers(1, bad, 3), []wire.Code{"", wire.CodeInvalid, ""}, []int{3, 1, 1, 1}, false, false},
			{numbers(bad), []wire.Code{wire.CodeInvalid}, []int{1}, true, false},
			{append(numbers(1, 2), vector(3)), []wire.Code{"", "", wire.CodeInvalid}, []int{2}, false, false},
			{append(numbers(1, bad), vector(3)), []wire.Code{"", wire.CodeInvalid, wire.CodeInvalid}, []int{2, 1, 1}, false, false},
			{[][]wire.Tensor{vector(3), vector(4)}, []wire.Code{wire.CodeInvalid, wire.CodeInvalid}, nil, false, false},
			{numbers(1, crash, 3), []wire.Code{wire.CodeUnavailable, wire.CodeUnavailable, wire.CodeUnavailable}, []int{3}, true, true},
			{numbers(1, bad, crash, 4), []wire.Code{"", wire.CodeInvalid, wire.CodeUnavailable, wire.CodeUnavailable}, []int{4, 1, 1, 1}, false, true},
			{append(numbers(crash), vector(3)), []wire.Code{wire.CodeUnavailable, wire.CodeInvalid}, []int{1}, false, true},
		} {
			runs, failed = nil, nil
			r.send(c.items...)
			got := r.result()
			require.Equal(t, c.runs, runs)
			require.Equal(t, c.all, got.Err != nil)
			require.Equal(t, c.away, got.Away)
			bad := 0
			for i, want := range c.codes {
				err := got.Err
				if err == nil && got.Errs != nil {
					err = got.Errs[i]
				}
				if want == "" {
					require.Nil(t, err)
					require.Equal(t, c.items[i], got.Items[i])
					continue
				}
				bad++
				require.Equal(t, want, err.Code)
			}
			require.Equal(t, []int{bad}, failed)
			if c.away {
				r.ready()
			}
		}
		r.drain()
		require.NoError(t, <-r.done)
	})
}

func TestCrashMidBatchReloadsWhileAttached(t *testing.T) {
	for name, crash := range map[string]func() error{
		"unavailable": func() error { return wire.Errorf(wire.CodeUnavailable, "m", "the child has died") },
		"panic":       func() error { panic("the child has died") },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				runs := 0
				r.engine.run = func(context.Context, [][]wire.Tensor) error {
					if runs++; runs == 1 {
						return crash()
					}
					return nil
				}
				r.engine.load = func(n int) error {
					if n == 2 || n == 3 {
						return errors.New("not yet")
					}
					return nil
				}
				var reloads []string
				r.start(task("e1"), Observer{Reloading: func(s Status, attempt int, err error) {
					require.Equal(t, Reloading, s.Phase)
					reloads = append(reloads, err.Error())
				}})
				r.accept()
				r.send(vector(2))
				lost := r.result()
				require.ErrorIs(t, lost.Err, wire.ErrUnavailable)
				require.True(t, lost.Away)
				begin := time.Now()
				r.send(vector(2)) // it may be sent at any time
				r.ready()
				require.Nil(t, r.result().Err)
				require.Equal(t, 150*time.Millisecond, time.Since(begin), "no wait, then 50 ms, then 100 ms")
				require.Len(t, reloads, 3)
				require.Contains(t, reloads[0], "the child has died")
				require.Equal(t, "not yet", reloads[2])
				require.Equal(t, 1, r.engine.open)
				status, _ := r.host.Status("e1")
				require.EqualValues(t, 1, status.Reloads)
				require.EqualValues(t, 100, status.Memory)
				r.drain()
				require.NoError(t, <-r.done)
			})
		})
	}
}

func TestAnEngineThatEndsWhileIdleIsLoadedAgain(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.engine.deaths = make(chan error)
		r.engine.load = func(n int) error {
			if n == 2 {
				return errors.New("not yet")
			}
			return nil
		}
		var reloads []string
		r.start(task("e1"), Observer{Reloading: func(_ Status, _ int, err error) { reloads = append(reloads, err.Error()) }})
		r.accept()
		begin := time.Now()
		r.engine.deaths <- errors.New("killed")
		synctest.Wait()
		r.send(vector(2)) // before the gateway has received that
		refused := r.result()
		require.ErrorIs(t, refused.Err, wire.ErrUnavailable)
		require.True(t, refused.Away)
		r.ready()
		require.Equal(t, 50*time.Millisecond, time.Since(begin), "no wait, then 50 ms")
		require.Equal(t, []string{"killed", "not yet"}, reloads)
		r.send(vector(2))
		require.Nil(t, r.result().Err)
		require.Equal(t, 1, r.engine.open)

		r.engine.deaths <- errors.New("again")
		synctest.Wait()
		require.Equal(t, 4, r.engine.loads, "no batch has to find out")
		r.drain()
		require.NoError(t, <-r.done)
		require.Zero(t, r.engine.open)
	})
}

func TestAnEngineThatEndsOftenIsLoadedLaterAndLater(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.engine.deaths = make(chan error)
		r.start(task("e1"), Observer{})
		r.accept()
		begin := time.Now()
		for range 4 {
			r.engine.deaths <- errors.New("killed")
		}
		require.Equal(t, 150*time.Millisecond, time.Since(begin), "no wait, 50 ms and 100 ms between them")
		r.drain()
		require.NoError(t, <-r.done)
	})
}

func TestAnEngineMayEndAsItIsLoadedAgain(t *testing.T) {
	stagingRig(t, func(t *testing.T, r *rig, _ *staging) { // whose lane has room beside what is being done
		r.engine.deaths = make(chan error, 2)
		r.engine.load = func(n int) error {
			if n == 3 {
				time.Sleep(time.Second)
			}
			return nil
		}
		r.start(task("e1"), Observer{Loaded: func(Status) { time.Sleep(time.Millisecond) }}) // it ends in this one
		r.accept()
		r.engine.deaths <- errors.New("killed")
		r.engine.deaths <- errors.New("killed again")
		time.Sleep(500 * time.Millisecond)
		r.send(vector(2))
		require.True(t, r.result().Away, "it is still being loaded")
		r.ready()
		require.Equal(t, 3, r.engine.loads)
		r.send(vector(2))
		require.Nil(t, r.result().Err)
		r.drain()
		require.NoError(t, <-r.done)
	})
}

func TestEngineThatNeverComesBackAfterItsEndEndsTheExecutor(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.engine.deaths = make(chan error)
		r.engine.load = func(n int) error {
			if n > 1 {
				return errors.New("file is gone")
			}
			return nil
		}
		r.start(task("e1"), Observer{})
		r.accept()
		r.engine.deaths <- errors.New("killed")
		require.ErrorContains(t, <-r.done, `e1 cannot load module "m" again after 6 attempts: file is gone`)
		_, err := r.line.Recv()
		require.Error(t, err, "the gateway sees the stream end")
		require.Zero(t, r.engine.open)
	})
}

func TestEngineThatNeverComesBackEndsTheExecutor(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.engine.run = func(context.Context, [][]wire.Tensor) error { return wire.Errorf(wire.CodeUnavailable, "m", "dead") }
		r.engine.load = func(n int) error {
			if n > 1 {
				return errors.New("file is gone")
			}
			return nil
		}
		r.start(task("e1"), Observer{})
		r.accept()
		r.send(vector(2))
		require.NotNil(t, r.result().Err)
		require.ErrorContains(t, <-r.done, `e1 cannot load module "m" again after 6 attempts: file is gone`)
		_, err := r.line.Recv()
		require.Error(t, err, "the gateway sees the stream end")
	})
}

func TestLoadFailureIsReturned(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.engine.load = func(int) error { return errors.New("damaged file") }
		err := r.host.RunExecutor(t.Context(), task("e1"), Observer{})
		require.ErrorContains(t, err, `executors: e1 cannot load module "m" with engine "fake": damaged file`)
		require.Empty(t, r.host.Executors())
	})
}

func TestStreamThatBreaksMidBatchIsDialledAgain(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.engine.run = func(context.Context, [][]wire.Tensor) error { time.Sleep(time.Second); return nil }
		detached := 0
		r.start(task("e1"), Observer{Detached: func(_ Status, err error) {
			require.ErrorIs(t, err, errCut)
			detached++
		}})
		r.accept()
		r.send(vector(2))
		time.Sleep(100 * time.Millisecond)
		r.line.cut()
		r.accept()
		r.send(vector(2))
		result := r.result()
		require.EqualValues(t, 2, result.ID, "the result of the lost stream is not repeated")
		require.Nil(t, result.Err)
		require.Equal(t, 1, detached)
		require.Equal(t, 1, r.engine.loads, "the engine is kept")
		status, _ := r.host.Status("e1")
		require.EqualValues(t, 1, status.Reconnects)
		r.drain()
		require.NoError(t, <-r.done)
	})
}

func TestGatewayThatClosesWithoutDrainIsDialledAgain(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.start(task("e1"), Observer{})
		for range 5 {
			r.accept()
			require.NoError(t, r.line.Close())
		}
		r.accept()
		r.drain()
		require.NoError(t, <-r.done)
	})
}

func TestDialIsRepeatedWithLongerWaits(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		var at []time.Duration
		begin := time.Now()
		r.host.Dial = func(ctx context.Context, address string) (attach.Stream, error) {
			at = append(at, time.Since(begin))
			if len(at) < 5 {
				return nil, errors.New("refused")
			}
			return r.dial(ctx, address)
		}
		r.start(task("e1"), Observer{})
		r.accept()
		ms := time.Millisecond
		require.Equal(t, []time.Duration{0, 50 * ms, 150 * ms, 350 * ms, 750 * ms}, at)
		r.drain()
		require.NoError(t, <-r.done)
	})
}

func TestCancelFinishesTheBatchInFlight(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.engine.run = func(ctx context.Context, _ [][]wire.Tensor) error { time.Sleep(time.Second); return ctx.Err() }
		r.start(task("e1"), Observer{})
		r.accept()
		r.send(vector(2))
		time.Sleep(time.Millisecond)
		r.cancel()
		m, err := r.line.Recv()
		require.NoError(t, err)
		require.NotNil(t, m.Drain)
		require.Nil(t, r.result().Err, "what is held is finished")
		require.NoError(t, r.line.Close())
		require.NoError(t, <-r.done)
		require.Zero(t, r.engine.open)
	})
}

func TestDrainFinishesTheBatchInFlight(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.engine.run = func(context.Context, [][]wire.Tensor) error { time.Sleep(time.Second); return nil }
		r.start(task("e1"), Observer{})
		r.accept()
		r.send(vector(2))
		r.send(vector(2))
		r.drain()
		require.Nil(t, r.result().Err)
		require.Nil(t, r.result().Err, "batches before the drain are held")
		require.NoError(t, <-r.done)
		_, err := r.line.Recv()
		require.Error(t, err)
	})
}

func TestCancelWhileNothingAnswersEndsAfterTheDrainTimeout(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.host.DrainTimeout = 3 * time.Second
		r.engine.run = func(ctx context.Context, _ [][]wire.Tensor) error { <-ctx.Done(); return ctx.Err() }
		r.start(task("e1"), Observer{})
		r.accept()
		r.send(vector(2))
		time.Sleep(time.Millisecond)
		begin := time.Now()
		r.cancel()
		require.ErrorContains(t, <-r.done, "e1 did not finish what it held within 3s")
		require.Equal(t, 3*time.Second, time.Since(begin))
		require.Zero(t, r.engine.open)
	})
}

func TestCancelWhileDialling(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.host.Dial = func(ctx context.Context, _ string) (attach.Stream, error) { <-ctx.Done(); return nil, ctx.Err() }
		r.start(task("e1"), Observer{})
		synctest.Wait()
		r.cancel()
		require.NoError(t, <-r.done)
	})
}

func TestCancelWhileReloading(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.engine.run = func(context.Context, [][]wire.Tensor) error { return wire.Errorf(wire.CodeUnavailable, "m", "dead") }
		r.engine.load = func(n int) error {
			if n > 1 {
				return errors.New("no")
			}
			return nil
		}
		r.start(task("e1"), Observer{})
		r.accept()
		r.send(vector(2))
		r.result()
		synctest.Wait()
		r.cancel()
		m, err := r.line.Recv()
		require.NoError(t, err)
		require.NotNil(t, m.Drain)
		r.send(vector(2))
		require.ErrorIs(t, r.result().Err, wire.ErrUnavailable, "a batch that crossed the drain is answered")
		require.NoError(t, r.line.Close())
		require.NoError(t, <-r.done)
	})
}

func TestConcurrencyRunsBatchesSideBySide(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		var now, most atomic.Int32
		r.engine.run = func(context.Context, [][]wire.Tensor) error {
			n := now.Add(1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			time.Sleep(time.Second)
			now.Add(-1)
			return nil
		}
		job := task("e1")
		job.Concurrency = 3
		r.start(job, Observer{})
		require.Equal(t, 3, r.accept().Concurrency)
		begin := time.Now()
		for range 6 {
			r.send(vector(2))
		}
		for range 6 {
			require.Nil(t, r.result().Err)
		}
		require.Equal(t, 2*time.Second, time.Since(begin))
		require.EqualValues(t, 3, most.Load())
		r.drain()
		require.NoError(t, <-r.done)
		require.Zero(t, r.engine.open)
	})
}

// One of several instances ends while all compute: its batch is answered so that it is computed elsewhere, the others
// finish theirs and go on, and it comes back.
func TestOneOfSeveralEndsTheOthersGoOn(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		var begun atomic.Int32
		r.engine.run = func(context.Context, [][]wire.Tensor) error {
			n := begun.Add(1)
			time.Sleep(time.Second)
			if n == 2 {
				return wire.Errorf(wire.CodeUnavailable, "m", "killed")
			}
			return nil
		}
		r.engine.load = func(n int) error {
			if n > 3 {
				time.Sleep(10 * time.Second)
			}
			return nil
		}
		job := task("e1")
		job.Concurrency = 3
		r.start(job, Observer{})
		r.accept()
		for range 3 {
			r.send(vector(2))
		}
		away := 0
		for range 3 {
			if got := r.result(); got.Away {
				require.ErrorIs(t, got.Err, wire.ErrUnavailable)
				away++
			} else {
				require.Nil(t, got.Err)
			}
		}
		require.Equal(t, 1, away)
		begin := time.Now()
		for range 2 {
			r.send(vector(2))
		}
		for range 2 {
			require.Nil(t, r.result().Err)
		}
		require.Equal(t, time.Second, time.Since(begin), "while one is loaded")
		r.ready()
		require.Equal(t, 10*time.Second, time.Since(begin))
		require.Equal(t, 3, r.engine.open)
		r.drain()
		require.NoError(t, <-r.done)
	})
}

func TestNameIsTakenOnce(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.start(task("e1"), Observer{})
		r.accept()
		require.ErrorContains(t, r.host.RunExecutor(t.Context(), task("e1"), Observer{}), `executor "e1" already runs on host "a"`)
		r.drain()
		require.NoError(t, <-r.done)
	})
}

func TestExecutorsShareADevice(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.engine.run = func(context.Context, [][]wire.Tensor) error { time.Sleep(10 * time.Millisecond); return nil }
		gates := make([]*gate, 3)
		for i, name := range []string{"e1", "e2", "e3"} {
			r.start(task(name), Observer{})
			gates[i] = &gate{t: t, lines: r.lines}
			require.Equal(t, name, gates[i].accept().Executor)
		}
		now := time.Now()
		gates[0].sendDue(now.Add(time.Second), vector(2))
		synctest.Wait()
		gates[1].sendDue(now.Add(3*time.Second), vector(2))
		synctest.Wait()
		gates[2].sendDue(now.Add(2*time.Second), vector(2))
		synctest.Wait()
		for i, waited := range []time.Duration{0, 20 * time.Millisecond, 10 * time.Millisecond} {
			result := gates[i].result()
			require.Nil(t, result.Err)
			require.Equal(t, waited, result.Waited)
			require.Equal(t, 10*time.Millisecond, result.Compute)
			gates[i].drain()
		}
		synctest.Wait()
		require.Empty(t, r.host.Executors())
	})
}
