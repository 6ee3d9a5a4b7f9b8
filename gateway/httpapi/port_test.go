package httpapi

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/gateway"
	"github.com/harpagon/harpagon/internal/osutil"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/listen"
	"github.com/harpagon/harpagon/wire/secure"
	"github.com/harpagon/harpagon/wire/secure/securetest"
)

// What the public port promises its callers, whatever serves it.

const (
	inferPath = "/v2/models/p/infer"
	live      = "GET /v2/health/live HTTP/1.1\r\nHost: h\r\n\r\n"
)

// posts is a request with a body.
func posts(path, body string, headers ...string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: h\r\n%sContent-Length: %d\r\n\r\n%s", path, lines(headers), len(body), body)
}

func gets(path string, headers ...string) string {
	return "GET " + path + " HTTP/1.1\r\nHost: h\r\n" + lines(headers) + "\r\n"
}

func lines(headers []string) string { return strings.Join(append(headers, ""), "\r\n") }

// chunks is a request whose body comes in two.
func chunks(path, body string, headers ...string) string {
	half := len(body) / 2
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: h\r\n%sTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n%x\r\n%s\r\n0\r\n\r\n",
		path, lines(headers), half, body[:half], len(body)-half, body[half:])
}

// spoken returns the statuses of all answers to text, after which the caller half-closes, and
// "cut" for an incomplete one.
func spoken(t testing.TB, at, text string) string {
	c, err := net.Dial("tcp", at)
	require.NoError(t, err)
	defer c.Close()
	go func() {
		_, _ = io.WriteString(c, text)
		_ = c.(*net.TCPConn).CloseWrite()
	}()
	var out []string
	in := bufio.NewReader(c)
	for _, method := range append(methodsOf(text), "GET") {
		r, err := http.ReadResponse(in, &http.Request{Method: method})
		if err != nil {
			break
		}
		word := fmt.Sprint(r.StatusCode)
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			word += " cut"
		}
		out = append(out, word)
	}
	return strings.Join(out, ", ")
}

// methodsOf are those of the requests in a text, as far as they decide what an answer is.
func methodsOf(text string) (all []string) {
	for line := range strings.Lines(text) {
		switch {
		case strings.HasPrefix(line, "HEAD "):
			all = append(all, "HEAD")
		case strings.Contains(line, " HTTP/"), strings.HasPrefix(line, "Expect:"):
			all = append(all, "GET")
		}
	}
	return all
}

// hasty answers whether its caller is there or not.
func hasty() *backend { return &backend{ready: true} }

