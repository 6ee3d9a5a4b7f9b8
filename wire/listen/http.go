package listen

import (
	"context"
	"io"
	"net"
	"net/http"
	"syscall"
	"time"
)

// What every server of HTTP grants its callers. A time ends a connection, or a stream of
// HTTP/2, however steadily something comes.
const (
	HeadTime   = 10 * time.Second // for TLS, and for the head of a request
	BodyTime   = time.Minute      // for the largest body, at a megabyte a second
	AnswerTime = time.Minute      // for a client to read the largest answer
	IdleTime   = 2 * time.Minute  // between requests
	MostHead   = 16 << 10         // bytes of a head

	mostStreams = 100      // of a connection of HTTP/2; no fewer are recommended
	mostStrange = 1024     // of all connections of strangers: each may hold a head, a stack and buffers
	mostAhead   = 64 << 10 // bytes of bodies that came before they were read, of a connection of HTTP/2

	mostLeft   = 256 << 10       // bytes of a body that net/http reads where a handler has left it
	lingerTime = 5 * time.Second // for a client that is sending, to read why it should not; as nginx grants
)

// Server is a server of HTTP with these limits. Its handlers set other deadlines where they
// need them: over HTTP/2 that for an answer runs from when its request came.
func Server(h http.Handler) *http.Server {
	return &http.Server{
		Handler: served(h), MaxHeaderBytes: MostHead, ConnContext: withCaller,
		ReadHeaderTimeout: HeadTime, ReadTimeout: HeadTime + BodyTime, WriteTimeout: AnswerTime, IdleTimeout: IdleTime,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: mostStreams, MaxReadFrameSize: mostFrame, WriteByteTimeout: AnswerTime,
			MaxReceiveBufferPerStream: mostAhead, MaxReceiveBufferPerConnection: mostAhead,
		},
	}
}

// served is a handler whose requests are reported to the places of their connections. Streams
// of strangers that come beyond mostStrange are reset: an answer would have to wait for a
// caller who may not read it.
func served(h http.Handler) http.Handler {
	free := make(chan struct{}, mostStrange)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begin, place := time.Now(), CallerOf(r).Place
		place.serve(1)
		defer place.serve(-1)
		if r.ProtoMajor == 2 && !place.Proven() {
			select {
			case free <- struct{}{}:
				defer func() { <-free }()
			default:
				panic(http.ErrAbortHandler)
			}
		}
		h.ServeHTTP(w, r)
		linger(w, r, begin.Add(BodyTime))
	})
}

// linger reads some of a body that a handler may have left, so that a client which sends it
// before it reads gets to the answer: closing the connection would take that away. It ends
// when the time for the body does.
func linger(w http.ResponseWriter, r *http.Request, end time.Time) {
	if r.ProtoMajor != 1 || r.ContentLength >= 0 && r.ContentLength <= mostLeft {
		return
	}
	if soon := time.Now().Add(lingerTime); soon.Before(end) {
		end = soon
	}
	to := http.NewResponseController(w)
	if to.Flush() == nil && to.SetReadDeadline(end) == nil {
		_, _ = io.Copy(io.Discard, r.Body)
	}
}

// Caller is the connection by which requests come.
type Caller struct {
	Place *Place           // nil where its port has no limit
	came  func() time.Time // see Arrival
	gated *gatedConn       // nil where its port has no gate
	watch *watch           // nil where its port does not report arrivals
}

// callerKey is the key of a Caller in the context of its requests.
type callerKey struct{}

// withCaller notes the connection for CallerOf.
func withCaller(ctx context.Context, c net.Conn) context.Context {
	caller := Caller{Place: PlaceOf(c), came: Arrival(c)}
	caller.gated, _ = Layer[*gatedConn](c)
	if s, ok := Layer[syscall.Conn](c); ok {
		if raw, err := s.SyscallConn(); err == nil {
			caller.watch = &watch{raw: raw}
		}
	}
	return context.WithValue(ctx, callerKey{}, caller)
}

// Begin reports that a request, which was read to its end, is worked on by others until End.
// hungUp is called when its caller is gone: net/http itself does not see that once anything
// has come behind the request, be it an empty line.
func (c Caller) Begin(r *http.Request, hungUp func()) {
	c.Place.Begin()
	if r.ProtoMajor == 1 {
		c.gated.wait(true)
		c.watch.begin(hungUp)
	}
}

// End ends what Begin has begun.
func (c Caller) End(r *http.Request) {
	if r.ProtoMajor == 1 {
		c.watch.end()
		c.gated.wait(false)
	}
	c.Place.End()
}

// CallerOf is whose request it is; the zero one where that is unknown.
func CallerOf(r *http.Request) Caller {
	c, _ := r.Context().Value(callerKey{}).(Caller)
	return c
}

// Arrived is when the last that was read of a request came to this machine, which on a busy
// one can be long before it is read; zero where that is unknown. Streams of HTTP/2 share a
// connection, so nothing is known of them.
func (c Caller) Arrived(r *http.Request) time.Time {
	if c.came == nil || r.ProtoMajor != 1 {
		return time.Time{}
	}
	return c.came()
}

// Transfers is a handler of files of any size: each piece of them has the time that other
// bodies and answers have as a whole.
func Transfers(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t := transfer{w, r.Body, http.NewResponseController(w)}
		r = r.WithContext(r.Context())
		r.Body = t
		h.ServeHTTP(t, r)
	})
}

// transfer is the answer and the body of a request.
type transfer struct {
	http.ResponseWriter
	io.ReadCloser
	timer *http.ResponseController
}

// Read implements io.Reader.
func (t transfer) Read(p []byte) (int, error) {
	_ = t.timer.SetReadDeadline(time.Now().Add(BodyTime)) // not every writer has one
	return t.ReadCloser.Read(p)
}

// Write implements io.Writer.
func (t transfer) Write(p []byte) (int, error) {
	_ = t.timer.SetWriteDeadline(time.Now().Add(AnswerTime))
	return t.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (t transfer) Unwrap() http.ResponseWriter { return t.ResponseWriter }
