package gateway

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
)

// offer sends requests at an even rate for a while and counts the answers that
// came in time and the refusals.
func offer(g *Gateway, rate float64, span, slo time.Duration) (good, refused int64) {
	var inTime, turnedAway atomic.Int64
	var group sync.WaitGroup
	for i := range int(rate * span.Seconds()) {
		sent := time.Duration(float64(i) / rate * float64(time.Second))
		begin := time.Now()
		at(g, sent, &group, func(_ *wire.InferResponse, err *wire.Error) {
			switch {
			case err == nil && time.Since(begin)-sent <= slo:
				inTime.Add(1)
			case err != nil && err.Code == wire.CodeOverloaded:
				turnedAway.Add(1)
			}
		})
	}
	group.Wait()
	return inTime.Load(), turnedAway.Load()
}

// TestOverloadKeepsGoodput: at ten times the capacity of two modules in a row as
// many requests are answered in time as at capacity, though batches take twice as
// long as profiled, and the others are refused when they come.
func TestOverloadKeepsGoodput(t *testing.T) {
	const slo, span = 400 * ms, 20 * time.Second
	profile := pipelines.Profile{Points: []pipelines.Point{
		{Hardware: "cpu", Batch: 1, Duration: 10 * ms}, {Hardware: "cpu", Batch: 4, Duration: 20 * ms},
	}}
	for _, times := range []float64{1, 3, 10} {
		synctest.Test(t, func(t *testing.T) {
			p := single(slo)
			p.Modules[0].Profile = profile
			p.Modules = append(p.Modules, pipelines.Module{Name: "n", Model: "n", Inputs: []pipelines.Binding{bind("x", "m", "y")}, Profile: profile})
			p.Outputs = []pipelines.Output{{Name: "y", From: ref("n", "y")}}
			p.Rate, p.Arrivals = 90, "poisson"
			specs := map[string]spec{
				"m": {kind: addOne, batch: 4, window: 40 * ms, duration: 20 * ms},
				"n": {kind: addOne, batch: 4, window: 40 * ms, duration: 20 * ms},
			}
			d := deployment(p, 1, specs)
			g, workers := serve(t, Options{}, d, specs)
			for _, w := range workers {
				w.delay = func(n int) time.Duration { return time.Duration(20+20*(n-1)/3) * ms }
			}
			good, refused := offer(g, 90*times, span, slo)
			goodput := float64(good) / span.Seconds()
			t.Logf("%v times: %.1f/s in time, %d refused", times, goodput, refused)
			require.GreaterOrEqual(t, goodput, 0.9*90)
			if times > 1 {
				require.NotZero(t, refused)
			}
			stop(g, workers)
			time.Sleep(time.Minute)
		})
	}
}

// TestAdmitsNoMoreThanFitWhenAllComeAtOnce: no request is admitted because earlier ones have
// not reached a queue yet.
func TestAdmitsNoMoreThanFitWhenAllComeAtOnce(t *testing.T) {
	for range 50 {
		bubble(t, Options{}, 200*ms, spec{kind: addOne, duration: 20 * ms}, func(g *Gateway, _ map[string]*worker) {
			var group sync.WaitGroup
			for range 50 {
				at(g, 0, &group, func(*wire.InferResponse, *wire.Error) {})
			}
			group.Wait()
			totals := g.Totals("p")
			require.Equal(t, int64(10), totals[Completed], "20 ms each")
			require.Equal(t, int64(50), totals[Completed]+totals[Refused], "no admitted request is dropped")
		})
	}
}

func TestRefusesWithoutReadingWhereNoTimeIsLeft(t *testing.T) {
	bubble(t, Options{}, time.Second, spec{kind: addOne, batch: 1, duration: 20 * ms}, func(g *Gateway, _ map[string]*worker) {
		require.Nil(t, g.RejectEarly(t.Context(), "p", time.Time{}), "nothing is under way")
		require.Nil(t, g.RejectEarly(t.Context(), "q", time.Time{}), "Infer returns that it is not served")
		require.Nil(t, g.RejectEarly(t.Context(), "p", time.Now().Add(-900*ms)))
		late := g.RejectEarly(t.Context(), "p", time.Now().Add(-time.Second))
		require.ErrorIs(t, late, wire.ErrOverloaded, "it has waited to be read for all its time")
		require.ErrorContains(t, late, "it had been here for 1000 ms when it was read")
	})
}

