package grpcapi

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/executors/remote"
	"github.com/harpagon/harpagon/gateway"
	"github.com/harpagon/harpagon/gateway/httpapi"
	"github.com/harpagon/harpagon/gateway/metrics"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/listen"
	"github.com/harpagon/harpagon/wire/secure"
)

// Whoever sends requests with a token of a name is counted by that name, by either
// protocol.
func TestRequestsAreCountedByTheirTokens(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	text := ""
	for _, name := range []string{"alice", "bob"} {
		text += fmt.Sprintf("%s infer sha256:%x\n", name, sha256.Sum256([]byte("of "+name)))
	}
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	tokens, err := secure.LoadTokens(path)
	require.NoError(t, err)
	callers := secure.Credentials{Token: "of all", Tokens: tokens}.Guard()

	m := metrics.New()
	g := instant(t, gateway.Options{Observer: m.Observer()})
	l, err := listen.TCP("127.0.0.1:0", secure.Credentials{})
	require.NoError(t, err)
	ctx, quit := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() { over <- Serve(ctx, l, New(g, Options{Callers: callers})) }()
	defer func() {
		quit()
		require.NoError(t, <-over)
	}()
	web := httptest.NewServer(httpapi.New(g, httpapi.Options{Callers: callers}))
	defer web.Close()

	for token, requests := range map[string]int{"of alice": 3, "of bob": 1, "of all": 2} {
		t.Setenv("ITS_TOKEN", token)
		for _, address := range []string{"grpc://" + l.Addr().String(), web.URL} {
			in, err := remote.New(remote.Options{}).Load(t.Context(), executors.Model{
				Module:  pipelines.Module{Name: "there", Model: address + "/p?token_variable=ITS_TOKEN"},
				Batches: []int{requests}, MaxBatch: requests, Outputs: []string{"y"},
			})
			require.NoError(t, err)
			before := scrape(m)
			item := []wire.Tensor{wire.FromFloat32([]float32{1, 2}, 2)}
			var batch [][]wire.Tensor
			for range requests {
				batch = append(batch, item)
			}
			_, err = in.Run(t.Context(), batch)
			require.NoError(t, err)
			require.NoError(t, in.Close())
			require.NotEqual(t, before, scrape(m))
		}
	}
	require.Regexp(t, `harpagon_caller_requests_total\{caller="alice",outcome="completed",pipeline="p"\} [1-9]`, scrape(m))
	require.Regexp(t, `harpagon_caller_requests_total\{caller="bob",outcome="completed",pipeline="p"\} [1-9]`, scrape(m))
	require.Contains(t, scrape(m), `harpagon_caller_busy_seconds_total{caller="alice",pipeline="p"} `)
	require.NotContains(t, scrape(m), `caller=""`, "the shared token names no caller")
}

func scrape(m *metrics.Metrics) string {
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	return w.Body.String()
}