// TestFramings is the contract of the port on requests as they come over the wire. Behind
// each is one more, which shows whether the connection goes on.
func TestFramings(t *testing.T) {
	url := served(t, New(hasty(), Options{Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat("large ", 10_000))
	})}))
	at := strings.TrimPrefix(url, "http://")
	for name, c := range map[string]struct{ text, says string }{
		"get":                         {gets("/v2"), "200, 200"},
		"get with a body":             {"GET /v2 HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc", "200, 200"},
		"post":                        {posts(inferPath, simple), "200, 200"},
		"post nothing":                {posts(inferPath, ""), "400, 200"},
		"post without length":         {"POST " + inferPath + " HTTP/1.1\r\nHost: h\r\n\r\n", "400, 200"},
		"post much":                   {posts(inferPath, simple+strings.Repeat(" ", 1<<20)), "200, 200"},
		"several at once":             {posts(inferPath, simple) + live + posts(inferPath, simple+strings.Repeat(" ", 10_000)) + live, "200, 200, 200, 200, 200"},
		"of all kinds":                {posts(inferPath, simple) + chunks(inferPath, simple) + live + "HEAD /v2 HTTP/1.1\r\nHost: h\r\n\r\n", "200, 200, 200, 200, 200"},
		"chunked":                     {chunks(inferPath, simple), "200, 200"},
		"chunked with an extension":   {"POST " + inferPath + " HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1;a=b\r\n{\r\n0\r\n\r\n", "400, 200"},
		"chunked with a trailer":      {"POST " + inferPath + " HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n0\r\nX-A: 1\r\n\r\n", "400, 200"},
		"chunks of nonsense":          {"POST " + inferPath + " HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "499"},
		"unread":                      {posts("/v2/models/p/versions/9/nothing", "left"), "404, 200"},
		"unread and large":            {posts("/v3", strings.Repeat("x", 300<<10)), "404"},
		"larger than may be":          {"POST " + inferPath + " HTTP/1.1\r\nHost: h\r\nContent-Length: 100000000\r\n\r\n", "413"},
		"shorter than said":           {"POST " + inferPath + " HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\nabc", "499"},
		"asks to close":               {gets("/v2", "Connection: close"), "200"},
		"keep-alive":                  {gets("/v2", "Connection: Keep-Alive"), "200, 200"},
		"a large answer":              {gets("/metrics"), "200, 200"},
		"head of a large answer":      {"HEAD /metrics HTTP/1.1\r\nHost: h\r\n\r\n", "200, 200"},
		"line after a post":           {posts(inferPath, simple) + "\r\n", "200, 200"},
		"line after a get":            {gets("/v2") + "\r\n", "200, 400"},
		"unknown":                     {gets("/unknown"), "404, 200"},
		"another method":              {"PUT " + inferPath + " HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n", "405, 200"},
		"http 1.0":                    {"GET /v2 HTTP/1.0\r\n\r\n", "200"},
		"http 1.0 that stays":         {"GET /v2 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "200, 200"},
		"http 2":                      {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "400"},
		"http 3":                      {"GET /v2 HTTP/3.0\r\nHost: h\r\n\r\n", "505"},
		"options":                     {"OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n", "200, 200"},
		"a large head":                {gets("/v2", "X-A: "+strings.Repeat("v", 10_000)), "200, 200"},
		"a head beyond the limit":     {gets("/v2", "X-A: "+strings.Repeat("v", listen.MostHead+5000)), "431"},
		"no host":                     {"GET /v2 HTTP/1.1\r\n\r\n", "400"},
		"a bad host":                  {"GET /v2 HTTP/1.1\r\nHost: a b\r\n\r\n", "400"},
		"two hosts":                   {gets("/v2", "Host: i"), "400"},
		"a bad header":                {gets("/v2", "X A: 1"), "400"},
		"a header without a name":     {gets("/v2", ": 1"), "400"},
		"a bad value":                 {gets("/v2", "X-A: a\x00b"), "400"},
		"a bad path":                  {gets("/v2/%zz"), "400"},
		"a bad length":                {"POST " + inferPath + " HTTP/1.1\r\nHost: h\r\nContent-Length: x\r\n\r\n", "400"},
		"a length below nothing":      {"POST " + inferPath + " HTTP/1.1\r\nHost: h\r\nContent-Length: -1\r\n\r\n", "400"},
		"two lengths":                 {"POST " + inferPath + " HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabc", "400"},
		"two equal lengths":           {"POST " + inferPath + " HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n{", "400, 200"},
		"a length and chunks":         {chunks(inferPath, simple, "Content-Length: 3"), "200, 200"},
		"an unknown encoding":         {"POST " + inferPath + " HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip\r\n\r\n", "501"},
		"expects to go on":            {posts(inferPath, simple, "Expect: 100-continue"), "100, 200, 200"},
		"large, and expects to go on": {"POST " + inferPath + " HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 100000000\r\n\r\n", "413"},
		"expects something else":      {posts(inferPath, simple, "Expect: more"), "417"},
		"an upgrade":                  {gets("/v2", "Connection: Upgrade", "Upgrade: websocket"), "200, 200"},
		"no http":                     {"hello\r\n\r\n", "400"},
		"nothing":                     {"", "200"},
		"absolute":                    {"GET http://other/v2 HTTP/1.1\r\nHost: h\r\n\r\n", "200, 200"},
		"folded":                      {gets("/v2", "X-A: 1", " 2"), "200, 200"},
		"bare newlines":               {"GET /v2 HTTP/1.1\nHost: h\n\n", "200, 200"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.says, spoken(t, at, c.text+live))
		})
	}
}