// TestTimeRunsFromWhenARequestCame: what a request has waited before the gateway
// could read it is part of its time.
func TestTimeRunsFromWhenARequestCame(t *testing.T) {
	bubble(t, Options{}, 200*ms, spec{kind: addOne, batch: 1, duration: 20 * ms}, func(g *Gateway, _ map[string]*worker) {
		came := func(before time.Duration) (*wire.InferResponse, error) {
			return g.Infer(context.Background(), &wire.InferRequest{Pipeline: "p", Inputs: vector(1, 2), Arrived: time.Now().Add(-before)})
		}
		r, err := came(100 * ms)
		require.NoError(t, err)
		require.Equal(t, 120*ms, r.Elapsed)
		require.GreaterOrEqual(t, r.Stages[0].Transfer, 100*ms)
		_, err = came(190 * ms)
		require.ErrorIs(t, err, wire.ErrDeadline, "it is dropped before it is computed")
		_, err = came(time.Second)
		require.ErrorIs(t, err, wire.ErrOverloaded)
		require.ErrorContains(t, err, "it had been here for 1000 ms when it was read")
		r, err = came(-time.Hour)
		require.NoError(t, err, "a clock that was set back makes nothing younger than it is")
		require.Equal(t, 20*ms, r.Elapsed)
		require.Equal(t, int64(2), g.Measures("p").Modules[0].Batches)
	})
}

// TestACallersOwnTimeoutIsNotTheMachines: where the caller gave a request less time than the
// objective, and that was over when it was read, the error names the caller's timeout.
func TestACallersOwnTimeoutIsNotTheMachines(t *testing.T) {
	for name, c := range map[string]struct {
		slo, before, timeout time.Duration // timeout from when the request came, before it is read; 0 for none
		code                 error
		text                 string
	}{
		"no time at all":              {slo: 200 * ms, timeout: time.Nanosecond, before: ms, code: wire.ErrDeadline, text: "the caller's own timeout was over"},
		"before it came":              {slo: 200 * ms, timeout: -ms, before: ms, code: wire.ErrDeadline, text: "over 0 ms after the request came"},
		"less than it waited":         {slo: 200 * ms, timeout: 50 * ms, before: 60 * ms, code: wire.ErrDeadline, text: "over 50 ms after the request came, before it was read"},
		"both are over":               {slo: 200 * ms, timeout: 50 * ms, before: time.Second, code: wire.ErrDeadline, text: "the caller's own timeout"},
		"no objective":                {timeout: 50 * ms, before: 60 * ms, code: wire.ErrDeadline, text: "the caller's own timeout"},
		"longer than the objective":   {slo: 200 * ms, timeout: 300 * ms, before: time.Second, code: wire.ErrOverloaded, text: "cannot keep up with reading"},
		"as long as the objective":    {slo: 200 * ms, timeout: 200 * ms, before: time.Second, code: wire.ErrOverloaded, text: "cannot keep up with reading"},
		"none given, over long since": {slo: 200 * ms, before: time.Second, code: wire.ErrOverloaded, text: "cannot keep up with reading"},
		"time is left":                {slo: 200 * ms, timeout: 100 * ms, before: 50 * ms},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, Options{}, c.slo, spec{kind: addOne, batch: 1, duration: 20 * ms}, func(g *Gateway, _ map[string]*worker) {
				time.Sleep(time.Hour) // no time is before the gateway began
				came, ctx := time.Now().Add(-c.before), context.Background()
				if c.timeout != 0 {
					of, cancel := context.WithDeadline(ctx, came.Add(c.timeout))
					defer cancel()
					ctx = of
				}
				_, err := g.Infer(ctx, &wire.InferRequest{Pipeline: "p", Inputs: vector(1, 2), Arrived: came})
				if c.code == nil {
					require.NoError(t, err)
					return
				}
				require.ErrorIs(t, err, c.code)
				require.ErrorContains(t, err, c.text)
				require.Zero(t, g.Measures("p").Modules[0].Batches)
			})
		})
	}
}

