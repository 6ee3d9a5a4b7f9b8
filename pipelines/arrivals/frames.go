package arrivals

import (
	"container/heap"
	"math"
	"slices"
	"time"
)

// Frames is the kind of arrivals of streams: each sends a frame once in a period, up to its jitter
// later. Where phases are chosen, streams are spread evenly over the period; elsewhere each has a
// phase that is drawn. A declaration has a stream block for them.
const Frames = "frames"

// framesInPhase is how many frames a stream sends, on average, before it leaves out a part of a
// period, so that one run sees several phases.
const framesInPhase = 256

// frame is the next one of a stream, and when it is due by the stream's pace, in nanoseconds.
type frame struct {
	at, due float64
	stream  int
}

// frames are the next ones of all streams, the soonest first.
type frames []frame

func (f frames) Len() int { return len(f) }
func (f frames) Less(i, j int) bool {
	return f[i].at < f[j].at || f[i].at == f[j].at && f[i].stream < f[j].stream
}
func (f frames) Swap(i, j int) { f[i], f[j] = f[j], f[i] }
func (f *frames) Push(x any)   { *f = append(*f, x.(frame)) }
func (f *frames) Pop() any {
	last := (*f)[len(*f)-1]
	*f = (*f)[:len(*f)-1]
	return last
}

// begin draws the phases of streams that send rate frames per second in all.
func (s *Stream) begin(rate float64) {
	n := s.Frames.Senders(rate)
	s.gap = 1e9 * float64(n) / rate // of each: all of them send the rate
	for i := range n {
		due := float64(i) / float64(n)
		if !s.Frames.Chosen() {
			due = s.rng.Float64()
		}
		s.next = append(s.next, frame{due: due * s.gap, stream: i})
		s.next[i].at = s.late(s.next[i].due, 0)
	}
	heap.Init(&s.next)
}

// late is when a frame that is due then comes, not before the one before.
func (s *Stream) late(due, before float64) float64 {
	return max(before, due+s.rng.Float64()*float64(s.Frames.Jitter))
}

// framed is the instant of the next frame of any stream.
func (s *Stream) framed() time.Duration {
	if len(s.next) == 0 {
		return never
	}
	f := &s.next[0]
	at := f.at
	s.from = f.stream
	f.due += s.gap
	if s.rng.IntN(framesInPhase) == 0 { // clocks drift, and streams come and go
		f.due += s.gap * s.rng.Float64()
	}
	f.at = s.late(f.due, f.at)
	heap.Fix(&s.next, 0)
	if at >= float64(never) {
		return never
	}
	return time.Duration(math.Round(at))
}

// From is which stream the last frame was of, counted from 0.
func (s *Stream) From() int { return s.from }

// Streams is how many streams send.
func (s *Stream) Streams() int {
	if of := s.Process.From; len(of) > 0 {
		return slices.Max(of) + 1
	}
	return len(s.next)
}
