package gateway

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/scheduler/autoscale"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/attach"
)

const ms = time.Millisecond

// bubble serves a deployment of a single module on a clock of its own.
func bubble(t *testing.T, o Options, slo time.Duration, s spec, f func(g *Gateway, workers map[string]*worker)) {
	synctest.Test(t, func(t *testing.T) {
		specs := map[string]spec{"m": s}
		g, workers := serve(t, o, deployment(single(slo), 1, specs), specs)
		f(g, workers)
		stop(g, workers)
		time.Sleep(time.Minute) // for workers that still hold a batch of a closed stream
	})
}

func ask(ctx context.Context, g *Gateway) (*wire.InferResponse, *wire.Error) {
	resp, err := g.Infer(ctx, &wire.InferRequest{Pipeline: "p", Inputs: vector(1, 2)})
	var e *wire.Error
	if err != nil && !errors.As(err, &e) {
		panic(err)
	}
	return resp, e
}

// at sends a request after a delay and passes the outcome to then.
func at(g *Gateway, delay time.Duration, into *sync.WaitGroup, then func(*wire.InferResponse, *wire.Error)) {
	into.Go(func() {
		time.Sleep(delay)
		then(ask(context.Background(), g))
	})
}

func TestStagesSayWhereTimeWent(t *testing.T) {
	bubble(t, Options{Patient: true}, time.Second, spec{kind: addOne, batch: 3, window: 40 * ms, duration: 20 * ms}, func(g *Gateway, _ map[string]*worker) {
		var group sync.WaitGroup
		stages := make([]wire.Stage, 4)
		for i, delay := range []time.Duration{0, 10 * ms, 15 * ms, 20 * ms} {
			at(g, delay, &group, func(r *wire.InferResponse, err *wire.Error) {
				require.Nil(t, err)
				stages[i] = r.Stages[0]
				requireSum(t, r)
			})
		}
		group.Wait()
		// The third fills the batch at 15 ms; the fourth waits for the executor
		// until 35 ms and for its window until 60 ms.
		require.Equal(t, []time.Duration{15 * ms, 5 * ms, 0}, []time.Duration{stages[0].Wait, stages[1].Wait, stages[2].Wait})
		require.Equal(t, 3, stages[0].Batch)
		require.Equal(t, 1, stages[3].Batch)
		require.Equal(t, 40*ms, stages[3].Wait)
		for _, s := range stages {
			require.Equal(t, 20*ms, s.Transfer, "the test's worker states no compute time: %+v", s)
			require.Zero(t, s.Queue)
		}
	})
}

func TestQueueIsTimeWithoutAnExecutor(t *testing.T) {
	bubble(t, Options{}, time.Second, spec{kind: addOne, batch: 1, duration: 20 * ms}, func(g *Gateway, _ map[string]*worker) {
		var group sync.WaitGroup
		at(g, 0, &group, func(r *wire.InferResponse, err *wire.Error) { require.Nil(t, err) })
		at(g, 5*ms, &group, func(r *wire.InferResponse, err *wire.Error) {
			require.Nil(t, err)
			require.Equal(t, 15*ms, r.Stages[0].Queue)
			require.Zero(t, r.Stages[0].Wait)
			require.Equal(t, 35*ms, r.Elapsed)
		})
		group.Wait()
	})
}

func TestDeadlines(t *testing.T) {
	bubble(t, Options{}, 50*ms, spec{kind: addOne, duration: 20 * ms}, func(g *Gateway, w map[string]*worker) {
		var group sync.WaitGroup
		var mu sync.Mutex
		var dropped []*wire.Error
		for i := range 5 { // two fit into 50 ms; one after the other, so that the first runs when the second comes
			at(g, time.Duration(i)*time.Microsecond, &group, func(r *wire.InferResponse, err *wire.Error) {
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					dropped = append(dropped, err)
				}
			})
		}
		group.Wait()
		require.Len(t, dropped, 3)
		for _, e := range dropped {
			require.Equal(t, wire.CodeOverloaded, e.Code)
			require.Equal(t, 50*ms, e.Budget)
			require.Zero(t, e.Elapsed, "it is refused at once")
		}
		require.Equal(t, 2, w["m/1/0"].batches, "the others never reached the executor")
		ctx, cancel := context.WithTimeout(context.Background(), 10*ms)
		defer cancel()
		_, e := ask(ctx, g)
		require.Equal(t, wire.CodeDeadline, e.Code)
		require.Equal(t, 10*ms, e.Budget.Round(ms), "the caller's deadline is the sooner one")
		require.Equal(t, 2, w["m/1/0"].batches)
		totals := g.Totals("p")
		require.Equal(t, []int64{2, 1, 3}, []int64{totals[Completed], totals[Dropped], totals[Refused]})
	})
}

