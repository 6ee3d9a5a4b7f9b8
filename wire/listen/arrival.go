package listen

import (
	"net"
	"sync/atomic"
	"time"
)

// dated is a connection that has the arrival time of what was read last.
type dated interface{ arrival() time.Time }

// Arrival reports when what was read last from a connection came to this machine, which on
// a busy one can be long before it is read; zero where that is not known yet. It is nil
// where it cannot be known. What wraps a connection, as TLS does, is looked through.
func Arrival(c net.Conn) func() time.Time {
	if d, ok := Layer[dated](c); ok {
		return d.arrival
	}
	return nil
}

// Layer is the connection itself or what it wraps, as TLS does, by what it can do or is; false
// where there is none.
func Layer[T any](c net.Conn) (layer T, ok bool) {
	for c != nil {
		if layer, ok = c.(T); ok {
			return layer, true
		}
		w, wraps := c.(interface{ NetConn() net.Conn })
		if !wraps {
			break
		}
		c = w.NetConn()
	}
	return layer, false
}

// steps notices that the system's clock was set. Earlier stamps may then be hours in the past
// or in the future; so for a while none is used.
type steps struct {
	begin   time.Time    // with the clock that never steps
	offset  atomic.Int64 // of the system's clock to that one, in nanoseconds; 0 for not known
	trusted atomic.Int64 // from then on, in nanoseconds since begin
}

const (
	stepLeast = 100 * time.Millisecond // what is less is the clock being disciplined
	stepOver  = time.Second            // after which nothing unread was stamped before
)

func newSteps() *steps { return &steps{begin: time.Now()} }

// believe reports whether a stamp that is read now can be trusted.
func (s *steps) believe(now time.Time) bool { return s.at(now.UnixNano(), now.Sub(s.begin)) }

func (s *steps) at(wall int64, since time.Duration) bool {
	offset := wall - int64(since)
	if old := s.offset.Swap(offset); old != 0 && (time.Duration(offset-old)).Abs() > stepLeast {
		s.trusted.Store(int64(since + stepOver))
	}
	return int64(since) >= s.trusted.Load()
}
