package provider

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/executors/gorgonia"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/functions"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/oip"
)

// problem is a function of 10 to 20 ms on 1 vCPU, and 2 ms a request on the
// whole of a GPU of 4 GB.
func problem() functions.Problem {
	return functions.Problem{
		Provider: pipelines.Provider{
			Name: "cloud", VCPUSecond: 1, GPUGBSecond: 1, Invocation: 0.5, Billing: 100 * time.Millisecond, GPUSlice: time.Millisecond,
			VCPU: pipelines.Grid{Min: 0.5, Max: 2, Step: 0.5}, GPUMemory: pipelines.Grid{Min: 1, Max: 4, Step: 1},
			URL: "http://127.0.0.1:9100/v2/models/{function}-{platform}-{size}", Concurrency: 2,
		},
		Function: pipelines.Function{
			Name: "f", Provider: "cloud", Inputs: []pipelines.Port{{Name: "x", Datatype: "FP32", Shape: []int64{2}}},
			Profile: pipelines.FunctionProfile{
				CPU: []pipelines.CPUCurves{{Batch: 2, Avg: pipelines.Curve{Alpha: 0.01, Beta: 1e9}, Max: pipelines.Curve{Alpha: 0.02, Beta: 1e9}}},
				GPU: &pipelines.GPULine{Xi1: 0.002, WholeGB: 4, Thresholds: []int{2}},
			},
			Applications: []pipelines.Application{{Name: "a", SLO: time.Second, Rate: 1}},
		},
	}
}

func start(t *testing.T, o Options) *Host {
	if o.Problems == nil {
		o.Problems = []functions.Problem{problem()}
	}
	if o.ColdStart == 0 {
		o.ColdStart = -1
	}
	h, err := New(o)
	require.NoError(t, err)
	t.Cleanup(func() { _ = h.Close() })
	return h
}

func body(n int) string {
	return fmt.Sprintf(`{"inputs":[{"name":"x","datatype":"FP32","shape":[%d,2],"data":[%s]}]}`, n, strings.TrimSuffix(strings.Repeat("1,2,", n), ","))
}

func do(h http.Handler, method, path, body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(body)))
	return w
}

func TestRunsAndBills(t *testing.T) {
	h := start(t, Options{})
	for range 3 {
		w := do(h, "POST", "/v2/models/f-cpu-1/infer", body(2))
		require.Equal(t, 200, w.Code, w.Body)
		require.Contains(t, w.Header().Get("Server-Timing"), "run;dur=")
		r, err := oip.DecodeResponse(w.Body.Bytes(), -1)
		require.NoError(t, err)
		require.Equal(t, []int64{2, 1}, r.Outputs[0].Shape)
	}
	w := do(h, "POST", "/v2/models/f-gpu-2/infer", body(1))
	require.Equal(t, 200, w.Code, w.Body)
	require.Contains(t, w.Header().Get("Server-Timing"), "init;dur=", "the first call of a size starts an instance")

	var bill Bill
	require.NoError(t, json.Unmarshal(do(h, "GET", BillPath, "").Body.Bytes(), &bill))
	require.Len(t, bill.Items, 2)
	cpu, gpu := bill.Items[0], bill.Items[1]
	assert.Equal(t, "f-cpu-1", cpu.Name)
	assert.EqualValues(t, []int64{3, 6, 1}, []int64{cpu.Invocations, cpu.Requests, cpu.ColdStarts})
	assert.InDelta(t, 3*(0.1*1+0.5), cpu.Cost, 1e-9, "100 ms a call, rounded up")
	assert.InDelta(t, 0.1*2+0.5, gpu.Cost, 1e-9)
	assert.InDelta(t, bill.Cost/7, bill.CostPerRequest, 1e-9)
	assert.Equal(t, 1, cpu.Instances)
	assert.GreaterOrEqual(t, cpu.Run, 3*5.0)
}

