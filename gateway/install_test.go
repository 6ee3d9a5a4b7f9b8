package gateway

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/dispatcher"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/attach"
)

// load sends requests from several goroutines until stop is called, which
// returns how many there were and the errors.
func load(g *Gateway, clients int, ask func(n int64) (*wire.InferRequest, func(*wire.InferResponse) error)) (stop func() (int64, []error)) {
	var sent atomic.Int64
	var mu sync.Mutex
	var errs []error
	var group sync.WaitGroup
	over := make(chan struct{})
	for range clients {
		group.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
				}
				q, check := ask(sent.Add(1))
				resp, err := g.Infer(context.Background(), q)
				if err == nil {
					err = check(resp)
				}
				if err != nil {
					mu.Lock()
					errs = append(errs, err)
					mu.Unlock()
				}
			}
		})
	}
	return func() (int64, []error) {
		close(over)
		group.Wait()
		return sent.Load(), errs
	}
}

// askFanning is a request to the fanning pipeline and the check of its sums.
func askFanning(n int64) (*wire.InferRequest, func(*wire.InferResponse) error) {
	k, v := n%4, float32(n%1000)
	return &wire.InferRequest{Pipeline: "p", Inputs: vector(float32(k), v)}, func(r *wire.InferResponse) error {
		sums := floats(tensors(r.Outputs)["sum"])
		if len(sums) != int(k) {
			return fmt.Errorf("%d sums instead of %d", len(sums), k)
		}
		for i, s := range sums {
			if want := (v + 1) + (v + 2) + float32(i+1+i+2); s != want {
				return fmt.Errorf("sum %v instead of %v", s, want)
			}
		}
		return nil
	}
}

func TestInstallUnderLoadLosesNothing(t *testing.T) {
	specs := fanningSpecs()
	for name, s := range specs {
		s.executors, s.batch, s.window = 2, 4, time.Millisecond
		specs[name] = s
	}
	at := func(generation int) placement.Deployment {
		d := deployment(fanning(long), generation, specs)
		for i := range d.Slots { // every other executor is kept from generation to generation
			s := &d.Slots[i]
			if i%2 == 0 {
				s.Executor = s.Module + "/kept"
			}
			if s.Module == "again" && generation%5 == 0 {
				s.Model = "another" // the module changes, and back again
				s.Executor = fmt.Sprintf("again/%d/%d", generation, i)
			} else if s.Module == "again" && generation%5 == 1 {
				s.Executor = fmt.Sprintf("again/%d/%d", generation, i)
			} else if s.Module == "again" && i%2 == 0 {
				s.Executor = fmt.Sprintf("again/kept/%d", generation/5*5+1)
			}
		}
		return d
	}
	g := New(Options{})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	workers := map[string]*worker{}
	attachMissing := func(d placement.Deployment) {
		var fresh placement.Deployment
		for _, s := range d.Slots {
			if workers[s.Executor] == nil {
				fresh.Slots = append(fresh.Slots, s)
			}
		}
		for name, w := range start(g, fresh, specs) {
			workers[name] = w
		}
	}
	d := at(1)
	attachMissing(d)
	require.NoError(t, g.Prepare(ctx, d))
	require.NoError(t, g.Install(ctx, d))
	var before []traces
	end := load(g, 8, askFanning)
	const installs = 50
	for generation := 2; generation <= installs+1; generation++ {
		next := at(generation)
		attachMissing(next)
		require.NoError(t, g.Prepare(ctx, next))
		require.NoError(t, g.Install(ctx, next))
		before = append(before, traceOf(g, "p"))
		gone := dropped(d, next)
		require.NoError(t, g.Release(ctx, "p", gone))
		for _, name := range gone {
			require.NoError(t, <-workers[name].done, name)
			delete(workers, name)
		}
		d = next
	}
	sent, errs := end()
	require.Empty(t, errs)
	require.Greater(t, sent, int64(installs))
	totals := g.Totals("p")
	require.Equal(t, sent, totals[Completed], "%v", totals)
	require.Zero(t, g.Measures("p").InFlight)
	require.Equal(t, installs+1, g.Measures("p").Generation)
	require.Len(t, g.executors, len(d.Slots))
	left := living(before)
	require.Contains(t, left, installs+1)
	require.LessOrEqual(t, len(left), keptGenerations, "of older generations nothing is kept: %v", left)
	stop(g, workers)
}

