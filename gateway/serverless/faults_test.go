package serverless

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/executors/provider"
	"github.com/harpagon/harpagon/gateway"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/dispatch/grouped"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/oip"
)

// fake is a provider whose calls a test answers. It does not describe its
// functions.
func fake(t testing.TB, infer http.HandlerFunc) string {
	return listen(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			http.NotFound(w, r)
			return
		}
		infer(w, r)
	}))
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
func crowd(s *Server, n int) map[wire.Code]int {
	var mu sync.Mutex
	var wg sync.WaitGroup
	codes := map[wire.Code]int{}
	for i := range n {
		wg.Go(func() {
			_, err := s.Infer(context.Background(), ask([]string{"hasty", "calm"}[i%2], float32(i), 0))
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
func everyOneEnded(t *testing.T, s *Server, n int64) {
	t.Helper()
	sum := int64(0)
	for _, k := range s.Totals("net") {
		sum += k
	}
	assert.Equal(t, n, sum)
	requests, ended := int64(0), int64(0)
	for _, a := range s.Measures("net").Applications {
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
			at := fake(t, c.infer)
			s := serve(t, Options{}, deploy(t, at, 1, patient, func(_ *pipelines.Function, p *pipelines.Provider) { p.Timeout = 300 * time.Millisecond }))
			codes := crowd(s, n)
			everyOneEnded(t, s, n)
			total := s.Measures("net").Total()
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
	}
}

func TestUnreachableProvider(t *testing.T) {
	d := deploy(t, "http://127.0.0.1:1", 1, patient)
	s := New(Options{})
	defer s.Close()
	err := s.Prepare(t.Context(), d)
	require.ErrorContains(t, err, "cannot be reached")
	require.NoError(t, s.Install(t.Context(), d), "what served goes on when a gateway starts anew")
	_, err = s.Infer(t.Context(), ask("calm", 1, 2))
	require.ErrorIs(t, err, wire.ErrUnavailable)
	m, err := s.Metadata(t.Context(), "net")
	require.NoError(t, err)
	assert.False(t, m.Ready)
	assert.Contains(t, m.Reason, "cannot be reached")
	total := s.Measures("net").Total()
	assert.EqualValues(t, 2, total.Retries, "three attempts")
	assert.Zero(t, total.Calls)
	everyOneEnded(t, s, 1)
}

func TestRequestsLeaveAtTheirTimeouts(t *testing.T) {
	_, at := host(t, provider.Options{ColdStart: -1, Steady: true})
	d := deploy(t, at, 1)
	s := serve(t, Options{}, d)
	require.Len(t, d.Plan.Groups, 1)
	r, err := s.Infer(t.Context(), ask("hasty", 1, 2))
	require.NoError(t, err)
	share := d.Plan.Groups[0].Applications[0]
	require.Equal(t, "hasty", share.Name)
	st := r.Stages[0]
	assert.GreaterOrEqual(t, st.Wait, share.Timeout-2*DefaultMargin)
	assert.Equal(t, 1, st.Batch)
	assert.Equal(t, "2 GB GPU", st.Module)
}

func TestCallersWhoLeave(t *testing.T) {
	release := make(chan struct{})
	at := fake(t, func(w http.ResponseWriter, r *http.Request) { <-release; good(w, r) })
	s := serve(t, Options{}, deploy(t, at, 1, patient))
	var wg sync.WaitGroup
	// One leaves while he waits: no call is made for him.
	f := s.function("net")
	f.mu.Lock()
	f.policy = grouped.New(f.current.deployment.Plan.Dispatch()) // without a door
	f.mu.Unlock()
	ctx, cancel := context.WithCancel(t.Context())
	wg.Go(func() {
		_, err := s.Infer(ctx, ask("calm", 1, 2))
		assert.ErrorIs(t, err, wire.ErrCanceled)
	})
	require.Eventually(t, func() bool { return s.Measures("net").Applications[1].InFlight == 1 }, 10*time.Second, time.Millisecond)
	cancel()
	wg.Wait()
	f.install(f.current)
	// A full batch goes out, and its callers leave while it runs.
	ctx, cancel = context.WithCancel(t.Context())
	n := s.function("net").current.deployment.Plan.Groups[0].Batch
	for range n {
		wg.Go(func() {
			_, err := s.Infer(ctx, ask("calm", 1, 2))
			assert.ErrorIs(t, err, wire.ErrCanceled)
		})
	}
	require.Eventually(t, func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.running > 0 && len(f.waiting) == 0
	}, 10*time.Second, time.Millisecond)
	cancel()
	wg.Wait()
	close(release)
	require.Eventually(t, func() bool { return s.Measures("net").Total().Requests == int64(n) }, 10*time.Second, time.Millisecond, "and is counted when it ends")
	everyOneEnded(t, s, int64(n)+1)
	assert.EqualValues(t, n+1, s.Totals("net")[gateway.Cancelled])
}

func TestDeadlines(t *testing.T) {
	_, at := host(t, provider.Options{ColdStart: -1, Steady: true})
	s := serve(t, Options{}, deploy(t, at, 1))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond) // less than a batch takes
	defer cancel()
	begin := time.Now()
	_, err := s.Infer(ctx, ask("calm", 1, 2))
	require.ErrorIs(t, err, wire.ErrDeadline)
	assert.Less(t, time.Since(begin), time.Second)
	var e *wire.Error
	require.ErrorAs(t, err, &e)
	assert.LessOrEqual(t, e.Budget, 20*time.Millisecond)
	everyOneEnded(t, s, 1)
	assert.Zero(t, s.Measures("net").Total().Calls, "no call was made for it")
}

// TestLimit lets one call run at a time.
func TestLimit(t *testing.T) {
	var now, most atomic.Int64
	at := fake(t, func(w http.ResponseWriter, r *http.Request) {
		n := now.Add(1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		time.Sleep(20 * time.Millisecond)
		good(w, r)
		now.Add(-1)
	})
	s := serve(t, Options{}, deploy(t, at, 1, patient, func(_ *pipelines.Function, p *pipelines.Provider) { p.Concurrency = 1 }))
	assert.Equal(t, map[wire.Code]int{"": 60}, crowd(s, 60))
	assert.EqualValues(t, 1, most.Load())
	everyOneEnded(t, s, 60)
}

func TestWrongRequests(t *testing.T) {
	_, at := host(t, provider.Options{})
	s := serve(t, Options{MaxInFlight: 1}, deploy(t, at, 1))
	for want, q := range map[string]*wire.InferRequest{
		`function "nobody" is not served`:            {Pipeline: "nobody/x"},
		"ask as one of net/hasty, net/calm":          {Pipeline: "net"},
		`has no application "idle"; there is net/ha`: {Pipeline: "net/idle"},
		`input "x" is missing`:                       {Pipeline: "net/calm"},
		"has shape [3] where [2]":                    {Pipeline: "net/calm", Inputs: []wire.NamedTensor{{Name: "x", Tensor: wire.FromFloat32([]float32{1, 2, 3}, 3)}}},
	} {
		_, err := s.Infer(t.Context(), q)
		assert.ErrorContains(t, err, want)
	}
	everyOneEnded(t, s, 0) // they are no load
	q := ask("calm", 1, 2)
	q.Outputs = []string{"nothing"}
	_, err := s.Infer(t.Context(), q)
	assert.ErrorContains(t, err, `no output "nothing"`)
	codes := crowd(s, 5)
	assert.Equal(t, 4, codes[wire.CodeOverloaded])
}

// TestRequestsThatDoNotFitTogether go in calls of their own where nobody knows
// what the function takes.
func TestRequestsThatDoNotFitTogether(t *testing.T) {
	at := fake(t, good)
	s := serve(t, Options{}, deploy(t, at, 1, patient, func(f *pipelines.Function, _ *pipelines.Provider) { f.Inputs = nil }))
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			q := ask("hasty", 1, 2)
			if i%2 == 0 {
				q.Inputs[0].Tensor = wire.FromFloat32([]float32{1, 2, 3}, 3)
			}
			_, err := s.Infer(t.Context(), q)
			assert.NoError(t, err)
		})
	}
	wg.Wait()
	total := s.Measures("net").Total()
	assert.GreaterOrEqual(t, total.Calls, int64(2))
	everyOneEnded(t, s, 8)
	_, err := s.Infer(t.Context(), &wire.InferRequest{Pipeline: "net/calm"})
	assert.ErrorContains(t, err, "no inputs")
}

