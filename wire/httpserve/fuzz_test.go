package httpserve

import (
	"bufio"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzHeads holds that a request that is served here is one that net/http serves, and
// the same: method, path, headers and length of body.
func FuzzHeads(f *testing.F) {
	for _, head := range []string{
		plainGet,
		"POST /v2/models/p/infer HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nInference-Header-Content-Length: 1\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: h\r\nConnection: keep-alive\r\nX-A: 1\r\n 2\r\n\r\n",
		"GET A0://0 HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\nHost: h\r\n\r\n", "POST / HTTP/1.1\r\nHost: a b\r\nTransfer-Encoding: chunked\r\n\r\n",
		"GET http://a/%41?b HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\nContent-Length: 0\r\n\r\n",
	} {
		f.Add(head)
	}
	say := func(r *http.Request) string {
		return fmt.Sprintf("%s %s %s %v %d %s", r.Method, r.URL, r.Host, r.Header, r.ContentLength, r.Proto)
	}
	twin := start(f, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, say(r)) }), false)
	f.Fuzz(func(t *testing.T, head string) {
		if len(head) >= mostHead || !strings.HasSuffix(head, "\r\n\r\n") || strings.Index(head, "\n\r\n") < len(head)-3 {
			return
		}
		r := parse([]byte(head))
		if r == nil || r.ContentLength > 1<<10 {
			return
		}
		at := bufio.NewReader(strings.NewReader(spoken(t, twin, head+strings.Repeat("x", int(r.ContentLength)), r.Method)))
		said, err := at.ReadString('\n')
		require.NoError(t, err)
		require.Contains(t, said, "200 ")
		require.Contains(t, said, fmt.Sprintf("%q", say(r)), "net/http understands it otherwise")
	})
}