// TestARequestMayHaveFoundWhatIsRemoved before it is: it is answered like a later one, and the
// removed generation reaches no observer.
func TestARequestMayHaveFoundWhatIsRemoved(t *testing.T) {
	specs := map[string]spec{"m": {kind: addOne}}
	g, workers := serve(t, Options{}, deployment(single(long), 1, specs), specs)
	p := g.pipeline("p")
	require.NoError(t, g.Remove(t.Context(), "p", placement.Age{}))
	_, err := g.infer(t.Context(), p, "", &wire.InferRequest{Pipeline: "p", Inputs: vector(1, 2)}, g.now())
	require.ErrorIs(t, err, wire.ErrNotFound)
	require.Zero(t, p.accepted.Load())
	stop(g, workers)
}

// TestAnExecutorOfAnOlderGenerationMayComeAgain has the stream break over which requests of
// a generation wait, and the next generation serve another model: they are answered when
// it is back.
func TestAnExecutorOfAnOlderGenerationMayComeAgain(t *testing.T) {
	specs := map[string]spec{"m": {kind: addOne}}
	first, second := deployment(single(long), 1, specs), deployment(single(long), 2, specs)
	second.Slots[0].Model = "another"
	g, workers := serve(t, Options{}, first, specs)
	before := workers["m/1/0"]
	_ = before.stream.Close()
	<-before.done
	type end struct {
		r   *wire.InferResponse
		err error
	}
	ended := make(chan end, 1)
	go func() {
		r, err := g.Infer(t.Context(), &wire.InferRequest{Pipeline: "p", Inputs: vector(1, 2)})
		ended <- end{r, err}
	}()
	require.Eventually(t, func() bool { return g.Measures("p").InFlight == 1 }, long, time.Millisecond)
	for name, w := range start(g, second, specs) {
		workers[name] = w
	}
	require.NoError(t, g.Prepare(t.Context(), second))
	require.NoError(t, g.Install(t.Context(), second))
	again := &worker{kind: before.kind, hello: before.hello}
	again.attach(g)
	workers["m/1/0"] = again
	e := <-ended
	require.NoError(t, e.err)
	require.Equal(t, 1, e.r.Generation)
	stop(g, workers)
}

// keptGenerations are the one that serves, the one before, whose requests may have been
// under way when it was installed, and those that executors keep routes to (see route).
const keptGenerations = 6

// traces of a generation in memory.
type traces struct {
	generation int
	deployed   weak.Pointer[deployed]
	graph      weak.Pointer[Graph]
	compiled   weak.Pointer[dispatcher.Generation]
}

func traceOf(g *Gateway, pipeline string) traces {
	gr := g.pipeline(pipeline).current.Load()
	return traces{gr.Deployment.Generation, weak.Make(gr), weak.Make(gr.Graph), weak.Make(gr.Generation)}
}

// living lists the generations of which something is in memory still.
func living(all []traces) (left []int) {
	runtime.GC()
	for _, t := range all {
		if t.deployed.Value() != nil || t.graph.Value() != nil || t.compiled.Value() != nil {
			left = append(left, t.generation)
		}
	}
	return left
}

// dropped lists the executors of before that next has no more.
func dropped(before, next placement.Deployment) (names []string) {
	have := map[string]bool{}
	for _, s := range next.Slots {
		have[s.Executor] = true
	}
	for _, s := range before.Slots {
		if !have[s.Executor] {
			names = append(names, s.Executor)
		}
	}
	return names
}

