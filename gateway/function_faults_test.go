package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/examples/functions/provider"
	"github.com/harpagon/harpagon/executors/serverless"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/functions"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/oip"
)

// fake is a provider whose calls a test answers. It does not describe its
// functions.
func fake(infer http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			http.NotFound(w, r)
			return
		}
		infer(w, r)
	})
}

// good answers every request of a call with 1.
func good(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	call, err := oip.DecodeRequest(body, -1)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	n := call.Request.Inputs[0].Shape[0]
	ones := make([]float32, n)
	for i := range ones {
		ones[i] = 1
	}
	answer, _, _ := oip.EncodeResponse(&wire.InferResponse{Outputs: []wire.NamedTensor{{Name: "y", Tensor: wire.FromFloat32(ones, n)}}}, call.AsBinary)
	_, _ = w.Write(answer)
}

// crowd sends n requests of both applications at once and returns their errors
// by code; "" counts the answers.
func crowd(g *Gateway, n int) map[wire.Code]int {
	var mu sync.Mutex
	var wg sync.WaitGroup
	codes := map[wire.Code]int{}
	for i := range n {
		wg.Go(func() {
			_, err := g.Infer(context.Background(), askOf([]string{"hasty", "calm"}[i%2], float32(i), 0))
			var code wire.Code
			if e, ok := err.(*wire.Error); ok {
				code = e.Code
			}
			mu.Lock()
			codes[code]++
			mu.Unlock()
		})
	}
	wg.Wait()
	return codes
}

// everyOneEnded checks the invariant: each request has one outcome.
func everyOneEnded(t *testing.T, g *Gateway, n int64) {
	t.Helper()
	sum := int64(0)
	for _, k := range g.Totals("net") {
		sum += k
	}
	assert.Equal(t, n, sum)
	requests, ended := int64(0), int64(0)
	for _, a := range measured(g).Applications {
		assert.Zero(t, a.InFlight)
		requests += a.Requests
		ended += a.Completed + a.Late + a.Dropped + a.Refused + a.Failed + a.Cancelled
	}
	assert.Equal(t, n, requests)
	assert.Equal(t, n, ended)
}

func patient(f *pipelines.Function, _ *pipelines.Provider) {
	for i := range f.Applications {
		f.Applications[i].SLO *= 50 // a busy machine is no matter here
	}
}

// TestBadProvidersLoseNoRequest answers the calls of a crowd wrongly in every
// way.
func TestBadProvidersLoseNoRequest(t *testing.T) {
	const n = 40
	text := func(s string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, s) }
	}
	var turn atomic.Int64
	for name, c := range map[string]struct {
		infer http.HandlerFunc
		code  wire.Code
		kind  string
	}{
		"good":            {good, "", ""},
		"garbage":         {text("<html>"), wire.CodeInternal, "garbage"},
		"500":             {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "boom", 500) }, wire.CodeInternal, "status 500"},
		"partial answers": {text(`{"outputs":[{"name":"y","datatype":"FP32","shape":[1],"data":[1]},{"name":"z","datatype":"FP32","shape":[999],"data":[]}]}`), wire.CodeInternal, "garbage"},
		"wrong number":    {text(`{"outputs":[{"name":"y","datatype":"FP32","shape":[99,0],"data":[]}]}`), wire.CodeInternal, "misshapen"},
		"never": {func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		}, wire.CodeDeadline, "timeout"},
		"hangs up":  {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, wire.CodeUnavailable, "broken"},
		"throttled": {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "busy", http.StatusTooManyRequests) }, wire.CodeOverloaded, "throttled"},
		"half of the calls": {func(w http.ResponseWriter, r *http.Request) {
			if turn.Add(1)%2 == 0 {
				http.Error(w, "boom", 500)
				return
			}
			good(w, r)
		}, "either", "status 500"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := fake(c.infer)
				g := serveFunction(t, Options{}, deploy(t, 1, patient, func(_ *pipelines.Function, p *pipelines.Provider) { p.Timeout = 300 * time.Millisecond }), h)
				codes := crowd(g, n)
				everyOneEnded(t, g, n)
				total := measured(g).Total()
				switch c.code {
				case "either":
					assert.Equal(t, n, codes[""]+codes[wire.CodeInternal])
					assert.Positive(t, total.Errors[c.kind])
				case "":
					assert.Equal(t, n, codes[""])
					assert.Empty(t, total.Errors)
				default:
					assert.Equal(t, map[wire.Code]int{c.code: n}, codes)
					assert.Len(t, total.Errors, 1)
					assert.Positive(t, total.Errors[c.kind], "%v", total.Errors)
				}
				assert.EqualValues(t, n, total.Requests)
				if c.kind != "throttled" {
					assert.Positive(t, total.Spent)
					assert.EqualValues(t, total.Calls, total.Estimated)
				}
			})
		})
	}
}

