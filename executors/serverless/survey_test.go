package serverless_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/examples/functions/provider"
	"github.com/harpagon/harpagon/executors/serverless"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/functions"
)

// known is a function whose model is known: 2 to 6 ms on a CPU, 4 ms and half a
// millisecond a request on a GPU of 8 GB, in slices of half a millisecond.
func known() functions.Problem {
	curve := pipelines.Curve{Alpha: 0.004, Beta: 1.5, Gamma: 0.002}
	return functions.Problem{
		Provider: pipelines.Provider{
			Name: "cloud", VCPUSecond: 1, GPUGBSecond: 1, Invocation: 0.5, GPUSlice: 500 * time.Microsecond,
			VCPU: pipelines.Grid{Min: 0.5, Max: 4, Step: 0.5}, GPUMemory: pipelines.Grid{Min: 2, Max: 8, Step: 2},
		},
		Function: pipelines.Function{
			Name: "f", Provider: "cloud", Inputs: []pipelines.Port{{Name: "x", Datatype: "FP32", Shape: []int64{2}}},
			Profile: pipelines.FunctionProfile{
				CPU: []pipelines.CPUCurves{{Batch: 1, Avg: curve, Max: curve}, {Batch: 2, Avg: curve, Max: curve}},
				GPU: &pipelines.GPULine{Xi1: 0.0005, Xi2: 0.004, WholeGB: 8, MaxBatch: 8, Thresholds: []int{4, 4, 4}},
			},
			Applications: []pipelines.Application{{Name: "a", SLO: time.Second, Rate: 1}},
		},
	}
}

// serveSurvey runs a provider and puts its address into the problem.
func serveSurvey(t *testing.T, p *functions.Problem, around func(http.Handler) http.Handler) *provider.Host {
	var handler http.Handler = http.NotFoundHandler()
	var mu sync.Mutex
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		h := handler
		mu.Unlock()
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	p.Provider.URL = s.URL + "/v2/models/{function}-{platform}-{size}"
	host, err := provider.New(provider.Options{Problems: []functions.Problem{*p}, Steady: true, ColdStart: 3 * time.Millisecond})
	require.NoError(t, err)
	t.Cleanup(func() { _ = host.Close() })
	mu.Lock()
	defer mu.Unlock()
	if handler = host; around != nil {
		handler = around(host)
	}
	return host
}

func TestModelIsFoundByCalls(t *testing.T) {
	p := known()
	serveSurvey(t, &p, nil)
	asked := p
	asked.Function.Profile = pipelines.FunctionProfile{} // it is what is looked for
	i := serverless.NewInvoker(serverless.InvokerOptions{})
	defer i.Close()
	var lines []string
	got, err := serverless.Survey(t.Context(), i, asked, serverless.SurveyOptions{Calls: 2, Report: func(line string) { lines = append(lines, line) }})
	require.NoError(t, err)
	assert.False(t, got.Estimated)
	assert.NotEmpty(t, got.Way)
	assert.NotEmpty(t, got.Starts)
	assert.Greater(t, got.Cost, 0.5*float64(len(got.Samples)), "each call has its price")
	for _, f := range got.Refused { // batches that the provider does not run
		assert.Contains(t, f.Reason, fmt.Sprintf("a batch of %d does not fit function", f.Offer.Batch))
	}
	thresholds, most := got.Holds()
	assert.Equal(t, []int{0, 4, 4}, thresholds)
	assert.Equal(t, 8, most)
	assert.Contains(t, strings.Join(lines, "\n"), "8 GB GPU, batch 8: ")

	profile, _, err := functions.Fit(got.Samples, 0)
	require.NoError(t, err)
	require.Len(t, profile.CPU, 2)
	for _, c := range profile.CPU {
		for _, vcpu := range []float64{0.5, 1, 4} {
			assert.InEpsilon(t, p.Function.Profile.CPU[0].Avg.At(vcpu), c.Avg.At(vcpu), 1e-3)
		}
	}
	assert.InEpsilon(t, 0.0005, profile.GPU.Xi1, 1e-3)
	assert.InEpsilon(t, 0.004, profile.GPU.Xi2, 1e-3)
	assert.Equal(t, 8.0, profile.GPU.WholeGB)
}

func TestAManagedProviderKeepsWhatItHad(t *testing.T) {
	p := known()
	p.Provider.Manage = true
	serveSurvey(t, &p, nil)
	hook, err := serverless.NewHook(&p.Provider, serverless.HookOptions{})
	require.NoError(t, err)
	had := functions.Managed{Name: "f-gpu-4", FunctionSize: pipelines.FunctionSize{Function: "f", Platform: "gpu", GPUMemory: 4, Batch: 2}, Concurrency: 3, Warm: 1}
	require.NoError(t, hook.Create(t.Context(), had))
	left := func() []functions.Managed {
		var all []functions.Managed
		has, err := hook.Describe(context.Background(), "f")
		require.NoError(t, err)
		for _, d := range has {
			all = append(all, d.Managed)
		}
		return all
	}
	i := serverless.NewInvoker(serverless.InvokerOptions{})
	defer i.Close()
	got, err := serverless.Survey(t.Context(), i, p, serverless.SurveyOptions{Calls: 1, Provisioner: hook})
	require.NoError(t, err)
	assert.NotEmpty(t, got.Samples)
	assert.Equal(t, []functions.Managed{had}, left())

	ctx, cancel := context.WithCancel(t.Context())
	calls := 0
	_, err = serverless.Survey(ctx, i, p, serverless.SurveyOptions{Calls: 1, Provisioner: hook, Report: func(string) {
		if calls++; calls == 4 {
			cancel()
		}
	}})
	require.ErrorIs(t, err, context.Canceled)
	assert.Equal(t, []functions.Managed{had}, left(), "also when it is interrupted")
}

func TestWhatGoesWrongIsInTheResult(t *testing.T) {
	p := known()
	serveSurvey(t, &p, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.Contains(r.URL.Path, "gpu") {
				http.Error(w, `{"error":"out of memory"}`, http.StatusInternalServerError)
				return
			}
			next.ServeHTTP(w, r)
		})
	})
	i := serverless.NewInvoker(serverless.InvokerOptions{})
	defer i.Close()
	got, err := serverless.Survey(t.Context(), i, p, serverless.SurveyOptions{Calls: 1})
	require.NoError(t, err)
	var gpu []serverless.SurveyRefusal
	for _, f := range got.Refused {
		if f.Offer.Platform == functions.GPU {
			gpu = append(gpu, f)
		}
	}
	require.Len(t, gpu, 3, "one a size: larger batches are not tried: %v", fmt.Sprint(got.Refused))
	assert.Contains(t, gpu[0].Reason, "out of memory")
	assert.NotEmpty(t, got.Samples)
}

func TestInputsOfAFunctionAreUnknown(t *testing.T) {
	p := known()
	p.Function.Inputs = nil
	p.Provider.URL = "http://127.0.0.1:1/{size}"
	i := serverless.NewInvoker(serverless.InvokerOptions{})
	defer i.Close()
	_, err := serverless.Survey(t.Context(), i, p, serverless.SurveyOptions{Calls: 1})
	require.ErrorContains(t, err, "add an input block")
}
