package metrics

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/gateway"
	"github.com/harpagon/harpagon/wire"
)

func TestMetricsShowWhatIsReported(t *testing.T) {
	m := New()
	o := m.Observer()
	o.Attached(gateway.ExecutorInfo{Pipeline: "p", Module: "m"})
	o.Installed(gateway.InstallInfo{Pipeline: "p", Generation: 2, Policies: map[string]string{"m": "tc"}})
	o.Installed(gateway.InstallInfo{Pipeline: "p", Generation: 3, Policies: map[string]string{"m": "adaptive"}})
	o.Dropped(gateway.DropInfo{Pipeline: "p", Module: "m", Reason: "late"})
	o.Exceeded(gateway.ExceedInfo{Pipeline: "p", Module: "m", Items: 9, Most: 8})
	o.RequestBegin(gateway.RequestInfo{Pipeline: "p"})
	o.RequestBegin(gateway.RequestInfo{Pipeline: "p"})
	o.RequestEnd(gateway.RequestInfo{Pipeline: "p", Caller: "alice", Outcome: gateway.Completed, Elapsed: time.Millisecond, Stages: []wire.Stage{
		{Module: "m", Items: 1, Batch: 4, Compute: time.Millisecond}, {Module: "none"},
	}})
	o.RequestEnd(gateway.RequestInfo{Pipeline: "p", Outcome: gateway.Refused, Unaccepted: true, Err: &wire.Error{Code: wire.CodeInvalid}})
	o.RequestBegin(gateway.RequestInfo{Pipeline: "p"}) // and a dispatcher refuses it
	o.RequestEnd(gateway.RequestInfo{Pipeline: "p", Outcome: gateway.Refused, Err: &wire.Error{Code: wire.CodeOverloaded}})
	o.BatchEnd(gateway.BatchInfo{Pipeline: "p", Module: "m", Size: 4, Compute: time.Millisecond})
	o.BatchEnd(gateway.BatchInfo{Pipeline: "p", Module: "m", Err: &wire.Error{Code: wire.CodeUnavailable}})
	o.CallEnd(gateway.CallInfo{Function: "f", Group: "2 GB GPU", Ran: true, Cold: true, Again: 1, Billed: 2 * time.Second, Cost: 0.5})
	o.CallEnd(gateway.CallInfo{Function: "f", Group: "2 GB GPU", Kind: "throttled"})
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	body := w.Body.String()
	for _, line := range []string{
		`harpagon_requests_total{outcome="completed",pipeline="p"} 1`,
		`harpagon_requests_total{outcome="refused",pipeline="p"} 2`,
		`harpagon_requests_in_flight{pipeline="p"} 1`,
		`harpagon_requests_accepted_total{pipeline="p"} 3`,
		`harpagon_requests_ended_total{pipeline="p"} 2`,
		`harpagon_request_duration_seconds_count{pipeline="p"} 1`,
		`harpagon_stage_duration_seconds_sum{module="m",part="compute",pipeline="p"} 0.001`,
		`harpagon_batch_size_sum{module="m",pipeline="p"} 4`,
		`harpagon_batches_failed_total{code="unavailable",module="m",pipeline="p"} 1`,
		`harpagon_executors{module="m",pipeline="p"} 1`,
		`harpagon_generation{pipeline="p"} 3`,
		`harpagon_module_drops_total{module="m",pipeline="p",reason="late"} 1`,
		`harpagon_module_exceeded_total{module="m",pipeline="p"} 1`,
		`harpagon_dispatch_policy{module="m",pipeline="p",policy="adaptive"} 1`,
		`harpagon_function_calls_total{function="f",group="2 GB GPU",result="answered"} 1`,
		`harpagon_function_calls_total{function="f",group="2 GB GPU",result="throttled"} 1`,
		`harpagon_function_cold_starts_total{function="f",group="2 GB GPU"} 1`,
		`harpagon_function_retries_total{function="f",group="2 GB GPU"} 1`,
		`harpagon_function_billed_seconds_total{function="f",group="2 GB GPU"} 2`,
		`harpagon_function_cost_total{function="f",group="2 GB GPU"} 0.5`,
		`harpagon_caller_requests_total{caller="alice",outcome="completed",pipeline="p"} 1`,
		`harpagon_caller_busy_seconds_total{caller="alice",pipeline="p"} 0.00025`,
		"go_goroutines",
	} {
		require.Contains(t, body, line)
	}
	require.NotContains(t, body, `module="none"`)
	require.NotContains(t, body, `policy="tc"`, "it has been replaced")
}

