package admission

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/quantity"
)

// Streams admits streams and their frames at the door of a pipeline. As many streams are open at a
// time as were planned for, and of each stream come no more frames than a plan covers: by the
// generic cell rate algorithm (ITU-T I.371), which lets through what keeps to a period G with a
// jitter J. A frame that is early by a part of a period waits for its time, one of a stream at the
// most; which of two is dropped is the stream's rule. One that is earlier is dropped: if it waited,
// it would take the time of the next. So a stream that sends too much loses frames of its own, and
// nobody else's.
//
// It is a plain value for drivers to hold; one call at a time.
type Streams struct {
	open    map[string]*stream
	opened  int  // streams so far
	soonest Time // when the next of them may be over; before that nobody looks
}

// StreamRules are those of the plan that serves.
type StreamRules struct {
	pipelines.Stream
	Most int // streams that may be open
}

func (r *StreamRules) period() Time { return Time(float64(time.Second) / r.Rate) }

// silence is how long a stream sends nothing before it is over.
func (r *StreamRules) silence() Time { return max(silentFor, silentPeriods*r.period()) }

// silent is when a stream without frames is over: so many periods, and so long, at the least.
const (
	silentPeriods = 10
	silentFor     = 10 * time.Second
)

// early is the part of a period that a frame may wait for its time.
const early = 0.25

type stream struct {
	number int  // in the order in which they opened
	next   Time // when the next frame is due by the stream's pace
	last   Time // when a frame came last
	held   any  // the frame that waits for its time; nil for none
	spared bool // the last one that came while another waited was dropped: the next is not
	ended  bool // no more are to come
	kept   any  // see Kept
	frames int64
	inTime int64
}

// StreamFrame is one that comes.
type StreamFrame struct {
	Stream      string
	First, Last bool // of its stream
	Deadline    Time // by which it must be answered; 0 for none
	Frame       any  // a value of the driver's to tell frames apart, not nil
}

// StreamVerdict is what becomes of a frame.
type StreamVerdict uint8

// The verdicts.
const (
	StreamEnters  StreamVerdict = iota // now
	StreamWaits                        // until its time; see Release
	StreamDrops                        // by the rule of its stream, or since it comes too soon
	StreamRefused                      // as many streams are open as were planned for
)

// Arrive takes a frame of a stream, which it opens where it is not open. It waits until the time
// that is given, or is dropped; so is the frame that waited before, where the rule says so: that is
// the second value, nil for none.
func (s *Streams) Arrive(now Time, r *StreamRules, f StreamFrame) (v StreamVerdict, dropped any, until Time) {
	if len(s.open) > r.Most {
		s.shrink(now, r)
	}
	of := s.open[f.Stream]
	if of == nil {
		if of = s.begin(now, r, f.Stream); of == nil {
			return StreamRefused, nil, 0
		}
	}
	of.last, of.ended = now, f.Last || of.ended && !f.First
	if of.ended {
		s.soonest = min(s.soonest, of.next)
	}
	if of.frames++; of.frames > remembered {
		of.frames, of.inTime = of.frames/2, of.inTime/2
	}
	until = of.next - r.Jitter
	wait := until - now
	switch {
	case of.held == nil && wait <= 0:
		of.next = max(of.next, now) + r.period()
		return StreamEnters, nil, now
	case wait > Time(early*float64(r.period())) || f.Deadline != 0 && f.Deadline <= until:
		return StreamDrops, nil, 0
	case of.held == nil:
		of.held = f.Frame
		return StreamWaits, nil, until
	case r.Stale == pipelines.StaleNewest || r.Stale == pipelines.StaleAlternate && !of.spared:
		of.spared = true
		return StreamDrops, nil, 0
	}
	of.spared = false
	dropped, of.held = of.held, f.Frame
	return StreamWaits, dropped, max(until, now)
}

// begin opens a stream; nil where there is no room.
func (s *Streams) begin(now Time, r *StreamRules, name string) *stream {
	if len(s.open) >= r.Most {
		s.expire(now, r)
	}
	if len(s.open) >= r.Most {
		return nil
	}
	if s.open == nil {
		s.open = make(map[string]*stream)
	}
	s.opened++
	of := &stream{number: s.opened, next: now, last: now}
	s.open[name] = of
	s.soonest = min(s.soonest, now+r.silence())
	return of
}