// TestMutations changes requests at random: the port answers each as net/http does, and goes on
// serving.
func TestMutations(t *testing.T) {
	h := New(hasty(), Options{})
	at := strings.TrimPrefix(served(t, h), "http://")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	twin := listen.Server(h)
	go func() { _ = twin.Serve(l) }()
	defer twin.Close()
	many := 2000
	if os.Getenv("HARPAGON_LONG") != "" {
		many = 74_000
	}
	seeds := []string{
		posts(inferPath, simple) + live, chunks(inferPath, simple) + live, gets("/v2", "X-A: 1", "Connection: keep-alive") + posts("/v2/repository/index", `{"ready":true}`),
		posts(inferPath, simple, "Expect: 100-continue"), posts(inferPath, simple, "Inference-Header-Content-Length: 9") + live,
	}
	parts := []string{"\r\n", "\n", "\r", " ", ":", "\x00", "0", "9", "-1", "\xff", "GET ", "HTTP/1.0", "Content-Length: 1\r\n", "Transfer-Encoding: chunked\r\n", "Host: i\r\n", "\r\n\r\n", "\t", ","}
	rng := rand.New(rand.NewPCG(44, 1))
	for range many {
		text := seeds[rng.IntN(len(seeds))]
		for range 1 + rng.IntN(3) {
			i := rng.IntN(len(text) + 1)
			j := min(len(text), i+rng.IntN(4))
			text = text[:i] + parts[rng.IntN(len(parts))] + text[j:]
		}
		said := spoken(t, at, text)
		require.NotContains(t, said, "500", "%q", text)
		if twin := spoken(t, l.Addr().String(), text); refusedLast(twin) != said && twin != refusedLast(said) {
			require.Equal(t, twin, said, "%q", text)
		}
	}
	require.Equal(t, "200", spoken(t, at, live))
}

// refusedLast removes the refusal of a trailing piece that is no request, for which a server
// may also just close.
func refusedLast(said string) string {
	return strings.TrimSuffix(strings.TrimSuffix(said, "400"), ", ")
}

// pipes is a listener of connections in memory.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if c, ok := <-p; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (p pipes) Close() error   { return nil }
func (p pipes) Addr() net.Addr { return new(net.UnixAddr) }

// dial is a connection to the port.
func (p pipes) dial() net.Conn {
	near, far := net.Pipe()
	p <- descriptor{far}
	return near
}

// descriptor is a pipe that has one, as connections of a network do, of which nothing is known.
type descriptor struct{ net.Conn }

func (d descriptor) SyscallConn() (syscall.RawConn, error) { return noFile{}, nil }

type noFile struct{ syscall.RawConn }

func (noFile) Control(func(uintptr)) error { return errors.ErrUnsupported }

// TestTurnsAreGivenBack has more callers than are read at a time who leave a connection in a
// state in which it may not be read again for long. Another is answered at once, and no memory
// is held for those who were refused.
func TestTurnsAreGivenBack(t *testing.T) {
	const huge = 100 << 20
	head := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n", inferPath, huge)
	full := wire.Errorf(wire.CodeOverloaded, "", "no time is left")
	for name, c := range map[string]struct {
		text   string
		status int
		reject *wire.Error
		most   int64
	}{
		"a large body, refused for its size":  {head, http.StatusRequestEntityTooLarge, nil, DefaultMaxBody},
		"a large body, refused for its time":  {head, http.StatusTooManyRequests, full, 2 * huge},
		"a large body, refused for the bytes": {head, http.StatusTooManyRequests, nil, 2 * huge},
		"and the refusal is not read":         {head, -1, full, 2 * huge},
		"a small body, refused unread":        {posts(inferPath, simple), http.StatusTooManyRequests, full, DefaultMaxBody},
		"a body that does not come":           {"POST " + inferPath + " HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n1", 0, nil, DefaultMaxBody},
		"an answer that is awaited":           {posts("/v2/models/waits/infer", simple), 0, nil, DefaultMaxBody},
		"and a byte behind it":                {posts("/v2/models/waits/infer", simple) + "\r", 0, nil, DefaultMaxBody},
		"and all of a request behind it":      {posts("/v2/models/waits/infer", simple) + live, 0, nil, DefaultMaxBody},
		"and half a head behind it":           {posts("/v2/models/waits/infer", simple+strings.Repeat(" ", 10_000)) + live[:9], 0, nil, DefaultMaxBody},
		"an answer that is not read":          {live + live + live, -1, nil, DefaultMaxBody},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				held := gateway.NewBytes(gateway.ByteLimits{Total: huge})
				answer := make(chan bool)
				b := &backend{infer: func(_ context.Context, q *wire.InferRequest) (*wire.InferResponse, error) {
					if q.Pipeline == "waits" {
						<-answer
					}
					return &wire.InferResponse{}, nil
				}}
				o := Options{Bytes: held, MaxBody: c.most}
				if c.reject != nil {
					o.RejectEarly = func(context.Context, string, time.Time) *wire.Error { return c.reject }
				}
				port := make(pipes)
				ctx, stop := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- Serve(ctx, listen.Gate(port), New(b, o)) }()
				var others []net.Conn
				for range 4 * osutil.MostProcessors() {
					other := port.dial()
					others = append(others, other)
					go func() {
						_, err := io.WriteString(other, c.text)
						if err == nil && c.text == head {
							_, _ = other.Write(make([]byte, 1<<20)) // and waits for what becomes of it
						}
					}()
					if c.status > 0 {
						r, err := http.ReadResponse(bufio.NewReader(other), nil)
						require.NoError(t, err)
						require.Equal(t, c.status, r.StatusCode)
						_, err = io.Copy(io.Discard, r.Body)
						require.NoError(t, err)
					}
				}
				synctest.Wait()
				if c.status > 0 {
					require.Zero(t, held.Now())
				}
				begin := time.Now()
				caller := port.dial()
				go func() { _, _ = io.WriteString(caller, live) }()
				r, err := http.ReadResponse(bufio.NewReader(caller), nil)
				require.NoError(t, err)
				require.Equal(t, http.StatusOK, r.StatusCode)
				require.Less(t, time.Since(begin), 10*time.Millisecond)
				close(answer)
				for _, other := range append(others, caller) {
					require.NoError(t, other.Close())
				}
				stop()
				close(port)
				require.NoError(t, <-done)
				synctest.Wait()
				require.Zero(t, held.Now())
			})
		})
	}
}

