package gateway

import (
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/examples/functions/provider"
	"github.com/harpagon/harpagon/executors/emulated"
	"github.com/harpagon/harpagon/executors/serverless"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/functions"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/wire"
)

// quick is a model in the proportions of the paper's, fast enough for a test:
// one request takes 10 to 20 ms on the whole GPU.
func quick(at string) (pipelines.Function, pipelines.Provider) {
	cloud := pipelines.Provider{
		Name: "cloud", VCPUSecond: 1.3e-5, GPUGBSecond: 1.5e-5, Invocation: 1.3e-7, Billing: 100 * time.Millisecond,
		VCPU: pipelines.Grid{Min: 0.5, Max: 4, Step: 0.5}, GPUMemory: pipelines.Grid{Min: 1, Max: 8, Step: 1},
		GPUSlice: 2 * time.Millisecond, URL: at + "/v2/models/{function}-{platform}-{size}",
	}
	f := pipelines.Function{
		Name: "net", Provider: "cloud",
		Profile: pipelines.FunctionProfile{
			CPU: []pipelines.CPUCurves{{Batch: 1, Avg: pipelines.Curve{Alpha: 0.1, Beta: 0.8, Gamma: 0.02}, Max: pipelines.Curve{Alpha: 0.15, Beta: 0.8, Gamma: 0.03}}},
			GPU: &pipelines.GPULine{Xi1: 0.001, Xi2: 0.002, WholeGB: 8, Thresholds: []int{0}},
		},
		Inputs: []pipelines.Port{{Name: "x", Datatype: "FP32", Shape: []int64{2}}},
		Applications: []pipelines.Application{
			{Name: "hasty", SLO: 200 * time.Millisecond, Rate: 40}, {Name: "calm", SLO: 400 * time.Millisecond, Rate: 60},
		},
	}
	return f, cloud
}

func deploy(t testing.TB, generation int, change ...func(*pipelines.Function, *pipelines.Provider)) placement.Deployment {
	f, cloud := quick(cloudAddress)
	for _, c := range change {
		c(&f, &cloud)
	}
	plan, err := functions.Solve(functions.Problem{Function: f, Provider: cloud}, functions.Options{})
	require.NoError(t, err)
	require.NotEqual(t, functions.Infeasible, plan.Status, plan.Reason)
	for i := range plan.Groups {
		for j := range plan.Groups[i].Applications {
			if a := &plan.Groups[i].Applications[j]; a.SLO > 5*time.Second {
				a.Timeout = 50 * time.Millisecond // the objectives of patient are for busy machines only
			}
		}
	}
	return placement.Deployment{Generation: generation, Function: &functions.Deployment{Generation: generation, Function: f, Provider: cloud, Plan: plan}}
}

// direct answers the calls of functions without a network, so that they take the
// time of a test's clock and no other.
type direct struct{ handler http.Handler }