func TestFaultsEndEveryRequestOnce(t *testing.T) {
	var begun, ended atomic.Int64
	outcomes := [Cancelled + 1]atomic.Int64{}
	o := Options{Grace: 20 * time.Millisecond, Observer: Observer{
		RequestBegin: func(RequestInfo) { begun.Add(1) },
		RequestEnd: func(i RequestInfo) {
			outcomes[i.Outcome].Add(1)
			if i.Outcome != Refused {
				ended.Add(1)
			}
		},
	}}
	specs := fanningSpecs()
	for name, s := range specs {
		s.executors, s.batch, s.window, s.duration = 2, 4, time.Millisecond, 100*time.Microsecond
		specs[name] = s
	}
	d := deployment(fanning(time.Second), 1, specs)
	g, workers := serve(t, o, d, specs)
	for _, w := range workers {
		var n atomic.Int64
		w.fault = func(*attach.Batch) *wire.Error {
			if n.Add(1)%50 == 0 {
				return wire.Errorf(wire.CodeUnavailable, "", "the engine crashed")
			}
			return nil
		}
		s := w.stream
		w.result = func(r *attach.Result) {
			if r.Err != nil && r.ID%2 == 0 {
				r.Away = true
				time.AfterFunc(time.Millisecond, func() { _ = s.Send(&attach.Message{Ready: &attach.Ready{}}) })
			}
		}
	}
	var returned atomic.Int64
	end := load(g, 8, func(n int64) (*wire.InferRequest, func(*wire.InferResponse) error) {
		returned.Add(1)
		return askFanning(n)
	})
	var group sync.WaitGroup
	for client := range 4 { // callers that give up
		group.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(client)))
			for n := range int64(100) {
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(r.IntN(3000))*time.Microsecond)
				q, _ := askFanning(n)
				_, _ = g.Infer(ctx, q)
				returned.Add(1)
				cancel()
			}
		})
	}
	r := rand.New(rand.NewPCG(7, 7))
	for range 60 { // executors that die in the middle, or leave in good order, and come back
		s := d.Slots[r.IntN(len(d.Slots))]
		w := workers[s.Executor]
		if r.IntN(2) == 0 {
			_ = w.stream.Close()
		} else {
			_ = w.stream.Send(&attach.Message{Drain: &attach.Drain{}})
		}
		<-w.done
		time.Sleep(time.Duration(r.IntN(2000)) * time.Microsecond)
		again := start(g, placement.Deployment{Slots: []placement.Slot{s}}, specs)
		workers[s.Executor] = again[s.Executor]
	}
	group.Wait()
	_, errs := end()
	for _, err := range errs {
		var e *wire.Error
		require.ErrorAs(t, err, &e)
		require.Contains(t, []wire.Code{wire.CodeUnavailable, wire.CodeDeadline}, e.Code, "%v", e)
	}
	require.Equal(t, begun.Load(), ended.Load())
	require.Equal(t, returned.Load(), ended.Load()+outcomes[Refused].Load())
	require.Positive(t, outcomes[Completed].Load())
	require.Zero(t, g.Measures("p").InFlight)
	for _, l := range g.queue.Loads(g.pipeline("p").current.Load().Generation) {
		require.Zero(t, l.Waiting, "nothing waits in %s: %s", l.Module, l.Policy)
		require.Zero(t, l.Held)
	}
	stop(g, workers)
}

func TestRemove(t *testing.T) {
	specs := map[string]spec{"m": {kind: addOne}}
	g, workers := serve(t, Options{}, deployment(single(long), 1, specs), specs)
	require.NoError(t, g.Remove(context.Background(), "p", placement.Age{}))
	require.NoError(t, g.Remove(context.Background(), "p", placement.Age{}))
	_, err := g.Infer(context.Background(), &wire.InferRequest{Pipeline: "p", Inputs: vector(1, 2)})
	require.ErrorIs(t, err, wire.ErrNotFound)
	require.NoError(t, g.Release(context.Background(), "p", []string{"m/1/0", "unknown"}))
	require.NoError(t, <-workers["m/1/0"].done)
}