// expire closes streams that are over, the place of each of which is free when its next frame
// could have come.
func (s *Streams) expire(now Time, r *StreamRules) {
	if now < s.soonest {
		return
	}
	s.soonest = math.MaxInt64
	for name, of := range s.open {
		over := of.last + r.silence()
		if of.ended {
			over = min(over, of.next)
		}
		if of.held == nil && over <= now {
			delete(s.open, name)
			continue
		}
		s.soonest = min(s.soonest, max(over, now+1))
	}
}

// shrink closes the streams that opened last, where fewer are planned for than are open.
func (s *Streams) shrink(now Time, r *StreamRules) {
	s.soonest = 0
	if s.expire(now, r); len(s.open) <= r.Most {
		return
	}
	var numbers []int
	for _, of := range s.open {
		numbers = append(numbers, of.number)
	}
	slices.Sort(numbers)
	for name, of := range s.open {
		if of.number >= numbers[r.Most] && of.held == nil {
			delete(s.open, name)
		}
	}
}

// Release takes in a frame that has waited; false where it waits no longer. Its time is the one that
// Arrive gave.
func (s *Streams) Release(now Time, r *StreamRules, name string, frame any) bool {
	of := s.open[name]
	if of == nil || of.held != frame {
		return false
	}
	of.held = nil
	of.next = max(of.next, now) + r.period()
	return true
}

// Withdraw takes back a frame that waits, since nobody waits for it.
func (s *Streams) Withdraw(name string, frame any) {
	if of := s.open[name]; of != nil && of.held == frame {
		of.held = nil
	}
}

// Kept is what the driver keeps of a stream that is open, for as long as it is; nil at first.
func (s *Streams) Kept(name string) *any { return &s.open[name].kept }

// Answer counts a frame that was answered in time.
func (s *Streams) Answer(name string) {
	if of := s.open[name]; of != nil {
		of.inTime++
	}
}

// StreamShares are what the streams that are open attain: which share of a stream's frames was
// answered in time, of the last thousand or so.
type StreamShares struct {
	Open      int     `json:"open"`
	Most      int     `json:"planned"` // that may be open
	Worst     float64 `json:"worst_attainment"`
	WorstName string  `json:"worst,omitempty"`
	Median    float64 `json:"median_attainment"` // 1 without any, like Worst
}

// Add is what two doors of one pipeline see, to each of which other streams come.
func (s StreamShares) Add(other StreamShares) StreamShares {
	if s.Open == 0 || other.Open > 0 && other.Worst < s.Worst {
		s.Worst, s.WorstName = other.Worst, other.WorstName
	}
	if all := s.Open + other.Open; all > 0 {
		s.Median = (s.Median*float64(s.Open) + other.Median*float64(other.Open)) / float64(all)
	}
	s.Open, s.Most = s.Open+other.Open, max(s.Most, other.Most)
	return s
}

// Describe is a line for people.
func (s StreamShares) Describe() string {
	if s.Open == 0 {
		return fmt.Sprintf("streams: none of %d open", s.Most)
	}
	return fmt.Sprintf("streams: %d of %d open; of the worst, %q, %s in time, of the median %s", s.Open, s.Most, s.WorstName, quantity.Percent(s.Worst), quantity.Percent(s.Median))
}

// remembered is how many frames of a stream count at the most; then half of them are forgotten.
const remembered = 1024

// Shares tells of the streams that are open.
func (s *Streams) Shares(now Time, r *StreamRules) StreamShares {
	s.expire(now, r)
	all := StreamShares{Open: len(s.open), Most: r.Most, Worst: 1, Median: 1}
	var shares []float64
	for name, of := range s.open {
		if of.frames == 0 {
			continue
		}
		share := float64(of.inTime) / float64(of.frames)
		if shares = append(shares, share); share < all.Worst || share == all.Worst && (all.WorstName == "" || name < all.WorstName) {
			all.Worst, all.WorstName = share, name
		}
	}
	if slices.Sort(shares); len(shares) > 0 {
		all.Median = shares[(len(shares)-1)/2]
	}
	return all
}