func TestLateAnswersAreGivenAndCounted(t *testing.T) {
	bubble(t, Options{}, 50*ms, spec{kind: addOne, duration: 20 * ms}, func(g *Gateway, w map[string]*worker) {
		w["m/1/0"].delay = func(int) time.Duration { return 80 * ms }
		r, e := ask(context.Background(), g)
		require.Nil(t, e)
		require.Equal(t, 80*ms, r.Elapsed)
		require.Equal(t, int64(1), g.Totals("p")[Late])
	})
}

func TestAnExecutorThatDoesNotAnswer(t *testing.T) {
	bubble(t, Options{}, 50*ms, spec{kind: addOne, duration: 20 * ms}, func(g *Gateway, w map[string]*worker) {
		w["m/1/0"].delay = func(int) time.Duration { return time.Hour }
		_, e := ask(context.Background(), g)
		require.Equal(t, wire.CodeDeadline, e.Code)
		require.Equal(t, 50*ms+minPatience, e.Elapsed)
		time.Sleep(2 * time.Hour) // the worker resumes and is ignored
	})
}

func TestCancelLeavesTheQueue(t *testing.T) {
	bubble(t, Options{Patient: true}, time.Second, spec{kind: addOne, batch: 2, window: 100 * ms, duration: 20 * ms}, func(g *Gateway, w map[string]*worker) {
		ctx, cancel := context.WithCancel(context.Background())
		var group sync.WaitGroup
		group.Go(func() {
			_, e := ask(ctx, g)
			require.Equal(t, wire.CodeCanceled, e.Code)
			require.Equal(t, 10*ms, e.Elapsed)
		})
		time.Sleep(10 * ms)
		cancel()
		group.Wait()
		at(g, 0, &group, func(r *wire.InferResponse, err *wire.Error) {
			require.Nil(t, err)
			require.Equal(t, 1, r.Stages[0].Batch, "the cancelled request has left the batch")
		})
		group.Wait()
		require.Equal(t, []int{1}, w["m/1/0"].sizes)
		require.Equal(t, int64(1), g.Totals("p")[Cancelled])
	})
}

func TestFullQueueRefuses(t *testing.T) {
	bubble(t, Options{MaxQueue: 2}, time.Second, spec{kind: addOne, duration: 20 * ms}, func(g *Gateway, _ map[string]*worker) {
		var group sync.WaitGroup
		var codes []wire.Code
		for i := range 4 {
			at(g, time.Duration(i), &group, func(r *wire.InferResponse, err *wire.Error) {
				if err != nil {
					codes = append(codes, err.Code)
				}
			})
		}
		group.Wait()
		require.Equal(t, []wire.Code{wire.CodeOverloaded}, codes)
	})
	bubble(t, Options{MaxInFlight: 1}, time.Second, spec{kind: addOne, duration: 20 * ms}, func(g *Gateway, _ map[string]*worker) {
		var group sync.WaitGroup
		at(g, 0, &group, func(_ *wire.InferResponse, err *wire.Error) { require.Nil(t, err) })
		at(g, ms, &group, func(_ *wire.InferResponse, err *wire.Error) { require.Equal(t, wire.CodeOverloaded, err.Code) })
		group.Wait()
		require.Equal(t, int64(1), g.Totals("p")[Refused])
	})
}

func TestWithoutExecutors(t *testing.T) {
	bubble(t, Options{Grace: 30 * ms}, 100*ms, spec{kind: addOne, duration: 20 * ms}, func(g *Gateway, w map[string]*worker) {
		_ = w["m/1/0"].stream.Close()
		synctest.Wait()
		_, e := ask(context.Background(), g)
		require.Equal(t, wire.CodeUnavailable, e.Code, "within the grace it waits as long as the deadline lets it")
		require.Equal(t, 80*ms, e.Elapsed.Round(ms))
		_, e = ask(context.Background(), g)
		require.Equal(t, wire.CodeUnavailable, e.Code)
		require.Zero(t, e.Elapsed, "beyond it is refused at once")
	})
}

func TestABatchSurvivesItsExecutorOnce(t *testing.T) {
	bubble(t, Options{}, time.Second, spec{kind: addOne, executors: 2, duration: 20 * ms}, func(g *Gateway, w map[string]*worker) {
		var group sync.WaitGroup
		at(g, 0, &group, func(r *wire.InferResponse, err *wire.Error) {
			require.Nil(t, err)
			require.Equal(t, 30*ms, r.Elapsed)
			require.Equal(t, 10*ms, r.Stages[0].Queue, "what the first executor had begun is lost time")
			requireSum(t, r)
		})
		time.Sleep(10 * ms)
		for _, w := range w {
			if holds(g, w.hello.Executor) {
				_ = w.stream.Close()
				break
			}
		}
		group.Wait()
	})
	bubble(t, Options{}, 25*ms, spec{kind: addOne, executors: 2, duration: 20 * ms}, func(g *Gateway, w map[string]*worker) {
		var group sync.WaitGroup
		at(g, 0, &group, func(_ *wire.InferResponse, err *wire.Error) {
			require.Equal(t, wire.CodeUnavailable, err.Code, "no time is left for another executor")
		})
		time.Sleep(10 * ms)
		for _, w := range w {
			if holds(g, w.hello.Executor) {
				_ = w.stream.Close()
				break
			}
		}
		group.Wait()
	})
}