// TestWhatWasRemovedStaysRemoved holds that an order which comes late brings nothing back:
// a gateway may have been stopped with it in hand.
func TestWhatWasRemovedStaysRemoved(t *testing.T) {
	g := New(Options{})
	ctx := t.Context()
	of := func(life, generation int) placement.Deployment {
		d := deployment(single(long), generation, map[string]spec{"m": {}})
		d.Life = life
		return d
	}
	serves := func(life, generation int) {
		t.Helper()
		d, ok := g.Deployment("p")
		require.Equal(t, generation > 0, ok)
		require.Equal(t, placement.Age{Life: life, Generation: generation}, d.Age())
	}
	require.NoError(t, g.Install(ctx, of(7, 5)))
	require.NoError(t, g.Remove(ctx, "p", placement.Age{Life: 7, Generation: 6})) // drained
	require.ErrorContains(t, g.Install(ctx, of(7, 5)), `pipeline "p" was removed after generation 5 of it was made`)
	serves(0, 0)
	require.NoError(t, g.Install(ctx, of(7, 6)))
	serves(7, 6)
	require.NoError(t, g.Remove(ctx, "p", placement.Age{Life: 8})) // deleted
	require.Error(t, g.Install(ctx, of(7, 6)))
	require.Error(t, g.Install(ctx, of(7, 9)))
	serves(0, 0)
	require.NoError(t, g.Install(ctx, of(12, 1)), "generations begin again")
	require.ErrorContains(t, g.Install(ctx, of(7, 9)), "generation 9, of before it was deleted, is older")
	serves(12, 1)
	require.NoError(t, g.Install(ctx, of(12, 2)))
	require.Error(t, g.Install(ctx, of(12, 1)))
	for _, late := range []placement.Age{{Life: 8}, {Life: 7, Generation: 6}, {Life: 12, Generation: 2}} {
		require.NoError(t, g.Remove(ctx, "p", late))
		serves(12, 2)
	}

	// Control roles of before lives were counted go by generations, as they did.
	require.Error(t, g.Install(ctx, of(0, 1)))
	require.NoError(t, g.Install(ctx, of(0, 3)))
	require.NoError(t, g.Install(ctx, of(12, 3)))
	require.NoError(t, g.Remove(ctx, "p", placement.Age{}))
	require.NoError(t, g.Install(ctx, of(0, 1)))
	require.NoError(t, g.Install(ctx, of(20, 1)))
	require.NoError(t, g.Remove(ctx, "p", placement.Age{Life: 21}))
	require.NoError(t, g.Install(ctx, of(0, 1)))
}

func TestPrepareNamesWhatIsMissing(t *testing.T) {
	g := New(Options{})
	d := deployment(single(long), 1, map[string]spec{"m": {executors: 2}})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorContains(t, g.Prepare(ctx, d), "m/1/0, m/1/1")
	d.Pipeline.Outputs = nil
	require.ErrorContains(t, g.Prepare(context.Background(), d), "no output")
}

func TestPrepareRefusesAnExecutorThatDoesNotFit(t *testing.T) {
	g := New(Options{})
	specs := map[string]spec{"m": {kind: join}}
	d := deployment(single(long), 1, specs)
	workers := start(g, d, specs)
	defer stop(g, workers)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	require.ErrorContains(t, g.Prepare(ctx, d), `takes an input "a" that the module does not bind`)
}

func TestOlderGenerationIsRefused(t *testing.T) {
	specs := map[string]spec{"m": {kind: addOne}}
	d := deployment(single(long), 5, specs)
	g, workers := serve(t, Options{}, d, specs)
	defer stop(g, workers)
	require.NoError(t, g.Install(context.Background(), d), "the same again is allowed")
	d.Generation = 4
	require.ErrorContains(t, g.Install(context.Background(), d), "generation 4 is older")
}

func TestAttachRefusals(t *testing.T) {
	g := New(Options{})
	w := &worker{kind: addOne, hello: attach.Hello{Module: "m"}}
	w.attach(g)
	require.ErrorContains(t, <-w.done, "Hello")
}

func TestAnExecutorComesBackUnderItsName(t *testing.T) {
	specs := map[string]spec{"m": {kind: addOne}}
	d := deployment(single(long), 1, specs)
	g, first := serve(t, Options{}, d, specs)
	second := start(g, d, specs) // while the first connection still seems alive
	require.Error(t, <-first["m/1/0"].done)
	resp, err := g.Infer(context.Background(), &wire.InferRequest{Pipeline: "p", Inputs: vector(1, 2)})
	require.NoError(t, err)
	require.Equal(t, []float32{2, 3}, floats(resp.Outputs[0].Tensor))
	stop(g, second)
}