func TestUnreachableProvider(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		away := serverless.NewInvoker(serverless.InvokerOptions{Client: &http.Client{Transport: noNetwork{}}})
		g := New(Options{Invoker: away})
		defer g.Close()
		d := deploy(t, 1, patient)
		require.ErrorContains(t, g.Prepare(t.Context(), d), "cannot be reached")
		require.NoError(t, g.Install(t.Context(), d), "what was served goes on when a gateway restarts")
		_, err := g.Infer(t.Context(), askOf("calm", 1, 2))
		require.ErrorIs(t, err, wire.ErrUnavailable)
		m, err := g.Metadata(t.Context(), "net")
		require.NoError(t, err)
		assert.False(t, m.Ready)
		assert.Contains(t, m.Reason, "cannot be reached")
		total := measured(g).Total()
		assert.EqualValues(t, 2, total.Retries, "three attempts")
		assert.Zero(t, total.Calls)
		everyOneEnded(t, g, 1)
	})
}

// noNetwork is a network in which no host answers.
type noNetwork struct{}

func (noNetwork) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
}

func TestRequestsLeaveAtTheirTimeouts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := deploy(t, 1)
		g := serveFunction(t, Options{}, d, host(t, provider.Options{ColdStart: -1, Steady: true}))
		plan := d.Function.Plan
		require.Len(t, plan.Groups, 1)
		r, err := g.Infer(t.Context(), askOf("hasty", 1, 2))
		require.NoError(t, err)
		share := plan.Groups[0].Applications[0]
		require.Equal(t, "hasty", share.Name)
		st := r.Stages[0]
		assert.Equal(t, share.Timeout-DefaultFunctionMargin, st.Wait)
		assert.Equal(t, 1, st.Batch)
		assert.Equal(t, "2 GB GPU", st.Module)
		avg, _ := functions.Problem{Function: d.Function.Function, Provider: d.Function.Provider}.Latency(plan.Groups[0].Offer, 1)
		assert.InDelta(t, avg, st.Compute.Seconds(), 1e-6, "the model's latency of one request")
		assert.InDelta(t, 0, st.Transfer.Seconds(), 1e-6)
	})
}

func TestCallersWhoLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		d := deploy(t, 1, patient)
		g := serveFunction(t, Options{}, d, fake(func(w http.ResponseWriter, r *http.Request) { <-release; good(w, r) }))
		var wg sync.WaitGroup
		leave := func(ctx context.Context) {
			wg.Go(func() {
				_, err := g.Infer(ctx, askOf("calm", 1, 2))
				assert.ErrorIs(t, err, wire.ErrCanceled)
			})
		}
		// One leaves while he waits: no call is made for him.
		ctx, cancel := context.WithCancel(t.Context())
		leave(ctx)
		synctest.Wait()
		require.EqualValues(t, 1, measured(g).Applications[1].InFlight)
		cancel()
		wg.Wait()
		time.Sleep(time.Minute)
		assert.Zero(t, measured(g).Total().Requests)
		// A full batch goes out, and its callers leave while it runs.
		ctx, cancel = context.WithCancel(t.Context())
		n := d.Function.Plan.Groups[0].Batch
		for range n {
			leave(ctx)
		}
		synctest.Wait()
		l := g.queue.Loads(g.pipeline("net").current.Load().Generation)[0]
		assert.Equal(t, 1, l.Calls)
		assert.Zero(t, l.Held)
		cancel()
		wg.Wait()
		close(release)
		synctest.Wait()
		assert.EqualValues(t, n, measured(g).Total().Requests, "it is counted when it ends")
		everyOneEnded(t, g, int64(n)+1)
		assert.EqualValues(t, n+1, g.Totals("net")[Cancelled])
	})
}

