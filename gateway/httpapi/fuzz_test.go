package httpapi

import (
	"bufio"
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/gateway"
	"github.com/harpagon/harpagon/internal/testkit"
	"github.com/harpagon/harpagon/wire/oip"
)

// FuzzRequests sends any bytes that make a request of HTTP: each gets an answer that blames
// no fault of the server, and nothing of it is held afterwards.
func FuzzRequests(f *testing.F) {
	for _, body := range []string{simple, `{"inputs":[]}`, "{"} {
		f.Add(fmt.Appendf(nil, "POST /v2/models/p/infer HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
	}
	f.Add([]byte("POST /v2/models/p%2Fq/versions/4/infer HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nInference-Header-Content-Length: 9\r\n\r\n3\r\nabc\r\n0\r\n\r\n"))
	f.Add([]byte("POST /v2/repository/index HTTP/1.1\r\nHost: h\r\nContent-Length: 14\r\n\r\n{\"ready\":true}"))
	for _, path := range []string{"/v2/models/p/versions/4/ready", "/v2/models/p/stats", "/v2", "//v2/./models", "/v2/models/%00?x=%"} {
		f.Add([]byte("GET " + path + " HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer x\r\ntraceparent: 00-1-2-3\r\n\r\n"))
	}
	for _, coding := range []string{"gzip", "deflate"} {
		body := zipped(f, coding, simple)
		f.Add(fmt.Appendf(nil, "POST /v2/models/p/infer HTTP/1.1\r\nHost: h\r\nContent-Encoding: %s\r\nAccept-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s", coding, len(body), body))
	}
	f.Add(fmt.Appendf(nil, "POST /v2/models/p/infer HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n%s", len(placed), placed))
	for _, what := range []string{"region/in/register", "region/in/unregister", "unregister"} {
		f.Add([]byte("POST /v2/systemsharedmemory/" + what + " HTTP/1.1\r\nHost: h\r\nContent-Length: 37\r\n\r\n{\"key\":\"/client-test-\",\"byte_size\":8}"))
	}
	f.Add([]byte("DELETE /v2/models/p/config HTTP/1.1\r\nHost: h\r\n\r\n"))
	held := gateway.NewBytes(gateway.ByteLimits{Total: 1 << 30})
	regions, err := oip.NewRegions("client-test-")
	require.NoError(f, err)
	h := New(&backend{ready: true}, Options{Bytes: held, Regions: regions})
	f.Fuzz(func(t *testing.T, raw []byte) {
		defer testkit.WatchStalls(t, len(raw))()
		r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(raw)))
		if err != nil {
			return
		}
		r.RemoteAddr = here
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r.WithContext(t.Context()))
		require.GreaterOrEqual(t, w.Code, 200)
		require.NotEqual(t, http.StatusInternalServerError, w.Code, "%s", w.Body)
		require.Zero(t, held.Now())
	})
}