// TestGenerationsLeaveNoSeries: there are as many series after a hundred generations as
// after one, whatever their policies and executors are called.
func TestGenerationsLeaveNoSeries(t *testing.T) {
	m := New()
	o := m.Observer()
	series := func(generation int) (n int) {
		policy := fmt.Sprint("policy-", generation)
		executor := gateway.ExecutorInfo{Pipeline: "p", Module: "m", Executor: fmt.Sprint("m/", generation)}
		o.Attached(executor)
		o.Installed(gateway.InstallInfo{Pipeline: "p", Generation: generation, Policies: map[string]string{"m": policy}})
		o.RequestBegin(gateway.RequestInfo{Pipeline: "p", Generation: generation})
		o.RequestEnd(gateway.RequestInfo{Pipeline: "p", Generation: generation, Outcome: gateway.Completed, Stages: []wire.Stage{{Module: "m", Items: 1}}})
		o.BatchEnd(gateway.BatchInfo{Pipeline: "p", Module: "m", Executor: executor.Executor, Size: 4})
		o.Detached(executor)
		families, err := m.Registry().Gather()
		require.NoError(t, err)
		for _, f := range families {
			if strings.HasPrefix(f.GetName(), "harpagon_") {
				n += len(f.GetMetric())
			}
		}
		return n
	}
	first := series(1)
	for generation := 2; generation <= 100; generation++ {
		require.Equal(t, first, series(generation), generation)
	}
}

// TestWhatIsGoneLeavesNoSeries: a service that was taken down, or a module that was renamed,
// has no series once what was under way has ended.
func TestWhatIsGoneLeavesNoSeries(t *testing.T) {
	m := New()
	served := map[string][]string{"p": {"m"}, "f": nil, "f/app": nil}
	m.Keep(func() map[string][]string { return served })
	o := m.Observer()
	read := func() string {
		w := httptest.NewRecorder()
		m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		return w.Body.String()
	}
	o.Attached(gateway.ExecutorInfo{Pipeline: "p", Module: "m"})
	o.Installed(gateway.InstallInfo{Pipeline: "p", Generation: 1, Policies: map[string]string{"m": "tc"}})
	o.RequestBegin(gateway.RequestInfo{Pipeline: "p"})
	o.BatchEnd(gateway.BatchInfo{Pipeline: "p", Module: "m", Size: 4})
	o.Dropped(gateway.DropInfo{Pipeline: "p", Module: "m", Reason: "late"})
	o.CallEnd(gateway.CallInfo{Function: "f", Group: "g", Ran: true})
	require.Contains(t, read(), `harpagon_batch_size_sum{module="m",pipeline="p"} 4`)

	served["p"] = []string{"n"}
	o.Installed(gateway.InstallInfo{Pipeline: "p", Generation: 2, Policies: map[string]string{"n": "tc"}})
	o.Attached(gateway.ExecutorInfo{Pipeline: "p", Module: "n"})
	require.Contains(t, read(), `harpagon_executors{module="m",pipeline="p"} 1`, "it is attached still")
	o.Detached(gateway.ExecutorInfo{Pipeline: "p", Module: "m"})
	require.NotContains(t, read(), `module="m"`)
	require.Contains(t, read(), `harpagon_executors{module="n",pipeline="p"} 1`)

	delete(served, "p")
	require.Contains(t, read(), `harpagon_requests_in_flight{pipeline="p"} 1`, "it is under way still")
	o.RequestEnd(gateway.RequestInfo{Pipeline: "p", Caller: "alice", Outcome: gateway.Completed, Stages: []wire.Stage{{Module: "n", Items: 1}}})
	o.Detached(gateway.ExecutorInfo{Pipeline: "p", Module: "n"})
	require.NotContains(t, read(), `pipeline="p"`)
	require.Contains(t, read(), `function="f"`)
	clear(served)
	require.NotContains(t, read(), `function="f"`)
	o.Attached(gateway.ExecutorInfo{Pipeline: "p", Module: "m"}) // it has come again
	o.Detached(gateway.ExecutorInfo{Pipeline: "p", Module: "m"})
	served["p"] = []string{"m"}
	require.Contains(t, read(), `harpagon_executors{module="m",pipeline="p"} 0`, "what is served and lacks executors is an alarm")
}