func TestDeadlinesOfFunctions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := serveFunction(t, Options{}, deploy(t, 1), host(t, provider.Options{ColdStart: -1, Steady: true}))
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond) // less than a request takes
		defer cancel()
		_, err := g.Infer(ctx, askOf("calm", 1, 2))
		require.ErrorIs(t, err, wire.ErrDeadline)
		var e *wire.Error
		require.ErrorAs(t, err, &e)
		assert.LessOrEqual(t, e.Elapsed, 5*time.Millisecond)
		assert.LessOrEqual(t, e.Budget, 5*time.Millisecond+1)
		everyOneEnded(t, g, 1)
		assert.Zero(t, measured(g).Total().Calls, "no call was made for it")
	})
}

// TestCallLimit lets one call run at a time.
func TestCallLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now, most atomic.Int64
		h := fake(func(w http.ResponseWriter, r *http.Request) {
			n := now.Add(1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			time.Sleep(20 * time.Millisecond)
			good(w, r)
			now.Add(-1)
		})
		g := serveFunction(t, Options{}, deploy(t, 1, patient, func(_ *pipelines.Function, p *pipelines.Provider) { p.Concurrency = 1 }), h)
		assert.Equal(t, map[wire.Code]int{"": 60}, crowd(g, 60))
		assert.EqualValues(t, 1, most.Load())
		everyOneEnded(t, g, 60)
	})
}

// TestCallLimitOverGroups: the groups of a plan share what the provider allows.
func TestCallLimitOverGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now, most atomic.Int64
		h := fake(func(w http.ResponseWriter, r *http.Request) {
			n := now.Add(1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			time.Sleep(20 * time.Millisecond)
			good(w, r)
			now.Add(-1)
		})
		d := deploy(t, 1, patient, func(_ *pipelines.Function, p *pipelines.Provider) { p.Concurrency = 2 })
		apart(&d.Function.Plan)
		g := serveFunction(t, Options{}, d, h)
		var wg sync.WaitGroup
		for i := range 200 {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * time.Millisecond)
				_, err := g.Infer(context.Background(), askOf([]string{"hasty", "calm"}[i%2], 1, 2))
				assert.NoError(t, err)
			})
		}
		wg.Wait()
		assert.EqualValues(t, 2, most.Load())
		m := measured(g)
		require.Len(t, m.Groups, 2)
		assert.Equal(t, []string{"2 GB GPU (hasty)", "2 GB GPU (calm)"}, []string{m.Groups[0].Name, m.Groups[1].Name})
		assert.Equal(t, []int64{100, 100}, []int64{m.Groups[0].Requests, m.Groups[1].Requests})
		everyOneEnded(t, g, 200)
	})
}

// apart gives every application of a plan of one group its own.
func apart(p *functions.Plan) {
	one := p.Groups[0]
	p.Groups = nil
	for _, a := range one.Applications {
		g := one
		g.Batch, g.Applications = 1, []functions.Share{a}
		p.Groups = append(p.Groups, g)
	}
}

func TestWrongRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []RequestInfo
		o := Options{MaxInFlight: 1, Observer: Observer{RequestEnd: func(i RequestInfo) { told = append(told, i) }}}
		g := serveFunction(t, o, deploy(t, 1), host(t, provider.Options{}))
		for want, q := range map[string]*wire.InferRequest{
			`"nobody/x" is not served`:                   {Pipeline: "nobody/x"},
			"address one of net/hasty, net/calm":         {Pipeline: "net"},
			`has no application "idle"; there is net/ha`: {Pipeline: "net/idle"},
			`input "x" is missing`:                       {Pipeline: "net/calm"},
			"has shape [3] where [2]":                    {Pipeline: "net/calm", Inputs: []wire.NamedTensor{{Name: "x", Tensor: wire.FromFloat32([]float32{1, 2, 3}, 3)}}},
		} {
			_, err := g.Infer(t.Context(), q)
			assert.ErrorContains(t, err, want)
		}
		assert.Len(t, told, 2, "names that callers invent do not reach observers")
		assert.Equal(t, int64(2), g.Totals("net")[Invalid])
		m := measured(g)
		assert.Zero(t, m.Applications[1].Requests, "they are no load")
		assert.EqualValues(t, 2, m.Applications[1].Invalid)
		q := askOf("calm", 1, 2)
		q.Outputs = []string{"nothing"}
		_, err := g.Infer(t.Context(), q)
		assert.ErrorContains(t, err, `no output "nothing"`)
		codes := map[wire.Code]int{}
		o.Observer = Observer{}
		for code, n := range crowd(serveFunction(t, o, deploy(t, 1), host(t, provider.Options{})), 5) {
			codes[code] += n
		}
		assert.Equal(t, 4, codes[wire.CodeOverloaded])
	})
}

// TestRequestsThatDoNotFitTogether go in calls of their own where the function declares no
// inputs.
func TestRequestsThatDoNotFitTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := fake(good)
		g := serveFunction(t, Options{}, deploy(t, 1, patient, func(f *pipelines.Function, _ *pipelines.Provider) { f.Inputs = nil }), h)
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				q := askOf("hasty", 1, 2)
				if i%2 == 0 {
					q.Inputs[0].Tensor = wire.FromFloat32([]float32{1, 2, 3}, 3)
				}
				_, err := g.Infer(t.Context(), q)
				assert.NoError(t, err)
			})
		}
		wg.Wait()
		total := measured(g).Total()
		assert.GreaterOrEqual(t, total.Calls, int64(2))
		everyOneEnded(t, g, 8)
		_, err := g.Infer(t.Context(), &wire.InferRequest{Pipeline: "net/calm"})
		assert.ErrorContains(t, err, "no inputs")
	})
}

// TestInstallMovesWhatWaits changes plans under load: nothing is lost.
func TestInstallMovesWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := serveFunction(t, Options{}, deploy(t, 1, patient), host(t, provider.Options{ColdStart: -1}))
		stop := make(chan struct{})
		var wg sync.WaitGroup
		var sent atomic.Int64
		for i := range 8 {
			wg.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					sent.Add(1)
					_, err := g.Infer(context.Background(), askOf([]string{"hasty", "calm"}[i%2], 1, 2))
					assert.NoError(t, err)
				}
			})
		}
		for n := 2; n < 40; n++ {
			time.Sleep(31 * time.Millisecond)
			require.NoError(t, g.Install(t.Context(), deploy(t, n, patient, func(f *pipelines.Function, _ *pipelines.Provider) {
				f.Applications[0].Rate = float64(10 * n)
				if n%2 == 0 {
					f.Applications[0], f.Applications[1] = f.Applications[1], f.Applications[0]
				}
			})))
			requests, ended, under := int64(0), int64(0), int64(0)
			for _, a := range measured(g).Applications {
				requests += a.Requests
				ended += a.Completed
				under += a.InFlight
			}
			assert.Equal(t, requests, ended+under, "the counts move with the requests")
		}
		close(stop)
		wg.Wait()
		sum := int64(0)
		for _, n := range g.Totals("net") {
			sum += n
		}
		assert.Equal(t, sent.Load(), sum)
		assert.ErrorContains(t, g.Install(t.Context(), deploy(t, 3)), "generation 3 is older")
		before := measured(g).Total()
		require.NoError(t, g.Install(t.Context(), deploy(t, 39)), "the same generation")
		assert.Equal(t, before, measured(g).Total(), "whose counts go on")
	})
}

func TestApplicationsThatGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		waiting := deploy(t, 1, patient)
		waiting.Function.Plan.Groups[0].Applications[1].Timeout = 5 * time.Second
		g := serveFunction(t, Options{}, waiting, host(t, provider.Options{ColdStart: -1}))
		done := make(chan error, 1)
		go func() {
			_, err := g.Infer(context.Background(), askOf("calm", 1, 2))
			done <- err
		}()
		synctest.Wait()
		require.EqualValues(t, 1, measured(g).Applications[1].InFlight)
		require.NoError(t, g.Install(t.Context(), deploy(t, 2, patient, func(f *pipelines.Function, _ *pipelines.Provider) { f.Applications = f.Applications[:1] })))
		assert.ErrorContains(t, <-done, "not served any more")
		r, err := g.Infer(t.Context(), &wire.InferRequest{Pipeline: "net", Inputs: vector(1, 2)})
		require.NoError(t, err, "the only application needs no name")
		assert.Equal(t, 2, r.Generation)
		names, _ := g.Pipelines(t.Context())
		assert.Equal(t, []string{"net/hasty"}, names)
		assert.Equal(t, []string{"net"}, g.Services())
	})
}

// TestNothingIsLeftBehind closes a server under load, with calls that never
// end by themselves.
func TestNothingIsLeftBehind(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) { // which fails when a goroutine is left
			g := serveFunction(t, Options{}, deploy(t, 1, patient), fake(func(_ http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				<-r.Context().Done()
			}))
			done := make(chan map[wire.Code]int)
			go func() { done <- crowd(g, 20) }()
			synctest.Wait()
			require.EqualValues(t, 10, measured(g).Applications[1].Requests)
			require.NoError(t, g.Close())
			assert.Equal(t, map[wire.Code]int{wire.CodeUnavailable: 20}, <-done)
			_, err := g.Infer(t.Context(), askOf("calm", 1, 2))
			assert.ErrorIs(t, err, wire.ErrUnavailable)
		})
	}
}

func TestRemoveWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		g := serveFunction(t, Options{}, deploy(t, 1, patient), fake(func(w http.ResponseWriter, r *http.Request) { <-release; good(w, r) }))
		done := make(chan error, 1)
		go func() {
			_, err := g.Infer(context.Background(), askOf("hasty", 1, 2))
			done <- err
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		require.ErrorContains(t, g.Remove(ctx, "net", placement.Age{}), "still under way")
		_, err := g.Infer(t.Context(), askOf("hasty", 1, 2))
		require.ErrorIs(t, err, wire.ErrNotFound)
		close(release)
		require.NoError(t, <-done)
		require.NoError(t, g.Remove(t.Context(), "net", placement.Age{}))
	})
}

func TestMeasuresTravel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := deploy(t, 3)
		g := serveFunction(t, Options{}, d, host(t, provider.Options{}))
		_, err := g.Infer(t.Context(), askOf("calm", 1, 2))
		require.NoError(t, err)
		raw, err := json.Marshal(d)
		require.NoError(t, err)
		var again placement.Deployment
		require.NoError(t, json.Unmarshal(raw, &again))
		assert.Equal(t, fmt.Sprint(d.Function.Plan.Dispatch()), fmt.Sprint(again.Function.Plan.Dispatch()), "a deployment survives JSON")
		assert.Equal(t, d.Function.Function, again.Function.Function)
		assert.Equal(t, d.Function.Provider, again.Function.Provider)
		m := measured(g)
		assert.Equal(t, 3, m.Generation)
		assert.EqualValues(t, 1, m.Total().ColdStarts)
		assert.EqualValues(t, 1, m.Applications[1].LateCold)
		assert.Contains(t, m.Describe(d.Function.Plan), "2 GB GPU")
		assert.Nil(t, g.Measures("nobody").Function)
	})
}