func (d direct) RoundTrip(r *http.Request) (*http.Response, error) {
	w, ended := httptest.NewRecorder(), make(chan error, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				ended <- io.ErrUnexpectedEOF // http.ErrAbortHandler
			}
		}()
		d.handler.ServeHTTP(w, r)
		ended <- r.Context().Err()
	}()
	select {
	case err := <-ended:
		if err != nil {
			return nil, err
		}
		return w.Result(), nil
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

func invoker(h http.Handler) *serverless.Invoker {
	return serverless.NewInvoker(serverless.InvokerOptions{Client: &http.Client{Transport: direct{h}}})
}

// cloudAddress is where functions are called; nothing listens there.
const cloudAddress = "http://127.0.0.1:1"

// host runs the provider of this repository.
func host(t testing.TB, o provider.Options, change ...func(*pipelines.Function, *pipelines.Provider)) *provider.Host {
	f, cloud := quick(cloudAddress)
	for _, c := range change {
		c(&f, &cloud)
	}
	o.Problems = []functions.Problem{{Function: f, Provider: cloud}}
	h, err := provider.New(o)
	require.NoError(t, err)
	t.Cleanup(func() { _ = h.Close() })
	return h
}

// serveFunction makes a gateway that calls the handler.
func serveFunction(t testing.TB, o Options, d placement.Deployment, calls http.Handler) *Gateway {
	o.Invoker = invoker(calls)
	g := recorded(t, o)
	t.Cleanup(func() { _ = g.Close() })
	require.NoError(t, g.Prepare(context.Background(), d))
	require.NoError(t, g.Install(context.Background(), d))
	return g
}

func measured(g *Gateway) functions.Measures { return *g.Measures("net").Function }

func askOf(application string, a, b float32) *wire.InferRequest {
	return &wire.InferRequest{ID: "1", Pipeline: "net/" + application, Inputs: vector(a, b)}
}

// TestServesPoissonArrivals offers both applications at their rates for a minute
// and compares what came of it with the plan and with the provider's bill.
func TestServesPoissonArrivals(t *testing.T) { synctest.Test(t, servePoissonArrivals) }

func servePoissonArrivals(t *testing.T) {
	h := host(t, provider.Options{ColdStart: time.Millisecond, Seed: 1})
	d := deploy(t, 1)
	var told struct{ begin, end, calls, installs atomic.Int64 }
	g := serveFunction(t, Options{Observer: Observer{
		RequestBegin: func(RequestInfo) { told.begin.Add(1) },
		RequestEnd:   func(RequestInfo) { told.end.Add(1) },
		CallEnd:      func(CallInfo) { told.calls.Add(1) },
		Installed: func(i InstallInfo) {
			told.installs.Add(1)
			assert.Equal(t, map[string]string{"2 GB GPU": "grouped"}, i.Policies)
		},
	}}, d, h)
	plan := d.Function.Plan
	var wg sync.WaitGroup
	const span = time.Minute
	for i, a := range d.Function.Function.Applications {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(7, uint64(i)))
			for begin := time.Now(); time.Since(begin) < span; {
				time.Sleep(time.Duration(rng.ExpFloat64() / a.Rate * float64(time.Second)))
				q := askOf(a.Name, rng.Float32(), rng.Float32())
				wg.Go(func() {
					r, err := g.Infer(context.Background(), q)
					if err != nil {
						return // counted below
					}
					sum, _ := r.Outputs[0].Float32s()
					assert.Equal(t, emulated.Checksum([]wire.Tensor{q.Inputs[0].Tensor}), sum[0], "the answer is that of another request")
					st := r.Stages[0]
					assert.Equal(t, r.Elapsed, st.Queue+st.Wait+st.Compute+st.Transfer)
					assert.LessOrEqual(t, st.Wait, plan.Groups[0].Applications[i].Timeout)
				})
			}
		})
	}
	wg.Wait()
	m := measured(g)
	t.Log("\n" + plan.Describe() + "\n" + m.Describe(plan))
	bill, total := h.Bill(), m.Total()
	assert.Equal(t, bill.Invocations, total.Calls)
	assert.Equal(t, bill.Requests, total.Requests)
	assert.Equal(t, bill.ColdStarts, total.ColdStarts)
	assert.InDelta(t, bill.Cost, total.Spent, 0.001*bill.Cost, "what the gateway counts is what the provider bills")
	assert.Zero(t, total.Estimated)
	assert.Empty(t, total.Errors)
	assert.Greater(t, total.MeanBatch(), 1.5, "requests are batched")
	assert.Less(t, m.Violations(), 0.02)
	rates := 0.0
	for _, a := range m.Applications {
		assert.Zero(t, a.InFlight)
		assert.Equal(t, a.Requests, a.Completed+a.Late+a.Dropped)
		assert.Positive(t, a.Completed)
		rates += a.Offered
	}
	assert.InDelta(t, 100, rates, 10)
	all := g.Measures("net")
	assert.InDelta(t, rates, all.Offered, 1e-9)
	assert.Equal(t, "grouped", all.Modules[0].Policy)
	sum := int64(0)
	for _, n := range g.Totals("net") {
		sum += n
	}
	assert.Equal(t, m.Applications[0].Requests+m.Applications[1].Requests, sum)
	assert.Zero(t, g.Totals("net")[Failed])
	assert.Equal(t, []int64{sum, sum, total.Calls, 1}, []int64{told.begin.Load(), told.end.Load(), told.calls.Load(), told.installs.Load()})
}