// TestConnectionsHoldLittle has hundreds of connections that are idle, slow, or unread, and one
// caller who is served.
func TestConnectionsHoldLittle(t *testing.T) {
	const many, most = 300, 48 << 10
	page := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 64<<10)) })
	held := gateway.NewBytes(gateway.ByteLimits{Total: 64 << 20})
	url := served(t, New(hasty(), Options{Bytes: held, Metrics: page}))
	before := inUse()
	for name, text := range map[string]string{
		"idle":                     "",
		"idle after an answer":     live,
		"slow with a head":         live[:20],
		"slow with a body":         posts(inferPath, simple)[:140],
		"slow with a body nowhere": posts("/v3", simple)[:60],
		"unread":                   strings.Repeat(live, 100),
	} {
		t.Run(name, func(t *testing.T) {
			var all []net.Conn
			for range many {
				c, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
				require.NoError(t, err)
				_, err = io.WriteString(c, text)
				require.NoError(t, err)
				all = append(all, c)
			}
			for range 10 {
				require.Equal(t, "200", spoken(t, strings.TrimPrefix(url, "http://"), live))
			}
			require.Less(t, inUse()-before, int64(many*most))
			for _, c := range all {
				require.NoError(t, c.Close())
			}
		})
	}
}

// inUse is the memory of what lives, and of stacks.
func inUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// TestCallersBeyondTheLimit are refused while all others have only just come, and are let in
// where one of those is idle for long.
func TestCallersBeyondTheLimit(t *testing.T) {
	l, err := listen.HTTP("127.0.0.1:0", secure.Credentials{}, 3)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	begun, answer := make(chan bool, 3), make(chan bool)
	b := &backend{infer: func(context.Context, *wire.InferRequest) (*wire.InferResponse, error) {
		begun <- true
		<-answer
		return &wire.InferResponse{}, nil
	}}
	go func() { done <- Serve(ctx, l, New(b, Options{})) }()
	var all []net.Conn
	for range 3 { // who wait for an answer are not idle
		c, err := net.Dial("tcp", l.Addr().String())
		require.NoError(t, err)
		_, err = io.WriteString(c, posts(inferPath, simple))
		require.NoError(t, err)
		all = append(all, c)
		<-begun
	}
	c, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	_, err = io.WriteString(c, live)
	require.NoError(t, err)
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusTooManyRequests, r.StatusCode)
	require.NotEmpty(t, r.Header.Get("Retry-After"))
	said, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	require.Contains(t, string(said), `"code":"overloaded"`)
	close(answer)
	for _, c := range all {
		r, err := http.ReadResponse(bufio.NewReader(c), nil)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, r.StatusCode)
	}
	require.Eventually(t, func() bool { return spoken(t, l.Addr().String(), live) == "200" }, time.Minute, 50*time.Millisecond)
	for _, c := range all {
		_ = c.Close()
	}
	stop()
	require.NoError(t, <-done)
}

