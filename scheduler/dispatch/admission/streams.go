package admission

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/quantity"
)

// Streams admits the frames of streams of one kind that are open at one door of a pipeline; how many may be
// is up to Places. Of each stream come no more frames than a plan covers: by the generic cell rate
// algorithm (ITU-T I.371), which lets through what keeps to a period G with a jitter J. A frame that
// is early by a part of a period waits for its time, one of a stream at the most; which of two is
// dropped is the stream's rule. One that is earlier is dropped: if it waited, it would take the time
// of the next. So a stream that sends too much loses frames of its own, and nobody else's.
//
// It is a plain value for drivers to hold; one call at a time.
type Streams struct {
	open    map[string]*stream
	soonest Time            // when the next of them may be over; before that nobody looks
	within  Time            // the silence after which they are, by which that was found
	refused map[string]Time // streams for which there was no place: when their next frame is due
}

// StreamRules are those of the plan that serves: of one kind, with Count as many as are planned for.
type StreamRules struct{ pipelines.Stream }

// Silence is how long a stream sends nothing before it is over.
func (r *StreamRules) Silence() Time { return max(silentFor, silentPeriods*r.Period()) }

// silent is when a stream without frames is over: so many periods, and so long, at the least.
const (
	silentPeriods = 10
	silentFor     = 10 * time.Second
)

// early is the part of a period that a frame may wait for its time.
const early = 0.25

type stream struct {
	due    Time // when the latest frame that has come in was due by the stream's pace, or later when it came in
	last   Time // when a frame came last
	held   any  // the frame that waits for its time; nil for none
	spared bool // the last one that came while another waited was dropped: the next is not
	ended  bool // no more are to come
	recent recent

	// Of the frames that counted lately; see Count. Fast are those that were dropped as too fast.
	frames, inTime, fast int64

	looks int  // at when frames come, since it was told when to send
	late  Time // the least after its phase of those
}

// next is when the next frame is due.
func (s *stream) next(r *StreamRules) Time { return s.due + r.Period() }

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
	StreamRefused                      // its stream is not open
)

// Arrive takes a frame of a stream that is open. It waits until the time that is given, or is
// dropped; so is the frame that waited before, where the rule says so: that is the second value,
// nil for none.
func (s *Streams) Arrive(now Time, r *StreamRules, f StreamFrame) (v StreamVerdict, dropped any, until Time) {
	of := s.open[f.Stream]
	if of == nil {
		return StreamRefused, nil, 0
	}
	of.last, of.ended = now, f.Last
	of.due = min(of.due, now+r.Jitter) // where the plan's jitter was larger, or its rate lower
	if of.ended {
		s.soonest = min(s.soonest, of.next(r))
	}
	until = of.next(r) - r.Jitter
	wait := until - now
	switch {
	case of.held == nil && wait <= 0:
		of.due = max(of.next(r), now)
		return StreamEnters, nil, now
	case wait > Time(early*float64(r.Period())) || f.Deadline != 0 && f.Deadline <= until:
		of.fast++
		return StreamDrops, nil, 0
	case of.held == nil:
		of.held = f.Frame
		return StreamWaits, nil, until
	}
	of.fast++ // one of the two
	switch {
	case r.Stale == pipelines.StaleNewest || r.Stale == pipelines.StaleAlternate && !of.spared:
		of.spared = true
		return StreamDrops, nil, 0
	}
	of.spared = false
	dropped, of.held = of.held, f.Frame
	return StreamWaits, dropped, max(until, now)
}

// Open opens a stream that has a place.
func (s *Streams) Open(now Time, r *StreamRules, name string) {
	if s.open == nil {
		s.open = make(map[string]*stream)
	}
	if s.open[name] == nil {
		s.open[name] = &stream{due: now - r.Period(), last: now}
		s.soonest = min(s.soonest, now+r.Silence())
	}
	delete(s.refused, name)
}

// Close closes a stream that has no place any more. A frame of it that waits is not released.
func (s *Streams) Close(name string) { delete(s.open, name) }

// Expire closes streams that are over, and returns them: the place of each is free when its next
// frame could have come. Next is when another may be; 0 where none is open.
func (s *Streams) Expire(now Time, r *StreamRules) (over []string, next Time) {
	if now >= s.soonest || s.within != r.Silence() {
		s.soonest, s.within = math.MaxInt64, r.Silence()
		for name, of := range s.open {
			end := of.last + r.Silence()
			if of.ended {
				end = min(end, of.next(r))
			}
			if of.held == nil && end <= now {
				delete(s.open, name)
				over = append(over, name)
				continue
			}
			s.soonest = min(s.soonest, max(end, now+time.Millisecond))
		}
	}
	if len(s.open) == 0 {
		return over, 0
	}
	return over, s.soonest
}

