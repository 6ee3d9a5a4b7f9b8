//go:build !noserver

package embedded

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/wire/listen"
	"github.com/harpagon/harpagon/wire/secure"
)

// TestUIIsForThisMachine sends requests with foreign host names, as by DNS rebinding, and
// with those of this machine.
func TestUIIsForThisMachine(t *testing.T) {
	l, err := listen.HTTP("127.0.0.1:0", secure.Credentials{}, 0)
	require.NoError(t, err)
	u, err := startUI(l, "127.0.0.1:1", secure.Files{})
	require.NoError(t, err)
	defer u.stop()
	for host, let := range map[string]bool{
		"": true, "localhost": true, "LocalHost:9000": true, "127.0.0.1:8233": true, "127.0.0.2": true, "[::1]": true, "[::1]:80": true,
		"evil.example": false, "evil.example:8233": false, "localhost.evil.example": false, "127.0.0.1.evil.example": false, "192.0.2.1": false, "0.0.0.0:8233": false,
	} {
		for _, ask := range []string{"GET /", "GET /api/v1/settings", "GET /healthz", "POST /api/v1/namespaces/default/workflows/w/terminate"} {
			method, path, _ := strings.Cut(ask, " ")
			q, err := http.NewRequest(method, u.url+path, http.NoBody)
			require.NoError(t, err)
			if host != "" {
				q.Host = host
			}
			r, err := http.DefaultClient.Do(q)
			require.NoError(t, err)
			said, err := io.ReadAll(r.Body)
			require.NoError(t, err)
			require.NoError(t, r.Body.Close())
			switch {
			case !let:
				require.Equal(t, http.StatusMisdirectedRequest, r.StatusCode, "%s of %q", ask, host)
				require.Contains(t, string(said), "localhost")
			case method == http.MethodGet:
				require.Equal(t, http.StatusOK, r.StatusCode, "%s of %q: %s", ask, host, said)
			default:
				require.NotEqual(t, http.StatusMisdirectedRequest, r.StatusCode, "%s of %q", ask, host)
			}
		}
	}
	w := httptest.NewRecorder()
	local(http.NotFoundHandler()).ServeHTTP(w, &http.Request{})
	require.Equal(t, http.StatusMisdirectedRequest, w.Code, "a request that names no host, as HTTP/1.0 allows")
}
