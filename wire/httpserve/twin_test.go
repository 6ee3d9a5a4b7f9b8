package httpserve

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// handler answers in every way that handlers do.
func handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		fmt.Fprintf(w, "%s %s %s %q %v %d %s", r.Method, r.URL, r.Host, r.Header["X-A"], r.TransferEncoding, r.ContentLength, b)
	})
	mux.HandleFunc("/unread", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	mux.HandleFunc("/closes", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "close")
		http.Error(w, "enough", http.StatusRequestEntityTooLarge)
	})
	mux.HandleFunc("/large", func(w http.ResponseWriter, _ *http.Request) {
		for range 100 {
			_, _ = io.WriteString(w, strings.Repeat("large ", 100))
		}
	})
	mux.HandleFunc("/said", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100000")
		_, _ = io.WriteString(w, strings.Repeat("s", 100_000))
	})
	mux.HandleFunc("/short", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "10")
		_, _ = io.WriteString(w, "short")
	})
	mux.HandleFunc("/long", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "4")
		_, _ = io.WriteString(w, "four")
		if _, err := io.WriteString(w, "more"); err == nil {
			panic("more than was said")
		}
	})
	mux.HandleFunc("/none", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	mux.HandleFunc("/nothing", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/html", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html><body>") })
	mux.HandleFunc("/panics", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	mux.HandleFunc("/both", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "4")
		w.Header().Set("Transfer-Encoding", "chunked")
		_, _ = io.WriteString(w, "four")
	})
	mux.HandleFunc("/empty", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "4")
		status, _ := strconv.Atoi(r.URL.RawQuery)
		w.WriteHeader(status)
		w.(http.Flusher).Flush()
		if _, err := io.WriteString(w, "four"); err == nil {
			panic("there is no body")
		}
	})
	mux.HandleFunc("/late", func(w http.ResponseWriter, r *http.Request) {
		for range 3000 / max(1, len(r.URL.RawQuery)) {
			_, _ = io.WriteString(w, r.URL.RawQuery)
		}
		w.Header().Set("Content-Length", "3")
	})
	mux.HandleFunc("/bad", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "99999999999999999999")
		_, _ = io.WriteString(w, "four")
	})
	mux.HandleFunc("/encoded", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write([]byte{0x1f, 0x8b, 8, 0})
	})
	mux.HandleFunc("/untyped", func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Content-Type"], w.Header()["Date"] = nil, nil
		_, _ = io.WriteString(w, "four")
	})
	mux.HandleFunc("/leaves", func(http.ResponseWriter, *http.Request) { runtime.Goexit() })
	mux.HandleFunc("/flushes", func(w http.ResponseWriter, _ *http.Request) {
		for i := range 3 {
			fmt.Fprintf(w, "data: %d\n\n", i)
			w.(http.Flusher).Flush()
		}
	})
	return mux
}

// start serves, by this package or by net/http, and says where; net/http's heads are
// limited to what they are here, with what it adds.
func start(t testing.TB, h http.Handler, ours bool) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan error, 1)
	ctx, stop := context.WithCancel(context.Background())
	s := &http.Server{Handler: h, ErrorLog: log.New(io.Discard, "", 0)}
	go func() {
		if ours {
			done <- Serve(ctx, l, h, Options{HeaderTime: 10 * time.Second, IdleTime: time.Minute, ShutdownTime: 10 * time.Second})
		} else {
			done <- s.Serve(l)
		}
	}()
	t.Cleanup(func() {
		stop()
		_ = s.Close()
		<-done
	})
	return l.Addr().String()
}