// mostRefused bounds the streams without a place that are remembered.
const mostRefused = 4096

// Refuse notes a frame of a stream for which there is no place. It reports whether the frame counts
// as load to plan for: of every stream no more do than one of the pipeline's sends, however often it
// tries.
func (s *Streams) Refuse(now Time, r *StreamRules, name string) (load bool) {
	due, known := s.refused[name]
	if known && due > now+Time(early*float64(r.Period())) {
		return false
	}
	if s.refused == nil || !known && len(s.refused) >= mostRefused {
		s.refused = make(map[string]Time)
	}
	s.refused[name] = max(due, now) + r.Period()
	return true
}

// Release takes in a frame that has waited; false where it waits no longer. Its time is the one that
// Arrive gave.
func (s *Streams) Release(now Time, r *StreamRules, name string, frame any) bool {
	of := s.open[name]
	if of == nil || of.held != frame {
		return false
	}
	of.held = nil
	of.due = max(of.next(r), now)
	return true
}

// looking is how many frames of a stream are looked at together; as many may be under way when it is
// told to send at other times, and come before it does.
const looking = 16

// Look looks at when a frame of a stream comes, whose phase has that instant, and reports how much later
// the stream should send: 0 while it is not told anything, as after the first frame it is, and then
// where of so many frames none has come in its time, which is from its phase on for the tolerance.
func (s *Streams) Look(came Time, r *StreamRules, name string, phase Time) (shift Time) {
	of := s.open[name]
	if of == nil || r.Count < 1 {
		return 0
	}
	period := r.Period()
	before := Time(early * float64(period)) // what comes sooner than that has been held up
	late := modulo(came-phase+before, period) - before
	of.looks++
	switch first := of.looks == 1; {
	case !first && of.looks <= looking+1: // some of them were sent before it was told
		return 0
	case first || of.looks == looking+2:
		of.late = late
	default:
		of.late = min(of.late, late)
	}
	if of.looks > 1 && of.looks <= 2*looking {
		return 0
	}
	if of.looks > 1 {
		of.looks = looking + 1
	}
	if of.late >= 0 && of.late <= r.Tolerance() {
		return 0
	}
	of.looks = 1
	return modulo(-of.late, period)
}

func modulo(a, b Time) Time { return (a%b + b) % b }

// Withdraw takes back a frame that waits, since nobody waits for it.
func (s *Streams) Withdraw(name string, frame any) {
	if of := s.open[name]; of != nil && of.held == frame {
		of.held = nil
	}
}

// Count counts a frame that has come to its end, in time or not. Those count that a plan promises
// something of, as in the attainment of the service: none that came faster than the stream's rate, was
// wrong in itself, or whose caller went away.
func (s *Streams) Count(name string, inTime bool) {
	of := s.open[name]
	if of == nil {
		return
	}
	if of.frames++; of.frames > remembered {
		of.frames, of.inTime, of.fast = of.frames/2, of.inTime/2, of.fast/2
	}
	if inTime {
		of.inTime++
	}
	of.recent.count(inTime)
}

// share is that of the stream's frames which was answered in time; 1 where none counts yet.
func (s *stream) share() float64 {
	if s.frames == 0 {
		return 1
	}
	return float64(s.inTime) / float64(s.frames)
}

// recent is what a stream lately attained.
type recent struct {
	frames, inTime int       // since the last of the shares
	shares         []float64 // of so many frames each, the latest last
}

const mostRecent = 120

// count counts a frame.
func (r *recent) count(inTime bool) {
	r.frames++
	if inTime {
		r.inTime++
	}
	if r.frames < looking {
		return
	}
	if len(r.shares) == mostRecent {
		r.shares = r.shares[:copy(r.shares, r.shares[1:])]
	}
	r.shares = append(r.shares, float64(r.inTime)/looking)
	r.frames, r.inTime = 0, 0
}

// StreamLine is one stream that is open, and what it attains.
type StreamLine struct {
	Name       string
	Kind       string    // of several; empty for the only one
	ID         string    // which the driver may set, where names are not one stream's alone
	Frames     int64     // its last thousand or so that count; see Streams.Count
	Attainment float64   // of these
	Recent     []float64 // of sixteen frames each, the latest last
	TooFast    int64     // frames that were dropped beside those, since they came faster than planned
}

// WorstFirst is the order of lines: those that attain least first.
func WorstFirst(a, b StreamLine) int {
	return cmp.Or(cmp.Compare(a.Attainment, b.Attainment), cmp.Compare(a.Name, b.Name))
}