// TestVersionsOverTLS sends requests of both versions of HTTP over TLS, and one without TLS,
// which is refused.
func TestVersionsOverTLS(t *testing.T) {
	i := securetest.New(t, "ours").Identity(t)
	l, err := listen.HTTP("127.0.0.1:0", secure.Credentials{Identity: i}, 0)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- Serve(ctx, l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = fmt.Fprint(w, r.Proto, " ", r.Method, " ", r.TLS != nil && r.TLS.HandshakeComplete)
		}))
	}()
	for _, c := range []struct {
		method, says string
		two          bool
	}{{"GET", "HTTP/1.1 GET true", false}, {"PUT", "HTTP/1.1 PUT true", false}, {"GET", "HTTP/2.0 GET true", true}} {
		transport := &http.Transport{TLSClientConfig: i.Client("127.0.0.1"), ForceAttemptHTTP2: c.two}
		q, err := http.NewRequest(c.method, "https://"+l.Addr().String(), nil)
		require.NoError(t, err)
		r, err := (&http.Client{Transport: transport}).Do(q)
		require.NoError(t, err)
		said, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		require.Equal(t, c.says, string(said))
		transport.CloseIdleConnections()
	}
	r, err := http.Get("http://" + l.Addr().String())
	require.NoError(t, err)
	require.Equal(t, http.StatusBadRequest, r.StatusCode)
	stop()
	require.NoError(t, <-done)
}

// TestStops: a stop closes idle connections, lets a request under way finish with "Connection:
// close", and ends what takes too long.
func TestStops(t *testing.T) {
	for _, late := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			begun, answer := make(chan bool), make(chan bool)
			b := &backend{infer: func(ctx context.Context, _ *wire.InferRequest) (*wire.InferResponse, error) {
				begun <- true
				select {
				case <-answer:
				case <-ctx.Done():
				}
				return &wire.InferResponse{}, nil
			}}
			port := make(pipes)
			ctx, stop := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- Serve(ctx, port, New(b, Options{})) }()
			idle, busy := port.dial(), port.dial()
			_, err := io.WriteString(idle, live)
			require.NoError(t, err)
			idleIn := bufio.NewReader(idle)
			r, err := http.ReadResponse(idleIn, nil)
			require.NoError(t, err)
			_, err = io.Copy(io.Discard, r.Body)
			require.NoError(t, err)
			_, err = io.WriteString(busy, posts(inferPath, simple))
			require.NoError(t, err)
			<-begun
			stop()
			close(port)
			_, err = idleIn.ReadByte()
			require.ErrorIs(t, err, io.EOF)
			begin := time.Now()
			if late {
				_, err = busy.Read(make([]byte, 1))
				require.ErrorIs(t, err, io.EOF)
				require.ErrorIs(t, <-done, context.DeadlineExceeded)
				require.Equal(t, shutdownTime, time.Since(begin))
				return
			}
			answer <- true
			r, err = http.ReadResponse(bufio.NewReader(busy), nil)
			require.NoError(t, err)
			require.True(t, r.Close)
			require.NoError(t, <-done)
		})
	}
}

// TestARefusalIsReadWhileABodyIsSent has a caller who sends all of a large body before it reads
// the answer that refuses it, as many clients do.
func TestARefusalIsReadWhileABodyIsSent(t *testing.T) {
	at := strings.TrimPrefix(served(t, New(hasty(), Options{MaxBody: 1 << 20})), "http://")
	c, err := net.Dial("tcp", at)
	require.NoError(t, err)
	defer c.Close()
	const size = 8 << 20 // more than sockets hold
	_, err = fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n", inferPath, size)
	require.NoError(t, err)
	_, err = c.Write(make([]byte, size))
	require.NoError(t, err)
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusRequestEntityTooLarge, r.StatusCode)
}