// holds reports whether an executor has a batch.
func holds(g *Gateway, name string) bool {
	g.mu.Lock()
	e := g.executors[name]
	g.mu.Unlock()
	return !e.registration.Idle()
}

func TestARequestThatTakesTwoEnginesWithItFails(t *testing.T) {
	bubble(t, Options{}, time.Second, spec{kind: addOne, executors: 2, duration: 20 * ms}, func(g *Gateway, w map[string]*worker) {
		for _, w := range w {
			w.fault = func(*attach.Batch) *wire.Error { return wire.Errorf(wire.CodeUnavailable, "", "the engine crashed") }
		}
		_, e := ask(context.Background(), g)
		require.Equal(t, wire.CodeUnavailable, e.Code)
		require.Equal(t, "the engine crashed", e.Reason)
		require.Equal(t, "m", e.Stage)
		require.Equal(t, time.Second, e.Budget)
		require.Equal(t, 2, w["m/1/0"].batches+w["m/1/1"].batches)
		require.Equal(t, int64(1), g.Totals("p")[Failed])
	})
}

func TestOtherFailuresAreNotRepeated(t *testing.T) {
	bubble(t, Options{}, time.Second, spec{kind: addOne, executors: 2, duration: 20 * ms}, func(g *Gateway, w map[string]*worker) {
		for _, w := range w {
			w.fault = func(*attach.Batch) *wire.Error { return wire.Errorf(wire.CodeInvalid, "", "no such number") }
		}
		_, e := ask(context.Background(), g)
		require.Equal(t, wire.CodeInvalid, e.Code)
		require.Equal(t, 1, w["m/1/0"].batches+w["m/1/1"].batches)
	})
}

// once makes the first batch of a worker a crash, after which its engine is
// away for so long.
func once(w *worker, away time.Duration) {
	w.result = func(r *attach.Result) {
		w.result = nil
		r.Items, r.Err, r.Away = nil, wire.Errorf(wire.CodeUnavailable, "", "the engine crashed"), true
		time.AfterFunc(away, func() { _ = w.stream.Send(&attach.Message{Ready: &attach.Ready{}}) })
	}
}

func TestAnEngineThatIsAwayGetsNoBatch(t *testing.T) {
	t.Run("another takes over", func(t *testing.T) {
		bubble(t, Options{}, time.Second, spec{kind: addOne, executors: 2, duration: 20 * ms}, func(g *Gateway, w map[string]*worker) {
			for _, w := range w {
				once(w, 500*ms)
				break
			}
			for n := range 20 { // one after the other
				r, e := ask(context.Background(), g)
				require.Nil(t, e)
				if r.Elapsed != 20*ms {
					require.Equal(t, 40*ms, r.Elapsed, "request %d", n)
				}
			}
			require.Equal(t, 21, w["m/1/0"].batches+w["m/1/1"].batches)
		})
	})
	t.Run("it comes back", func(t *testing.T) {
		bubble(t, Options{}, time.Second, spec{kind: addOne, duration: 20 * ms}, func(g *Gateway, w map[string]*worker) {
			once(w["m/1/0"], 300*ms)
			r, e := ask(context.Background(), g)
			require.Nil(t, e)
			require.Equal(t, 340*ms, r.Elapsed)
			r, e = ask(context.Background(), g)
			require.Nil(t, e)
			require.Equal(t, 20*ms, r.Elapsed)
		})
	})
	t.Run("requests may wait for it", func(t *testing.T) {
		bubble(t, Options{}, 5*time.Second, spec{kind: addOne, duration: 20 * ms}, func(g *Gateway, w map[string]*worker) {
			once(w["m/1/0"], 3*time.Second)
			var group sync.WaitGroup
			at(g, 0, &group, func(_ *wire.InferResponse, e *wire.Error) { require.Nil(t, e) })
			at(g, 2*time.Second, &group, func(r *wire.InferResponse, e *wire.Error) { // longer than the Grace
				require.Nil(t, e)
				require.LessOrEqual(t, r.Elapsed, 1060*ms)
			})
			group.Wait()
		})
	})
	t.Run("too late", func(t *testing.T) {
		bubble(t, Options{}, 100*ms, spec{kind: addOne, duration: 20 * ms}, func(g *Gateway, w map[string]*worker) {
			once(w["m/1/0"], 300*ms)
			_, e := ask(context.Background(), g)
			require.Equal(t, wire.CodeUnavailable, e.Code)
			require.Contains(t, e.Reason, "lost")
			require.LessOrEqual(t, e.Elapsed, 100*ms)
			time.Sleep(400 * ms)
			_, e = ask(context.Background(), g)
			require.Nil(t, e)
		})
	})
	t.Run("across an install", func(t *testing.T) {
		bubble(t, Options{}, time.Second, spec{kind: addOne, duration: 20 * ms}, func(g *Gateway, w map[string]*worker) {
			once(w["m/1/0"], 300*ms)
			var group sync.WaitGroup
			at(g, 0, &group, func(r *wire.InferResponse, e *wire.Error) {
				require.Nil(t, e)
				require.Equal(t, 340*ms, r.Elapsed)
			})
			time.Sleep(100 * ms)
			d := g.pipeline("p").current.Load().Deployment
			d.Generation++
			require.NoError(t, g.Install(context.Background(), d))
			group.Wait()
		})
	})
}