// Lines are the streams that are open, those that attain least first, so many at the most.
func (s *Streams) Lines(most int) []StreamLine {
	all := make([]StreamLine, 0, len(s.open))
	for name, of := range s.open {
		if of.frames+of.fast > 0 {
			all = append(all, StreamLine{Name: name, Frames: of.frames, Attainment: of.share(), Recent: of.recent.shares, TooFast: of.fast})
		}
	}
	slices.SortFunc(all, WorstFirst)
	all = all[:min(most, len(all))]
	for i := range all {
		all[i].Recent = slices.Clone(all[i].Recent)
	}
	return all
}

// StreamShares are what the streams that are open attain: which share of a stream's frames was
// answered in time, of the last thousand or so that count; see Streams.Count.
type StreamShares struct {
	Kind      string  `json:"kind,omitempty"` // of all these streams, where there are several
	Open      int     `json:"open"`
	Most      int     `json:"planned"` // that may be open
	Worst     float64 `json:"worst_attainment"`
	WorstName string  `json:"worst,omitempty"`
	Median    float64 `json:"median_attainment"` // 1 without any, like Worst
	TooFast   int64   `json:"too_fast"`          // frames that were dropped beside those, since they came faster than planned

	Kinds []StreamShares `json:"kinds,omitempty"` // of streams of several kinds those of each
}

// SharesOfKinds are those of a pipeline whose streams have several kinds, one without a name where it has a
// single one.
func SharesOfKinds(kinds []StreamShares) (all StreamShares) {
	for i, of := range kinds {
		if i == 0 {
			all = of
			continue
		}
		most := all.Most + of.Most
		all = all.Add(of)
		all.Most = most
	}
	if len(kinds) > 1 {
		all.Kind, all.Kinds = "", kinds
	}
	return all
}

// Each are those of each kind; none for nil.
func (s *StreamShares) Each() []StreamShares {
	switch {
	case s == nil:
		return nil
	case len(s.Kinds) > 0:
		return s.Kinds
	}
	return []StreamShares{*s}
}

// Add is what two doors of one pipeline see, to each of which other streams come.
func (s StreamShares) Add(other StreamShares) StreamShares {
	if s.Open == 0 || other.Open > 0 && other.Worst < s.Worst {
		s.Worst, s.WorstName = other.Worst, other.WorstName
	}
	if all := s.Open + other.Open; all > 0 {
		s.Median = (s.Median*float64(s.Open) + other.Median*float64(other.Open)) / float64(all)
	}
	s.Open, s.Most, s.TooFast = s.Open+other.Open, max(s.Most, other.Most), s.TooFast+other.TooFast
	s.Kinds = slices.Clone(s.Kinds)
	for _, of := range other.Kinds {
		if i := slices.IndexFunc(s.Kinds, func(k StreamShares) bool { return k.Kind == of.Kind }); i >= 0 {
			s.Kinds[i] = s.Kinds[i].Add(of)
		} else {
			s.Kinds = append(s.Kinds, of)
		}
	}
	return s
}

// Describe is a line for people, and one for each of several kinds.
func (s StreamShares) Describe() string {
	if len(s.Kinds) > 0 {
		var lines []string
		for _, k := range s.Kinds {
			lines = append(lines, k.Describe())
		}
		return strings.Join(lines, "\n")
	}
	of := strings.TrimSpace(s.Kind + " streams")
	if s.Open == 0 {
		return fmt.Sprintf("%s: none of %d open", of, s.Most)
	}
	line := fmt.Sprintf("%s: %d of %d open; of the worst, %q, %s in time, of the median %s", of, s.Open, s.Most, s.WorstName, quantity.Percent(s.Worst), quantity.Percent(s.Median))
	if s.TooFast > 0 {
		line += fmt.Sprintf("; %s dropped beside these that came faster than planned", quantity.Count(int(s.TooFast), "frame"))
	}
	return line
}

// remembered is how many frames of a stream count at the most; then half of them are forgotten.
const remembered = 1024

// Shares describes the streams that are open.
func (s *Streams) Shares(r *StreamRules) StreamShares {
	all := StreamShares{Kind: r.Kind, Open: len(s.open), Most: r.Count, Worst: 1, Median: 1}
	var shares []float64
	for name, of := range s.open {
		if all.TooFast += of.fast; of.frames == 0 {
			continue
		}
		share := of.share()
		if shares = append(shares, share); share < all.Worst || share == all.Worst && (all.WorstName == "" || name < all.WorstName) {
			all.Worst, all.WorstName = share, name
		}
	}
	if slices.Sort(shares); len(shares) > 0 {
		all.Median = shares[(len(shares)-1)/2]
	}
	return all
}