// TestInstallMovesWhatWaits changes plans under load: nothing is lost.
func TestInstallMovesWhatWaits(t *testing.T) {
	_, at := host(t, provider.Options{ColdStart: -1})
	s := serve(t, Options{}, deploy(t, at, 1, patient))
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
				_, err := s.Infer(context.Background(), ask([]string{"hasty", "calm"}[i%2], 1, 2))
				assert.NoError(t, err)
			}
		})
	}
	for g := 2; g < 8; g++ {
		time.Sleep(30 * time.Millisecond)
		require.NoError(t, s.Install(t.Context(), deploy(t, at, g, patient, func(f *pipelines.Function, _ *pipelines.Provider) {
			f.Applications[0].Rate = float64(10 * g)
			if g%2 == 0 {
				f.Applications[0], f.Applications[1] = f.Applications[1], f.Applications[0]
			}
		})))
	}
	close(stop)
	wg.Wait()
	sum := int64(0)
	for _, n := range s.Totals("net") {
		sum += n
	}
	assert.Equal(t, sent.Load(), sum)
	assert.Error(t, s.Install(t.Context(), deploy(t, at, 3)), "an older generation")
	require.NoError(t, s.Install(t.Context(), deploy(t, at, 7)), "the same generation")
}

func TestApplicationsThatGo(t *testing.T) {
	_, at := host(t, provider.Options{ColdStart: -1})
	waiting := deploy(t, at, 1, patient)
	waiting.Plan.Groups[0].Applications[1].Timeout = 5 * time.Second
	s := serve(t, Options{}, waiting)
	done := make(chan error, 1)
	go func() {
		_, err := s.Infer(context.Background(), ask("calm", 1, 2))
		done <- err
	}()
	require.Eventually(t, func() bool { return s.Measures("net").Applications[1].InFlight == 1 }, 10*time.Second, time.Millisecond)
	require.NoError(t, s.Install(t.Context(), deploy(t, at, 2, patient, func(f *pipelines.Function, _ *pipelines.Provider) { f.Applications = f.Applications[:1] })))
	assert.ErrorContains(t, <-done, "not served any more")
	r, err := s.Infer(t.Context(), &wire.InferRequest{Pipeline: "net", Inputs: ask("", 1, 2).Inputs})
	require.NoError(t, err, "the only application needs no name")
	assert.Equal(t, 2, r.Generation)
	names, _ := s.Pipelines(t.Context())
	assert.Equal(t, []string{"net/hasty"}, names)
}

