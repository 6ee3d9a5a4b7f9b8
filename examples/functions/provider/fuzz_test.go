package provider

import (
	"bufio"
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/executors/serverless"
	"github.com/harpagon/harpagon/internal/testkit"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/functions"
)

// FuzzHost sends any bytes that make a request of HTTP to a host that also creates
// functions on request: each gets an answer, and no more instances start than there may be.
func FuzzHost(f *testing.F) {
	at := func(method, path, body string) []byte {
		return fmt.Appendf(nil, "%s %s HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n%s", method, path, len(body), body)
	}
	f.Add(at("PUT", "/functions/f-cpu-1", `{"name":"f-cpu-1","function":"f","platform":"cpu","vcpu":1,"batch":1,"concurrency":1000000000,"warm":1000000000}`))
	f.Add(at("PUT", "/functions/f-gpu-2", `{"name":"f-gpu-2","function":"f","platform":"gpu","gpu_memory_gb":2,"concurrency":-1}`))
	f.Add(at("POST", "/v2/models/f-cpu-1/infer", body(1)))
	f.Add(at("DELETE", "/functions/f-cpu-1", ""))
	for _, path := range []string{"/functions?function=f", "/v2/models/f-cpu-1/ready", "/v2/models/f-gpu-0.5", "/billing", "/v2/models/f-cpu-%00"} {
		f.Add(at("GET", path, ""))
	}
	p := problem()
	p.Provider.Manage = true
	f.Fuzz(func(t *testing.T, raw []byte) {
		defer testkit.WatchStalls(t, len(raw))()
		r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(raw)))
		if err != nil {
			return
		}
		h, err := New(Options{Problems: []functions.Problem{p}, ColdStart: -1, Steady: true})
		require.NoError(t, err)
		defer h.Close()
		require.NoError(t, h.Create(t.Context(), functions.Managed{Name: "f-cpu-1", FunctionSize: pipelines.FunctionSize{Function: "f", Platform: "cpu", VCPU: 1, Batch: 1}, Concurrency: 1}))
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r.WithContext(t.Context()))
		require.GreaterOrEqual(t, w.Code, 200)
		require.NotEqual(t, http.StatusInternalServerError, w.Code, "%s", w.Body)
		all, err := h.Describe(t.Context(), "f")
		require.NoError(t, err)
		for _, d := range all {
			require.Equal(t, serverless.Ready, d.State)
		}
		for _, item := range h.Bill().Items {
			require.LessOrEqual(t, item.Instances, p.Provider.Concurrency)
		}
	})
}