// TestGivesUpBeforeASplitThatCannotBeInTime: a request that turns out to have more items than
// can be done by its deadline is given up before any of them runs; one with as many as can is
// answered.
func TestGivesUpBeforeASplitThatCannotBeInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := fanning(300 * ms)
		p.Modules, p.Outputs = p.Modules[:2], []pipelines.Output{{Name: "rows", From: ref("inc", "y")}}
		p.Rate, p.Arrivals = 1, "poisson"
		specs := map[string]spec{"spread": {kind: spread, duration: 10 * ms}, "inc": {kind: addOne, duration: 50 * ms}}
		ran := 0
		g, workers := serve(t, Options{Observer: Observer{BatchBegin: func(b BatchInfo) {
			if b.Module == "inc" {
				ran++
			}
		}}}, deployment(p, 1, specs), specs)
		for _, w := range workers {
			w.delay = func(int) time.Duration { return 10 * ms }
		}
		_, err := g.Infer(context.Background(), &wire.InferRequest{Pipeline: "p", Inputs: vector(8, 1)})
		var typed *wire.Error
		require.ErrorAs(t, err, &typed)
		require.Equal(t, wire.CodeDeadline, typed.Code)
		require.Equal(t, "inc", typed.Stage)
		require.Zero(t, ran, "400 ms of work in 290")
		_, err = g.Infer(context.Background(), &wire.InferRequest{Pipeline: "p", Inputs: vector(4, 1)})
		require.NoError(t, err)
		require.Equal(t, 4, ran)
		stop(g, workers)
		time.Sleep(time.Minute)
	})
}

// TestServedWastesLittle: three modules in a row, requests in bursts of twenty. From the
// planned rate to three times as much, next to nothing that devices do is for requests that
// fail later, and as many are answered in time as were planned for, or as come.
func TestServedWastesLittle(t *testing.T) {
	const slo, span, planned, burst = 200 * ms, 20 * time.Second, 150, 20
	profile := pipelines.Profile{Points: []pipelines.Point{
		{Hardware: "cpu", Batch: 1, Duration: 10 * ms}, {Hardware: "cpu", Batch: 4, Duration: 20 * ms},
	}}
	for _, times := range []float64{1, 1.5, 3} {
		synctest.Test(t, func(t *testing.T) {
			p, specs := single(slo), map[string]spec{}
			p.Rate, p.Arrivals, p.Modules = planned, "poisson", nil
			above := bind("x", "", "x")
			for _, name := range []string{"m", "n", "o"} {
				p.Modules = append(p.Modules, pipelines.Module{Name: name, Model: name, Inputs: []pipelines.Binding{above}, Profile: profile})
				specs[name], above = spec{kind: addOne, batch: 4, window: 27 * ms, duration: 20 * ms}, bind("x", name, "y")
			}
			p.Outputs = []pipelines.Output{{Name: "y", From: ref("o", "y")}}
			var done atomic.Int64
			g, workers := serve(t, Options{Observer: Observer{BatchEnd: func(b BatchInfo) { done.Add(int64(b.Size)) }}}, deployment(p, 1, specs), specs)
			for _, w := range workers {
				w.delay = func(n int) time.Duration { return time.Duration(10+10*(n-1)/3) * ms }
			}
			var good atomic.Int64
			var group sync.WaitGroup
			for i := range int(planned * times * span.Seconds()) {
				sent := time.Duration(float64(i/burst*burst) / (planned * times) * float64(time.Second))
				begin := time.Now()
				at(g, sent, &group, func(_ *wire.InferResponse, err *wire.Error) {
					if err == nil && time.Since(begin)-sent <= slo {
						good.Add(1)
					}
				})
			}
			group.Wait()
			wasted := 1 - 3*float64(good.Load())/float64(done.Load())
			t.Logf("%v times: %.1f/s in time, %.2f %% of the items for nothing", times, float64(good.Load())/span.Seconds(), 100*wasted)
			require.GreaterOrEqual(t, float64(good.Load())/span.Seconds(), 0.95*planned)
			require.Less(t, wasted, 0.01)
			stop(g, workers)
			time.Sleep(time.Minute)
		})
	}
}
