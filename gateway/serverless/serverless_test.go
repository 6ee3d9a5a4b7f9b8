package serverless

import (
	"context"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/executors/emulated"
	"github.com/harpagon/harpagon/executors/provider"
	"github.com/harpagon/harpagon/gateway"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/functions"
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

func deploy(t testing.TB, at string, generation int, change ...func(*pipelines.Function, *pipelines.Provider)) functions.Deployment {
	f, cloud := quick(at)
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
	return functions.Deployment{Generation: generation, Function: f, Provider: cloud, Plan: plan}
}

// listen opens a server on loopback and returns its URL.
func listen(t testing.TB, h http.Handler) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &http.Server{Handler: h}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close() })
	return "http://" + l.Addr().String()
}

// late hands requests to a handler that is made after the address is known.
type late struct{ http.Handler }

// host runs the provider of this repository.
func host(t testing.TB, o provider.Options, change ...func(*pipelines.Function, *pipelines.Provider)) (*provider.Host, string) {
	var l late
	at := listen(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { l.Handler.ServeHTTP(w, r) }))
	f, cloud := quick(at)
	for _, c := range change {
		c(&f, &cloud)
	}
	o.Problems = []functions.Problem{{Function: f, Provider: cloud}}
	h, err := provider.New(o)
	require.NoError(t, err)
	l.Handler = h
	t.Cleanup(func() { _ = h.Close() })
	return h, at
}

func serve(t testing.TB, o Options, d functions.Deployment) *Server {
	s := New(o)
	t.Cleanup(s.Close)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	require.NoError(t, s.Prepare(ctx, d))
	require.NoError(t, s.Install(ctx, d))
	return s
}

func ask(application string, a, b float32) *wire.InferRequest {
	return &wire.InferRequest{ID: "1", Pipeline: "net/" + application, Inputs: []wire.NamedTensor{{Name: "x", Tensor: wire.FromFloat32([]float32{a, b}, 2)}}}
}

// TestServesPoissonArrivals offers both applications at their rates and
// compares what came of it with the plan and with the provider's bill.
func TestServesPoissonArrivals(t *testing.T) {
	h, at := host(t, provider.Options{ColdStart: time.Millisecond, Seed: 1})
	d := deploy(t, at, 1)
	var told struct{ begin, end, calls, installs atomic.Int64 }
	s := serve(t, Options{Observer: gateway.Observer{
		RequestBegin: func(gateway.RequestInfo) { told.begin.Add(1) },
		RequestEnd:   func(gateway.RequestInfo) { told.end.Add(1) },
		CallEnd:      func(gateway.CallInfo) { told.calls.Add(1) },
		Installed: func(i gateway.InstallInfo) {
			told.installs.Add(1)
			assert.Equal(t, map[string]string{"2 GB GPU": "grouped"}, i.Policies)
		},
	}}, d)
	t.Log("\n" + d.Plan.Describe())
	var wg sync.WaitGroup
	var mu sync.Mutex
	batches := map[int]int{}
	const span = 3 * time.Second
	for i, a := range d.Function.Applications {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(7, uint64(i)))
			for begin := time.Now(); time.Since(begin) < span; {
				time.Sleep(time.Duration(rng.ExpFloat64() / a.Rate * float64(time.Second)))
				q := ask(a.Name, rng.Float32(), rng.Float32())
				wg.Go(func() {
					r, err := s.Infer(context.Background(), q)
					if err != nil {
						return // counted below
					}
					sum, _ := r.Outputs[0].Float32s()
					assert.Equal(t, emulated.Checksum([]wire.Tensor{q.Inputs[0].Tensor}), sum[0], "the answer is that of another request")
					st := r.Stages[0]
					assert.Equal(t, r.Elapsed, st.Queue+st.Wait+st.Compute+st.Transfer)
					mu.Lock()
					batches[st.Batch]++
					mu.Unlock()
				})
			}
		})
	}
	wg.Wait()
	m := s.Measures("net")
	t.Log("\n" + m.Describe(d.Plan))
	bill, total := h.Bill(), m.Total()
	assert.Equal(t, bill.Invocations, total.Calls)
	assert.Equal(t, bill.Requests, total.Requests)
	assert.Equal(t, bill.ColdStarts, total.ColdStarts)
	assert.InDelta(t, bill.Cost, total.Spent, 1e-9+0.01*bill.Cost, "what the gateway counts is what the provider bills")
	assert.Zero(t, total.Estimated)
	assert.Empty(t, total.Errors)
	assert.Greater(t, total.MeanBatch(), 1.5, "requests are batched")
	for _, a := range m.Applications {
		assert.Zero(t, a.InFlight)
		assert.Equal(t, a.Requests, a.Completed+a.Late+a.Dropped)
		assert.Positive(t, a.Completed)
	}
	sum := int64(0)
	for _, n := range s.Totals("net") {
		sum += n
	}
	assert.Equal(t, m.Applications[0].Requests+m.Applications[1].Requests, sum)
	assert.Zero(t, s.Totals("net")[gateway.Failed])
	assert.Equal(t, []int64{sum, sum, total.Calls, 1}, []int64{told.begin.Load(), told.end.Load(), told.calls.Load(), told.installs.Load()})
}
