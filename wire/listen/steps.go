package listen

import (
	"sync/atomic"
	"time"
)

// steps notices that the system's clock was set. Stamps of before would tell of requests
// that came hours ago, or that are still to come; so for a while none is believed.
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

// believe says whether a stamp that is read now is to be believed.
func (s *steps) believe(now time.Time) bool { return s.at(now.UnixNano(), now.Sub(s.begin)) }

func (s *steps) at(wall int64, since time.Duration) bool {
	offset := wall - int64(since)
	if old := s.offset.Swap(offset); old != 0 && (time.Duration(offset-old)).Abs() > stepLeast {
		s.trusted.Store(int64(since + stepOver))
	}
	return int64(since) >= s.trusted.Load()
}
