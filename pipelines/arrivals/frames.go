package arrivals

import (
	"container/heap"
	"math"
	"slices"
	"time"

	"github.com/harpagon/harpagon/pipelines"
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
	gap     float64 // from one to the next
	jitter  float64
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
	total := 0.0
	s.kinds = pipelines.Sending(s.Frames, rate)
	for _, of := range s.kinds {
		total += of.Total()
	}
	for k, of := range s.kinds {
		gap := 1e9 / of.Rate * (total / rate) // of each: all of them send the rate
		from := 0.0
		if k > 0 { // the periods of two kinds begin at other times
			from = s.rng.Float64()
		}
		for i := range of.Count {
			due := from + float64(i)/float64(of.Count)
			if !of.Chosen() {
				due = s.rng.Float64()
			}
			next := frame{due: due * gap, gap: gap, jitter: float64(of.Jitter), stream: len(s.next)}
			next.at = s.late(&next)
			s.next = append(s.next, next)
		}
	}
	heap.Init(&s.next)
}

// late is when a frame that is due comes, not before the one before.
func (s *Stream) late(f *frame) float64 { return max(f.at, f.due+s.rng.Float64()*f.jitter) }

// framed is the instant of the next frame of any stream.
func (s *Stream) framed() time.Duration {
	if len(s.next) == 0 {
		return never
	}
	f := &s.next[0]
	at := f.at
	s.from = f.stream
	f.due += f.gap
	if s.rng.IntN(framesInPhase) == 0 { // clocks drift, and streams come and go
		f.due += f.gap * s.rng.Float64()
	}
	f.at = s.late(f)
	heap.Fix(&s.next, 0)
	if at >= float64(never) {
		return never
	}
	return time.Duration(math.Round(at))
}

// From is which stream the last frame was of, counted from 0.
func (s *Stream) From() int { return s.from }

// Kinds are the kinds of streams that send, of frames, with Count as many as do: From counts those of one kind
// after the other.
func (s *Stream) Kinds() []pipelines.Stream { return s.kinds }

// Streams is how many streams send.
func (s *Stream) Streams() int {
	if of := s.Process.From; len(of) > 0 {
		return slices.Max(of) + 1
	}
	return len(s.next)
}