// spoken is everything that a server answers to what a client says at once, as a client
// reads it: statuses, headers but for the date, bodies, and whether it closes then.
func spoken(t testing.TB, at, text string, methods ...string) string {
	c, err := net.Dial("tcp", at)
	require.NoError(t, err)
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	go func() { _, _ = io.WriteString(c, text) }()
	in := bufio.NewReader(c)
	var out strings.Builder
	for _, method := range methods {
		r, err := http.ReadResponse(in, &http.Request{Method: method})
		if err != nil {
			out.WriteString("closed\n")
			return out.String()
		}
		b, err := io.ReadAll(r.Body)
		r.Header.Del("Date")
		fmt.Fprintf(&out, "%d %v %v %d %v %q %v\n", r.StatusCode, r.Header, r.TransferEncoding, r.ContentLength, r.Close, b, err)
	}
	if text != "" && strings.HasSuffix(text, "\r\n") { // another request shows whether the connection goes on
		if _, err := io.WriteString(c, "GET /nothing HTTP/1.1\r\nHost: h\r\n\r\n"); err == nil {
			r, err := http.ReadResponse(in, nil)
			if err == nil {
				fmt.Fprintf(&out, "goes on: %d", r.StatusCode)
			}
		}
	}
	return out.String()
}

// TestSaysWhatNetHTTPSays sends the same bytes to both servers.
func TestSaysWhatNetHTTPSays(t *testing.T) {
	ours, twin := start(t, handler(), true), start(t, handler(), false)
	post := func(path, body string) string {
		return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body)
	}
	get := func(path string, headers ...string) string {
		return "GET " + path + " HTTP/1.1\r\nHost: h\r\n" + strings.Join(append(headers, ""), "\r\n") + "\r\n"
	}
	chunked := "POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
	for name, c := range map[string]struct {
		text    string
		methods []string
	}{
		"get":                   {get("/echo?a=b", "X-A: 1", "x-a: 2"), []string{"GET"}},
		"get with a body":       {"GET /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc", []string{"GET"}},
		"post":                  {post("/echo", "body"), []string{"POST"}},
		"post nothing":          {post("/echo", ""), []string{"POST"}},
		"post without length":   {"POST /echo HTTP/1.1\r\nHost: h\r\n\r\n", []string{"POST"}},
		"post much":             {post("/echo", strings.Repeat("x", 1<<20)), []string{"POST"}},
		"several at once":       {post("/echo", "1") + get("/echo") + post("/echo", strings.Repeat("y", 10_000)) + get("/nothing"), []string{"POST", "GET", "POST", "GET"}},
		"handed over between":   {post("/echo", "1") + chunked + get("/echo") + "HEAD /echo HTTP/1.1\r\nHost: h\r\n\r\n", []string{"POST", "POST", "GET", "HEAD"}},
		"chunked":               {chunked, []string{"POST"}},
		"unread":                {post("/unread", "left") + get("/echo"), []string{"POST", "GET"}},
		"closes":                {post("/closes", "left"), []string{"POST"}},
		"asks to close":         {get("/echo", "Connection: close"), []string{"GET"}},
		"keep-alive":            {get("/echo", "Connection: Keep-Alive"), []string{"GET"}},
		"large":                 {get("/large"), []string{"GET"}},
		"with a length":         {get("/said") + get("/echo"), []string{"GET", "GET"}},
		"shorter than said":     {get("/short"), []string{"GET"}},
		"no content":            {get("/none"), []string{"GET"}},
		"nothing":               {get("/nothing"), []string{"GET"}},
		"html":                  {get("/html"), []string{"GET"}},
		"204 that writes":       {get("/empty?204"), []string{"GET"}},
		"304 that writes":       {get("/empty?304"), []string{"GET"}},
		"a length too late":     {get("/late?x"), []string{"GET"}},
		"a length in time":      {get("/late?" + strings.Repeat("x", 1000)), []string{"GET"}},
		"a length of nonsense":  {get("/bad"), []string{"GET"}},
		"encoded":               {get("/encoded"), []string{"GET"}},
		"untyped":               {get("/untyped"), []string{"GET"}},
		"leaves":                {get("/leaves"), []string{"GET"}},
		"line after a post":     {post("/echo", "1") + "\r\n" + get("/echo"), []string{"POST", "GET"}},
		"line after a get":      {get("/echo") + "\r\n" + get("/echo"), []string{"GET", "GET"}},
		"unread and large":      {post("/unread", strings.Repeat("x", 300<<10)), []string{"POST"}},
		"flushes":               {get("/flushes") + get("/echo"), []string{"GET", "GET"}},
		"panics":                {get("/panics"), []string{"GET"}},
		"unknown":               {get("/unknown"), []string{"GET"}},
		"head":                  {"HEAD /large HTTP/1.1\r\nHost: h\r\n\r\n", []string{"HEAD"}},
		"http 1.0":              {"GET /echo HTTP/1.0\r\n\r\n", []string{"GET"}},
		"options":               {"OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n", []string{"OPTIONS"}},
		"a large head":          {get("/echo", "X-A: "+strings.Repeat("v", 10_000)), []string{"GET"}},
		"a head at the limit":   {get("/echo", "X-A: "+strings.Repeat("v", mostHead-45)), []string{"GET"}},
		"no host":               {"GET /echo HTTP/1.1\r\n\r\n", []string{"GET"}},
		"a bad host":            {"GET /echo HTTP/1.1\r\nHost: a b\r\n\r\n", []string{"GET"}},
		"a bad header":          {get("/echo", "X A: 1"), []string{"GET"}},
		"a bad value":           {get("/echo", "X-A: a\x00b"), []string{"GET"}},
		"a bad length":          {"POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: x\r\n\r\n", []string{"POST"}},
		"two lengths":           {"POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabc", []string{"POST"}},
		"two equal lengths":     {"POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc", []string{"POST"}},
		"a length and chunks":   {"POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", []string{"POST"}},
		"an unknown encoding":   {"POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip\r\n\r\n", []string{"POST"}},
		"an unknown expecation": {"POST /echo HTTP/1.1\r\nHost: h\r\nExpect: more\r\nContent-Length: 3\r\n\r\nabc", []string{"POST"}},
		"an upgrade":            {get("/echo", "Connection: Upgrade", "Upgrade: websocket"), []string{"GET"}},
		"no http":               {"hello\r\n\r\n", []string{"GET"}},
		"http/2":                {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", []string{"GET"}},
		"absolute":              {"GET http://other/echo HTTP/1.1\r\nHost: h\r\n\r\n", []string{"GET"}},
		"folded":                {get("/echo", "X-A: 1", " 2"), []string{"GET"}},
		"bare newlines":         {"GET /echo HTTP/1.1\nHost: h\n\n", []string{"GET"}},
		"newlines then returns": {"GET /echo HTTP/1.1\nHost: h\n\nGET /echo HTTP/1.1\r\nHost: h\r\n\r\n", []string{"GET", "GET"}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, spoken(t, twin, c.text, c.methods...), spoken(t, ours, c.text, c.methods...))
		})
	}
}

// TestMoreThanWasSaid holds that a client never gets more than the length that was said.
func TestMoreThanWasSaid(t *testing.T) {
	said := spoken(t, start(t, handler(), true), "GET /long HTTP/1.1\r\nHost: h\r\n\r\n", "GET")
	require.Contains(t, said, `"four"`)
	require.NotContains(t, said, "goes on")
}

// TestOneFraming holds that a length goes before what a handler says of chunks.
func TestOneFraming(t *testing.T) {
	said := spoken(t, start(t, handler(), true), "GET /both HTTP/1.1\r\nHost: h\r\n\r\n", "GET")
	require.Contains(t, said, `[] 4 false "four" <nil>`)
	require.Contains(t, said, "goes on: 200")
}

// TestRefusalsOfLargeBodies has a client of net/http send bodies that nobody reads.
func TestRefusalsOfLargeBodies(t *testing.T) {
	url := "http://" + start(t, handler(), true) + "/unread"
	for range 20 {
		r, err := http.Post(url, "text/plain", strings.NewReader(strings.Repeat("x", 600<<10)))
		require.NoError(t, err)
		_ = r.Body.Close()
		require.Equal(t, http.StatusTeapot, r.StatusCode)
	}
}