// TestNothingIsLeftBehind closes a server under load, with calls that never
// end by themselves.
func TestNothingIsLeftBehind(t *testing.T) {
	before := runtime.NumGoroutine()
	at := fake(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	})
	for range 20 {
		s := New(Options{})
		require.NoError(t, s.Install(t.Context(), deploy(t, at, 1, patient)))
		done := make(chan map[wire.Code]int)
		go func() { done <- crowd(s, 20) }()
		require.Eventually(t, func() bool { return s.Measures("net").Applications[1].Requests == 10 }, 10*time.Second, time.Millisecond)
		s.Close()
		assert.Equal(t, map[wire.Code]int{wire.CodeUnavailable: 20}, <-done)
		_, err := s.Infer(t.Context(), ask("calm", 1, 2))
		assert.ErrorIs(t, err, wire.ErrUnavailable)
	}
	require.Eventually(t, func() bool { return runtime.NumGoroutine() <= before+5 }, 20*time.Second, 10*time.Millisecond,
		"%d goroutines before, %d after", before, runtime.NumGoroutine())
}

func TestRemoveWaits(t *testing.T) {
	release := make(chan struct{})
	at := fake(t, func(w http.ResponseWriter, r *http.Request) { <-release; good(w, r) })
	s := serve(t, Options{}, deploy(t, at, 1, patient))
	done := make(chan error, 1)
	go func() {
		_, err := s.Infer(context.Background(), ask("hasty", 1, 2))
		done <- err
	}()
	require.Eventually(t, func() bool { return s.Measures("net").Applications[0].InFlight == 1 }, 10*time.Second, time.Millisecond)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	require.ErrorContains(t, s.Remove(ctx, "net"), "still under way")
	assert.False(t, s.Serves("net/hasty"))
	close(release)
	require.NoError(t, <-done)
	require.NoError(t, s.Remove(t.Context(), "net"))
}

func TestMeasuresTravel(t *testing.T) {
	_, at := host(t, provider.Options{})
	d := deploy(t, at, 3)
	s := serve(t, Options{}, d)
	_, err := s.Infer(t.Context(), ask("calm", 1, 2))
	require.NoError(t, err)
	raw, err := json.Marshal(d)
	require.NoError(t, err)
	again := d
	require.NoError(t, json.Unmarshal(raw, &again))
	assert.Equal(t, fmt.Sprint(d.Plan.Dispatch()), fmt.Sprint(again.Plan.Dispatch()), "a deployment survives JSON")
	assert.Equal(t, d.Function, again.Function)
	assert.Equal(t, d.Provider, again.Provider)
	m := s.Measures("net")
	assert.Equal(t, 3, m.Generation)
	assert.EqualValues(t, 1, m.Total().ColdStarts)
	assert.Contains(t, m.Describe(d.Plan), "2 GB GPU")
	assert.Equal(t, "nobody", s.Measures("nobody").Function)
}