func TestMetadata(t *testing.T) {
	h := start(t, Options{})
	m, err := oip.DecodeMetadata(do(h, "GET", "/v2/models/f-cpu-1", "").Body.Bytes())
	require.NoError(t, err)
	assert.Equal(t, []pipelines.Port{{Name: "x", Datatype: "FP32", Shape: []int64{-1, 2}}}, m.Inputs)
	assert.Equal(t, []pipelines.Port{{Name: "y", Datatype: "FP32", Shape: []int64{-1, 1}}}, m.Outputs)
	assert.Equal(t, 200, do(h, "GET", "/v2/models/f-cpu-1/ready", "").Code)
	assert.Contains(t, do(h, "GET", "/v2", "").Body.String(), "binary_tensor_data")
	assert.Equal(t, 200, do(h, "GET", "/v2/health/ready", "").Code)
}

func TestRefusals(t *testing.T) {
	h := start(t, Options{MaxBody: 1000, Token: ""})
	for _, c := range []struct {
		name, path, body string
		code             int
		says             string
	}{
		{"no such function", "/v2/models/g-cpu-1/infer", body(1), 404, "no function of the declaration"},
		{"off the grid", "/v2/models/f-cpu-0.7/infer", body(1), 404, ""},
		{"too large", "/v2/models/f-gpu-5/infer", body(1), 404, ""},
		{"not a call", "/v2/models/f-cpu-1", body(1), 404, ""},
		{"batch", "/v2/models/f-cpu-1/infer", body(3), 400, "a batch of 3 does not fit"},
		{"memory", "/v2/models/f-gpu-1/infer", body(3), 400, "a batch of 3 does not fit"},
		{"no JSON", "/v2/models/f-cpu-1/infer", "{", 400, "not valid JSON"},
		{"no inputs", "/v2/models/f-cpu-1/infer", `{"inputs":[]}`, 400, "no inputs"},
		{"no batch dimension", "/v2/models/f-cpu-1/infer", `{"inputs":[{"name":"x","datatype":"FP32","shape":[],"data":[1]}]}`, 400, "no first dimension"},
		{"empty", "/v2/models/f-cpu-1/infer", `{"inputs":[{"name":"x","datatype":"FP32","shape":[0,2],"data":[]}]}`, 400, "a batch of 0"},
		{"wrong name", "/v2/models/f-cpu-1/infer", strings.Replace(body(1), `"x"`, `"z"`, 1), 400, "there is no input"},
		{"wrong shape", "/v2/models/f-cpu-1/infer", `{"inputs":[{"name":"x","datatype":"FP32","shape":[1,3],"data":[1,2,3]}]}`, 400, "has shape"},
		{"uneven", "/v2/models/f-cpu-1/infer", `{"inputs":[{"name":"x","datatype":"FP32","shape":[1,2],"data":[1,2]},{"name":"z","datatype":"FP32","shape":[2],"data":[1,2]}]}`, 400, "holds 2 requests"},
		{"long", "/v2/models/f-cpu-1/infer", strings.Repeat(" ", 1001), 413, "at most 1000 are accepted"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := do(h, "POST", c.path, c.body)
			assert.Equal(t, c.code, w.Code, w.Body)
			assert.Contains(t, w.Body.String(), c.says)
		})
	}
	assert.Zero(t, h.Bill().Invocations, "what has not run is not billed")
}

func TestProviderToken(t *testing.T) {
	h := start(t, Options{Token: "secret"})
	assert.Equal(t, 401, do(h, "POST", "/v2/models/f-cpu-1/infer", body(1)).Code)
	r := httptest.NewRequest("POST", "/v2/models/f-cpu-1/infer", strings.NewReader(body(1)))
	r.Header.Set("Authorization", "Bearer secret")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	assert.Equal(t, 200, w.Code)
}

