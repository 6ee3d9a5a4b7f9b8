package httpapi

import (
	"context"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/listen"
	"github.com/harpagon/harpagon/wire/secure"
)

const patience = 2 * time.Second

// TestRequestsTellWhenTheyCame sends several requests over one connection.
func TestRequestsTellWhenTheyCame(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the system does not report arrival times")
	}
	arrived, crowded := make(chan time.Time, 1), make(chan time.Time, 1)
	b := &backend{infer: func(_ context.Context, q *wire.InferRequest) (*wire.InferResponse, error) {
		arrived <- q.Arrived
		return &wire.InferResponse{Pipeline: q.Pipeline}, nil
	}}
	h := New(b, Options{RejectEarly: func(_ context.Context, _ string, came time.Time) *wire.Error {
		crowded <- came
		return nil
	}})
	l, err := listen.HTTP("127.0.0.1:0", secure.Credentials{}, 0)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, l, h) }()
	for known, begin := 0, time.Now(); known < 3 && time.Since(begin) < patience; {
		before := time.Now().Round(0)
		r, err := http.Post("http://"+l.Addr().String()+"/v2/models/p/infer", "application/json", strings.NewReader(simple))
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, r.Body)
		require.NoError(t, err)
		_ = r.Body.Close()
		seen := []time.Time{<-crowded, <-arrived}
		if seen[1].IsZero() {
			continue
		}
		known++
		for _, came := range seen {
			require.WithinRange(t, came, before, time.Now().Round(0))
		}
	}
	stop()
	require.NoError(t, <-done)
}
