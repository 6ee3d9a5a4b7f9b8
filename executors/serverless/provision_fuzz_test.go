package serverless_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/executors/serverless"
	"github.com/harpagon/harpagon/internal/testkit"
)

// canned answers every request alike.
type canned struct {
	status int
	body   string
}

func (s canned) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: s.status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(s.body)), Request: r}, nil
}

// FuzzDescribe has a cloud answer anything: what is read are functions of the requested name,
// and no text of them contains the token.
func FuzzDescribe(f *testing.F) {
	f.Add(200, `{"functions":[{"name":"f-cpu-1","function":"f","platform":"cpu","vcpu":1,"concurrency":4,"warm":2,"state":"failed","reason":"secret"}]}`)
	f.Add(200, `{"functions":[{"name":"a","function":"g"},{"function":"f","batch":1e3,"warm":-1,"gpu_memory_gb":1e300}]}`)
	f.Add(404, `{"error":"secret"}`)
	f.Add(503, `<html>`)
	f.Fuzz(func(t *testing.T, status int, body string) {
		defer testkit.WatchStalls(t, len(body))()
		p := cloud("http://cloud.internal")
		h, err := serverless.NewHook(&p, serverless.HookOptions{Client: &http.Client{Transport: canned{status, body}}, Getenv: func(string) string { return "secret" }})
		require.NoError(t, err)
		all, err := h.Describe(t.Context(), "f")
		for _, d := range all {
			require.Equal(t, "f", d.Function)
			require.NotContains(t, d.Reason, "secret")
			require.NotEmpty(t, d.State)
		}
		if err != nil {
			require.Empty(t, all)
			require.NotContains(t, err.Error(), "secret")
		}
		if err = h.Create(t.Context(), cpu("f-cpu-1", 1)); err != nil {
			require.NotContains(t, err.Error(), "secret")
		}
	})
}