// TestScalesOutToItsLimit sends three calls at once where two instances may
// run.
func TestScalesOutToItsLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := problem()
		p.Function.Profile.CPU[0].Avg = pipelines.Curve{Alpha: 0.3, Beta: 1e9}
		h := start(t, Options{Problems: []functions.Problem{p}, Steady: true, ColdStart: time.Millisecond, Keep: 100 * time.Millisecond})
		var wg sync.WaitGroup
		codes := make([]int, 3)
		for i := range codes {
			wg.Go(func() {
				w := do(h, "POST", "/v2/models/f-cpu-1/infer", body(1))
				if codes[i] = w.Code; w.Code == http.StatusTooManyRequests {
					assert.Equal(t, "1", w.Header().Get("Retry-After"))
				}
			})
		}
		wg.Wait()
		assert.ElementsMatch(t, []int{200, 200, 429}, codes)
		item := h.Bill().Items[0]
		assert.EqualValues(t, []int64{2, 2, 1}, []int64{item.Invocations, item.ColdStarts, item.Throttled})
		assert.Equal(t, 2, item.Instances)
		time.Sleep(time.Second)
		require.Zero(t, h.Bill().Items[0].Instances, "idle instances go")
		require.Equal(t, 200, do(h, "POST", "/v2/models/f-cpu-1/infer", body(1)).Code)
		assert.EqualValues(t, 3, h.Bill().ColdStarts)
	})
}

func TestCallersWhoLeaveAreBilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := problem()
		p.Function.Profile.CPU[0].Avg = pipelines.Curve{Alpha: 0.2, Beta: 1e9}
		h := start(t, Options{Problems: []functions.Problem{p}, Steady: true})
		ctx, leave := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer leave()
		go h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", "/v2/models/f-cpu-1/infer", strings.NewReader(body(1))).WithContext(ctx))
		time.Sleep(time.Second)
		require.EqualValues(t, 1, h.Bill().Invocations)
		assert.InDelta(t, 200.0, h.Bill().Items[0].Run, 1e-3)
	})
}

func TestWhatCannotBeHosted(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*functions.Problem)
		pace   Pace
		want   string
	}{
		"no url":          {func(p *functions.Problem) { p.Provider.URL = "" }, "", "has no url"},
		"no sizes in url": {func(p *functions.Problem) { p.Provider.URL = "http://h/{function}" }, "", "does not name in its path what is called"},
		"share of what":   {func(*functions.Problem) {}, PaceShare, "has no model"},
		"missing engine":  {func(p *functions.Problem) { p.Function.Model = "nowhere.onnx" }, "", "needs engine"},
	} {
		t.Run(name, func(t *testing.T) {
			p := problem()
			c.change(&p)
			_, err := New(Options{Problems: []functions.Problem{p}, Pace: c.pace})
			require.ErrorContains(t, err, c.want)
		})
	}
	_, err := New(Options{})
	assert.ErrorContains(t, err, "no function")
}

// colour is a small network of the examples.
const colour = "../../traffic/models/colour.onnx"

func withModel(t *testing.T) (functions.Problem, []executors.Engine, string) {
	engines := []executors.Engine{gorgonia.New()}
	p := problem()
	p.Function.Model = colour
	sig, err := executors.Signatures(engines...)(pipelines.Module{Name: "f", Model: colour})
	require.NoError(t, err)
	p.Function.Inputs = sig.Inputs
	in := sig.Inputs[0]
	shape := append([]int64{1}, in.Shape...)
	zeros := make([]string, wire.Tensor{Shape: shape}.Len())
	for i := range zeros {
		zeros[i] = "0"
	}
	text, err := json.Marshal(shape)
	require.NoError(t, err)
	return p, engines, fmt.Sprintf(`{"inputs":[{"name":%q,"datatype":%q,"shape":%s,"data":[%s]}]}`, in.Name, in.Datatype, text, strings.Join(zeros, ","))
}