func TestRequestsOfABatchFailByThemselves(t *testing.T) {
	bubble(t, Options{}, time.Second, spec{kind: addOne, batch: 3, window: 50 * ms, duration: 20 * ms}, func(g *Gateway, w map[string]*worker) {
		w["m/1/0"].result = func(r *attach.Result) {
			if n := len(r.Items); n > 1 { // the first may have gone ahead by itself
				r.Items[1], r.Errs = nil, make([]*wire.Error, n)
				r.Errs[1] = wire.Errorf(wire.CodeInvalid, "", "no such number")
			}
		}
		var group sync.WaitGroup
		var good, bad int
		var mu sync.Mutex
		for range 3 {
			at(g, 0, &group, func(_ *wire.InferResponse, e *wire.Error) {
				mu.Lock()
				defer mu.Unlock()
				if e == nil {
					good++
					return
				}
				bad++
				require.Equal(t, wire.CodeInvalid, e.Code)
				require.Equal(t, "m", e.Stage)
			})
		}
		group.Wait()
		require.Equal(t, []int{2, 1}, []int{good, bad})
		require.Equal(t, int64(1), g.Totals("p")[Invalid], "a mistake of the caller")
	})
}

func TestDrainFinishesWhatIsHeld(t *testing.T) {
	bubble(t, Options{}, time.Second, spec{kind: addOne, duration: 20 * ms}, func(g *Gateway, w map[string]*worker) {
		var group sync.WaitGroup
		at(g, 0, &group, func(_ *wire.InferResponse, err *wire.Error) { require.Nil(t, err) })
		time.Sleep(5 * ms)
		begin := time.Now()
		require.NoError(t, g.Release(context.Background(), "p", []string{"m/1/0"}))
		require.Equal(t, 15*ms, time.Since(begin))
		group.Wait()
	})
}

func TestMeasures(t *testing.T) {
	bubble(t, Options{Patient: true}, time.Second, spec{kind: addOne, batch: 2, window: 100 * ms, duration: 20 * ms}, func(g *Gateway, workers map[string]*worker) {
		for _, w := range workers {
			w.result = func(r *attach.Result) { r.Compute = 19 * ms }
		}
		var group sync.WaitGroup
		for i := range 100 {
			at(g, time.Duration(i/2)*100*ms, &group, func(_ *wire.InferResponse, err *wire.Error) { require.Nil(t, err) })
		}
		group.Wait()
		m := g.Measures("p")
		require.Equal(t, int64(100), m.Arrived)
		require.Equal(t, int64(100), m.Completed)
		require.InDelta(t, 20, m.Offered, 1)
		require.Equal(t, 1.0, m.Attainment)
		require.InDelta(t, float64(20*ms), float64(m.Latency.P99), float64(2*ms))
		mod := m.Module("m")
		require.Equal(t, int64(50), mod.Batches)
		require.Equal(t, 2.0, mod.MeanBatch)
		require.InDelta(t, 20, mod.Rate, 1)
		require.Len(t, mod.Executors, 1)
		require.Len(t, mod.Durations, 1)
		require.Equal(t, autoscale.BatchDuration{Hardware: mod.Durations[0].Hardware, Size: 2, Batches: 50, P50: 19 * ms, P95: 19 * ms}, mod.Durations[0])
		time.Sleep(time.Minute)
		m = g.Measures("p")
		require.Empty(t, m.Module("m").Durations)
		require.Zero(t, m.Arrived, "what is long ago is forgotten")
		require.InDelta(t, 10, m.Span().Seconds(), 1)
		require.Equal(t, int64(100), g.Totals("p")[Completed])
	})
}
