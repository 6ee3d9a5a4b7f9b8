package stream

import (
	"fmt"
	"net"
	"slices"
	"sync"
	"time"
)

// MostGreeting is how many bytes the first frame of a stranger may have, by which it identifies
// itself, with a token.
const MostGreeting = 16 << 10

// mostStrangers bounds the connections of a port that have not identified themselves: what they
// hold, with TLS, is some 100 KiB each.
const mostStrangers = 256

// Strangers are the connections of a port whose other sides have not identified themselves, the
// oldest first. The zero value is ready.
type Strangers struct {
	mu  sync.Mutex
	all []net.Conn
}

// Enter takes one in until leave is called. Beyond mostStrangers the oldest is closed: honest
// peers identify themselves at once, and are not kept out by silent ones.
func (s *Strangers) Enter(c net.Conn) (leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all) == mostStrangers {
		go s.all[0].Close() // which may wait for its reader
		s.all = slices.Delete(s.all, 0, 1)
	}
	s.all = append(s.all, c)
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if i := slices.Index(s.all, c); i >= 0 {
			s.all = slices.Delete(s.all, i, i+1)
		}
	})
}

// DrainTime is how long a client of the wrong port may take to read why.
const DrainTime = 200 * time.Millisecond

// methods are how the requests of clients begin.
var methods = []string{"GET ", "POST", "HEAD", "PUT ", "PRI "}

// FromClient reports that what came first, four bytes of it at least, begins a request of
// HTTP.
func FromClient(first []byte) bool { return slices.Contains(methods, string(first[:4])) }

// RefuseClient has nothing written but an answer of HTTP, with the reason as JSON.
func (q *Conn) RefuseClient(why string) {
	q.Release(fmt.Appendf(nil, "HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", len(why), why))
}

// Drain reads for DrainTime what still comes: left unread it would reset the connection, and
// the answer with it.
func (q *Conn) Drain() {
	_ = q.SetReadDeadline(time.Now().Add(DrainTime))
	q.Discard(1 << 20)
}