// TestComputesWithAModel takes the profile's time, or the engine's on a share of
// a core.
func TestComputesWithAModel(t *testing.T) {
	p, engines, call := withModel(t)
	h := start(t, Options{Problems: []functions.Problem{p}, Engines: engines})
	w := do(h, "POST", "/v2/models/f-cpu-1/infer", call)
	require.Equal(t, 200, w.Code, w.Body)
	r, err := oip.DecodeResponse(w.Body.Bytes(), -1)
	require.NoError(t, err)
	require.NotEqual(t, answerPort, r.Outputs[0].Name, "the model's own output")
	require.EqualValues(t, 1, r.Outputs[0].Shape[0])

	h = start(t, Options{Problems: []functions.Problem{p}, Engines: engines, Pace: PaceShare})
	for range 3 {
		require.Equal(t, 200, do(h, "POST", "/v2/models/f-cpu-0.5/infer", call).Code)
		require.Equal(t, 200, do(h, "POST", "/v2/models/f-cpu-2/infer", call).Code)
	}
	bill := h.Bill()
	require.Len(t, bill.Items, 2)
	assert.Positive(t, bill.Items[1].Run, "the engine's own time")

	p.Function.Inputs = []pipelines.Port{{Name: "other", Datatype: "FP32", Shape: []int64{1}}}
	_, err = New(Options{Problems: []functions.Problem{p}, Engines: engines})
	require.ErrorContains(t, err, "but its model takes")
}

// slow computes for a while on its clock.
type slow struct{ executors.Instance }

func (slow) Run(_ context.Context, items [][]wire.Tensor) ([][]wire.Tensor, error) {
	time.Sleep(20 * time.Millisecond)
	return make([][]wire.Tensor, len(items)), nil
}

func (slow) Close() error { return nil }

func TestShareOfACore(t *testing.T) {
	for size, least := range map[float64]time.Duration{0.5: 40 * time.Millisecond, 1: 20 * time.Millisecond, 2: 20 * time.Millisecond} {
		h := start(t, Options{})
		h.options.Pace = PaceShare
		d := h.find(fmt.Sprintf("/v2/models/f-cpu-%v", size))
		require.NotNil(t, d)
		d.idle, d.alive = []*instance{{Instance: slow{}}}, 1
		r := d.run(make([][]wire.Tensor, 1))
		require.Nil(t, r.err)
		assert.GreaterOrEqual(t, r.took, least)
	}
}

func TestPathsAreReadBackwards(t *testing.T) {
	p := problem()
	for _, template := range []string{
		"http://h/v2/models/{function}-{platform}-{size}", "http://h/{provider}/{platform}/{size}/{function}/",
		"http://h/{function}.{vcpu}.{gpu_memory}", "https://h:1/a+b/{function}{platform}{vcpu}x{gpu_memory}b{batch}",
	} {
		p.Provider.URL = template
		at, err := newPlace(p)
		require.NoError(t, err)
		for _, want := range []pipelines.FunctionSize{{Function: "f", Platform: "cpu", VCPU: 1.65}, {Function: "f", Platform: "gpu", GPUMemory: 24}} {
			url, err := p.Provider.CallURL(want)
			require.NoError(t, err)
			path := "/" + strings.SplitN(url, "/", 4)[3]
			got, ok := at.parse(strings.TrimSuffix(path, "/"))
			require.True(t, ok, path)
			assert.Equal(t, want, got, template)
		}
		_, ok := at.parse("/elsewhere")
		assert.False(t, ok)
	}
}

func ExampleHost() {
	h, err := New(Options{Problems: []functions.Problem{problem()}, ColdStart: -1, Steady: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer h.Close()
	s := httptest.NewServer(h)
	defer s.Close()
	resp, err := http.Post(s.URL+"/v2/models/f-cpu-1/infer", oip.ContentJSON, strings.NewReader(body(2)))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	answer, _ := io.ReadAll(resp.Body)
	r, _ := oip.DecodeResponse(answer, -1)
	fmt.Println(resp.StatusCode, r.Outputs[0].Shape)
	b := h.Bill()
	fmt.Printf("%d call, %d requests, %.2f\n", b.Invocations, b.Requests, b.Cost)
	// Output:
	// 200 [2 1]
	// 1 call, 2 requests, 0.60
}
