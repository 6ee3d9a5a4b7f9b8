package httpapi

import (
	"context"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/wire"
)

const patience = 2 * time.Second

// TestConnectionsKnowWhenDataCame compares the kernel's stamps with the clock
// around the writing, long before the data are read.
func TestConnectionsKnowWhenDataCame(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the system does not tell")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	d := stampArrivals(l)
	client, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	defer client.Close()
	server, err := d.Accept()
	require.NoError(t, err)
	defer server.Close()
	conn := server.(dated)
	require.Zero(t, conn.came(), "nothing has been read")
	buf := make([]byte, 3)
	for begin := time.Now(); conn.came().IsZero(); { // the kernel begins some time after it was asked to
		if time.Since(begin) > patience {
			t.Skip("the kernel has not begun to note times")
		}
		_, err = client.Write([]byte("a"))
		require.NoError(t, err)
		_, err = server.Read(buf)
		require.NoError(t, err)
	}
	for range 3 {
		before := time.Now()
		_, err = client.Write([]byte("abcd"))
		require.NoError(t, err)
		after := time.Now()
		time.Sleep(20 * time.Millisecond)
		for _, want := range []string{"abc", "d"} {
			n, err := server.Read(buf)
			require.NoError(t, err)
			require.Equal(t, want, string(buf[:n]))
			require.WithinRange(t, conn.came(), before.Round(0), after.Round(0).Add(10*time.Millisecond))
		}
	}
	require.NoError(t, server.SetReadDeadline(time.Now().Add(-time.Second)))
	_, err = server.Read(buf)
	var late net.Error
	require.ErrorAs(t, err, &late)
	require.True(t, late.Timeout())
	require.NoError(t, server.SetReadDeadline(time.Time{}))
	n, err := server.Read(nil)
	require.NoError(t, err)
	require.Zero(t, n)
	require.NoError(t, client.Close())
	_, err = server.Read(buf)
	require.ErrorIs(t, err, io.EOF)
}

// TestRequestsTellWhenTheyCame asks over a connection that is used again.
func TestRequestsTellWhenTheyCame(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the system does not tell")
	}
	arrived, crowded := make(chan time.Time, 1), make(chan time.Time, 1)
	b := &backend{infer: func(_ context.Context, q *wire.InferRequest) (*wire.InferResponse, error) {
		arrived <- q.Arrived
		return &wire.InferResponse{Pipeline: q.Pipeline}, nil
	}}
	h := New(b, Options{Crowded: func(_ context.Context, _ string, came time.Time) *wire.Error {
		crowded <- came
		return nil
	}})
	l, err := net.Listen("tcp", "127.0.0.1:0")
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
