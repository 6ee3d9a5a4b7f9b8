package serverless_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/examples/functions/provider"
	"github.com/harpagon/harpagon/executors/serverless"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/functions"
)

func cloud(at string) pipelines.Provider {
	return pipelines.Provider{
		Name: "cloud", VCPUSecond: 1e-5, VCPU: pipelines.Grid{Min: 1, Max: 4, Step: 1}, Manage: true, TokenVariable: "CLOUD_TOKEN",
		URL: at + "/v2/models/{function}-{platform}-{size}",
	}
}

func cpu(name string, vcpu float64) functions.Managed {
	return functions.Managed{
		Name: name, FunctionSize: pipelines.FunctionSize{Function: "f", Platform: "cpu", VCPU: vcpu, Batch: 1}, Concurrency: 4, Warm: 2,
	}
}

func hook(t *testing.T, p pipelines.Provider, token string) *serverless.Hook {
	h, err := serverless.NewHook(&p, serverless.HookOptions{Getenv: func(string) string { return token }})
	require.NoError(t, err)
	return h
}

// TestHook drives the provider on this machine over HTTP: functions are there when they
// have been created, and only then, and everything may be repeated.
func TestHook(t *testing.T) {
	var answers http.Handler
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { answers.ServeHTTP(w, r) }))
	defer s.Close()
	p := cloud(s.URL)
	f := pipelines.Function{
		Name: "f", Provider: "cloud", Applications: []pipelines.Application{{Name: "a", SLO: time.Second, Rate: 1}},
		Profile: pipelines.FunctionProfile{CPU: []pipelines.CPUCurves{{Batch: 1, Avg: pipelines.Curve{Alpha: 0.001, Beta: 1}, Max: pipelines.Curve{Alpha: 0.001, Beta: 1}}}},
	}
	host, err := provider.New(provider.Options{Problems: []functions.Problem{{Function: f, Provider: p}}, ColdStart: -1, Token: "secret"})
	require.NoError(t, err)
	defer host.Close()
	answers = host
	ctx := t.Context()
	status := func(name string) int {
		q, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+"/v2/models/"+name, nil)
		require.NoError(t, err)
		q.Header.Set("Authorization", "Bearer secret")
		r, err := http.DefaultClient.Do(q)
		require.NoError(t, err)
		require.NoError(t, r.Body.Close())
		return r.StatusCode
	}
	h := hook(t, p, "secret")
	assert.Equal(t, 404, status("f-cpu-1"))
	for range 2 {
		_, err = serverless.Ensure(ctx, h, "f", []functions.Managed{cpu("f-cpu-1", 1), cpu("f-cpu-2", 2)})
		require.NoError(t, err)
		assert.Equal(t, []int{200, 200}, []int{status("f-cpu-1"), status("f-cpu-2")})
		assert.Equal(t, 2, host.Bill().Items[0].Instances, "warm")
		assert.Zero(t, host.Bill().ColdStarts, "that no call met")
	}
	wide := cpu("f-cpu-2", 2)
	wide.Warm = 3
	did, err := serverless.Ensure(ctx, h, "f", []functions.Managed{wide})
	require.NoError(t, err)
	assert.Equal(t, "resize f-cpu-2, delete f-cpu-1", did.Describe())
	assert.Equal(t, []int{404, 200}, []int{status("f-cpu-1"), status("f-cpu-2")})
	require.NoError(t, h.Delete(ctx, "f-cpu-1"), "gone already")

	for what, m := range map[string]functions.Managed{
		"is not on offer": cpu("f-cpu-9", 9), "is called f-cpu-1, not other": cpu("other", 1),
	} {
		err = h.Create(ctx, m)
		require.ErrorIs(t, err, serverless.ErrRefused)
		assert.ErrorContains(t, err, what)
	}
	assert.ErrorIs(t, hook(t, p, "wrong").Create(ctx, wide), serverless.ErrRefused)
	_, err = serverless.NewHook(&p, serverless.HookOptions{Getenv: func(string) string { return "" }})
	assert.ErrorContains(t, err, "CLOUD_TOKEN")
}

// TestHookGoesWhereItIsAllowedTo: the token of a declaration is sent nowhere else.
func TestHookGoesWhereItIsAllowedTo(t *testing.T) {
	secret := func(string) string { return "secret" }
	for at, want := range map[string]string{"": "cloud.internal", "https://elsewhere:8443/make": "elsewhere:8443"} {
		p := cloud("http://cloud.internal")
		p.ManageURL = at
		_, err := serverless.NewHook(&p, serverless.HookOptions{Getenv: secret, Allow: []string{"other"}})
		require.ErrorIs(t, err, serverless.ErrRefused)
		assert.ErrorContains(t, err, "--allow-address "+want+" ")
		for _, allow := range [][]string{nil, {"other", want}} {
			_, err = serverless.NewHook(&p, serverless.HookOptions{Getenv: secret, Allow: allow})
			assert.NoError(t, err)
		}
	}
}

// TestHookOfACloud: one that takes its time, fails, lists strangers, and answers oddly.
func TestHookOfACloud(t *testing.T) {
	polls, list, status := 0, []serverless.Function{}, 202
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Method {
		case http.MethodGet:
			polls++
			if polls > 2 && len(list) > 0 && list[0].State == serverless.Pending {
				list[0].State = serverless.Ready
			}
			_ = json.NewEncoder(w).Encode(serverless.List{Functions: append([]serverless.Function{{Name: "stranger", Function: "other"}}, list...)})
		case http.MethodPut:
			var f serverless.Function
			_ = json.NewDecoder(r.Body).Decode(&f)
			f.State = serverless.Pending
			if status == 201 {
				f.State, f.Reason = serverless.Failed, "no capacity in this region"
			}
			list = []serverless.Function{f}
			w.WriteHeader(status)
			if status >= 400 {
				_, _ = w.Write([]byte(`{"error":"over quota"}`))
			}
		case http.MethodDelete:
			assert.NotContains(t, r.URL.Path, "stranger", "what belongs to others is left alone")
			list = nil
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer s.Close()
	p := cloud("http://127.0.0.1:1")
	p.ManageURL = s.URL + "/hook/"
	h := hook(t, p, "secret")
	want := []functions.Managed{cpu("f-cpu-1", 1)}
	_, err := serverless.Ensure(t.Context(), h, "f", want)
	require.NoError(t, err)
	assert.Greater(t, polls, 2, "it waited")

	_, err = serverless.Ensure(t.Context(), h, "f", nil)
	require.NoError(t, err)
	status = 201
	_, err = serverless.Ensure(t.Context(), h, "f", want)
	require.ErrorIs(t, err, serverless.ErrRefused)
	assert.ErrorContains(t, err, "no capacity in this region")
	status = 409
	_, err = serverless.Ensure(t.Context(), h, "f", want)
	require.ErrorIs(t, err, serverless.ErrRefused, "what had failed was deleted and created again")
	assert.ErrorContains(t, err, "over quota")
	status = 503
	assert.NotErrorIs(t, h.Create(t.Context(), want[0]), serverless.ErrRefused, "it may work next time")

	slow, cancel := context.WithTimeout(t.Context(), 700*time.Millisecond)
	defer cancel()
	status, polls, list = 202, -1000, nil
	_, err = serverless.Ensure(slow, h, "f", want)
	assert.ErrorContains(t, err, "f-cpu-1 is not ready in time")
}
