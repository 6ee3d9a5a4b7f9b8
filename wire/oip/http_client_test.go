package oip_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/oip"
)

// Requests that follow each other come by one connection, whatever else the server is asked
// meanwhile: programs keep what they have prepared for each.
func TestInferenceKeepsItsConnection(t *testing.T) {
	type key struct{}
	var mu sync.Mutex
	inferred := map[net.Conn]int{}
	began, looking, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/infer") {
			looking <- struct{}{}
			<-done
			return
		}
		began <- struct{}{}
		<-looking
		mu.Lock()
		inferred[r.Context().Value(key{}).(net.Conn)]++
		mu.Unlock()
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	s.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, key{}, c) }
	s.Start()
	defer s.Close()
	c := oip.NewClient(oip.ClientOptions{URL: s.URL, Binary: true})
	defer c.Close()
	for range 9 {
		var look sync.WaitGroup
		look.Go(func() {
			<-began
			if _, err := c.Ready(t.Context(), "m", ""); err != nil {
				t.Error(err)
			}
		})
		_, err := c.Infer(t.Context(), &wire.InferRequest{Pipeline: "m"}, "")
		require.Error(t, err)
		done <- struct{}{}
		look.Wait()
	}
	require.Len(t, inferred, 1)
}
