package frames

import (
	"fmt"
	"slices"
	"time"
)

// DrainTime is how long who has come to the wrong port may take to read why.
const DrainTime = 200 * time.Millisecond

// methods are how the requests of clients begin.
var methods = []string{"GET ", "POST", "HEAD", "PUT ", "PRI "}

// FromClient says that what came first, four bytes of it at least, begins a request of
// HTTP.
func FromClient(first []byte) bool { return slices.Contains(methods, string(first[:4])) }

// RefuseClient has nothing written but an answer of HTTP, with the JSON that says why.
func (q *Conn) RefuseClient(why string) {
	q.Release(fmt.Appendf(nil, "HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", len(why), why))
}

// Drain reads for DrainTime what still comes: left unread it would reset the connection,
// and with it what the other side is told.
func (q *Conn) Drain() {
	_ = q.SetReadDeadline(time.Now().Add(DrainTime))
	q.Discard(1 << 20)
}
