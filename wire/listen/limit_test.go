package listen

import (
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/wire/secure"
	"github.com/harpagon/harpagon/wire/secure/securetest"
)

func TestConnectionsBeyondTheLimitAreTold(t *testing.T) {
	l, err := HTTP("127.0.0.1:0", secure.Credentials{}, 3)
	require.NoError(t, err)
	server := &http.Server{Handler: http.NotFoundHandler()}
	go func() { _ = server.Serve(l) }()
	defer server.Close()
	url := "http://" + l.Addr().String()
	ask := func() int { // 0 where the connection was refused before the request was read
		c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		r, err := c.Get(url)
		if err != nil {
			return 0
		}
		defer r.Body.Close()
		return r.StatusCode
	}
	var idle []net.Conn
	for range 3 {
		c, err := net.Dial("tcp", l.Addr().String())
		require.NoError(t, err)
		idle = append(idle, c)
	}
	refused, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	said, err := io.ReadAll(refused)
	require.NoError(t, err)
	require.Contains(t, string(said), "429 Too Many Requests")
	require.Contains(t, string(said), "--max-connections")
	for _, c := range idle {
		require.NoError(t, c.Close())
	}
	require.Eventually(t, func() bool {
		return ask() == http.StatusNotFound
	}, 20*time.Second, 10*time.Millisecond, "a connection that is closed makes room")
}

// TestConnectionsBeyondTheLimitAreToldOverTLS whichever version of HTTP they like best.
func TestConnectionsBeyondTheLimitAreToldOverTLS(t *testing.T) {
	i := securetest.New(t, "ours").Identity(t)
	l, err := HTTP("127.0.0.1:0", secure.Credentials{Identity: i}, 1)
	require.NoError(t, err)
	server := &http.Server{Handler: http.NotFoundHandler()}
	go func() { _ = server.Serve(l) }()
	defer server.Close()
	idle, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	defer idle.Close()
	for _, second := range []bool{false, true} {
		c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: i.Client("127.0.0.1"), ForceAttemptHTTP2: second}}
		r, err := c.Get("https://" + l.Addr().String())
		require.NoError(t, err)
		require.Equal(t, http.StatusTooManyRequests, r.StatusCode)
		require.NoError(t, r.Body.Close())
	}
}

func TestDescriptors(t *testing.T) {
	require.Positive(t, Descriptors())
	require.Equal(t, Descriptors() < fewDescriptors, Few() != "")
	require.GreaterOrEqual(t, Connections(), 16)
}
