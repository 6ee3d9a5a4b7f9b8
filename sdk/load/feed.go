package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/harpagon/harpagon/internal/osutil"
	"github.com/harpagon/harpagon/pipelines/histogram"
	"github.com/harpagon/harpagon/pipelines/quantity"
	"github.com/harpagon/harpagon/wire"
)

// mostAhead is how many frames of one stream may be under way, and mostRate how many a second one may
// send.
const (
	mostAhead = 1024
	mostRate  = 1e6
)

// FrameStream is one stream of a Feed, as sdk.Stream is: results come in the order of frames, one
// for each, and io.EOF behind the last.
type FrameStream interface {
	Send(n int, last bool) error // frame number n
	Receive() (n int, err error) // the error of the next frame, or of which number its answer is
	Shift() time.Duration        // how much later to send than before
	Close()
}

// FeedOptions of a Feed.
type FeedOptions struct {
	Pipeline string
	Kind     string // of streams, where the pipeline has several
	SLO      time.Duration
	Streams  int
	Rate     float64       // frames per second of each
	Planned  float64       // frames per second of each that are planned for; 0 for Rate
	Jitter   time.Duration // how far one may come after that pace
	Duration time.Duration
	Seed     uint64 // of phases
	Together bool   // all streams send at one instant; else each has a phase that is drawn
	Spread   bool   // or their phases are spread evenly over a period
	Fixed    bool   // streams keep their phases, whichever the gateway suggests

	Progress func(Progress) // called about once a second; may be nil

	// Ended is called with each frame at its end, one call at a time: those of a stream in order, but for
	// frames that are left out, which come among those under way. It may be nil.
	Ended func(stream string, f FrameFed)

	sleep func(ctx context.Context, d time.Duration) error // osutil.Sleep for nil
}

// FrameEnd is what became of a frame.
type FrameEnd string

// The ends. Those of the generator itself are SentLate, SentFast and Unsent: it runs beside other work,
// and sends less evenly than a camera.
const (
	InTime   FrameEnd = "in_time"
	Late     FrameEnd = "late"      // answered after the objective
	SentLate FrameEnd = "sent_late" // answered within the objective from when it was sent, which was late
	TooFast  FrameEnd = "too_fast"  // dropped as faster than planned, though it was sent at its pace: held up on its way
	SentFast FrameEnd = "sent_fast" // dropped as faster than planned, as it was sent
	Dropped  FrameEnd = "dropped"   // since it could not be in time
	NoPlace  FrameEnd = "no_place"  // its stream has no place
	Failed   FrameEnd = "failed"    // any other error
	Unsent   FrameEnd = "unsent"    // left out, as the generator was late
)

// FrameEnds are all of them, in the order of reports.
func FrameEnds() []FrameEnd {
	return []FrameEnd{InTime, Late, SentLate, TooFast, SentFast, Dropped, NoPlace, Failed, Unsent}
}

// Describe returns its meaning, as part of a line.
func (e FrameEnd) Describe() string {
	return map[FrameEnd]string{
		InTime:   "in time",
		Late:     "late",
		SentLate: "late by this program: in time from when they were sent",
		TooFast:  "dropped as faster than planned, though sent at their pace: held up on their way",
		SentFast: "dropped as faster than planned, as this program sent them: unevenly by more than the jitter, or at a higher rate",
		Dropped:  "dropped: they could not be in time",
		NoPlace:  "refused: their stream has no place",
		Failed:   "failed",
		Unsent:   "left out by this program, which was late",
	}[e]
}

// FrameFed is a frame at its end. Times count from FeedReport.Began.
type FrameFed struct {
	Number   int
	Answer   int // number of the frame whose answer came; -1 without one
	Due      time.Duration
	Sent     time.Duration // 0 of one that was left out, like Answered
	Answered time.Duration
	End      FrameEnd
}

// FeedReport is what came of the frames of streams.
type FeedReport struct {
	Pipeline string        `json:"pipeline"`
	Kind     string        `json:"kind,omitempty"` // of streams, where the pipeline has several
	SLO      time.Duration `json:"slo_ms"`
	Began    time.Time     `json:"began"`
	Rate     float64       `json:"frame_rate"` // of one stream
	Streams  []StreamFed   `json:"streams"`
	Refused  int           `json:"refused_streams"` // of which the first frame was refused
	Worst    float64       `json:"worst_attainment"`
	Median   float64       `json:"median_attainment"`
	Latency  Percentiles   `json:"-"`

	Ends      map[FrameEnd]int `json:"frames"`    // how many frames of all streams came to which end
	Misplaced int              `json:"misplaced"` // answers that were of another frame than was next

	Reasons map[string]string `json:"reasons,omitempty"` // text of the first error of each code
}

// StreamFed is what came of one stream. Every frame that was sent is in exactly one of the others but
// Unsent; see FrameEnd.
type StreamFed struct {
	Name       string  `json:"name"`
	Sent       int     `json:"sent"`
	InTime     int     `json:"in_time"`
	Late       int     `json:"late"`
	SentLate   int     `json:"sent_late"`
	TooFast    int     `json:"too_fast"`
	SentFast   int     `json:"sent_fast"`
	Dropped    int     `json:"dropped"`
	NoPlace    int     `json:"no_place"`
	Failed     int     `json:"failed"`
	Unsent     int     `json:"unsent"`
	Refused    bool    `json:"refused"`    // the first frame was
	Attainment float64 `json:"attainment"` // InTime / (Sent + Unsent)

	Missed []float64 `json:"missed_at_s,omitempty"` // seconds after Began at which frames were due that were not in time, the first thousand
}

// of is the count of frames with that end.
func (s *StreamFed) of(e FrameEnd) *int {
	return map[FrameEnd]*int{
		InTime: &s.InTime, Late: &s.Late, SentLate: &s.SentLate, TooFast: &s.TooFast, SentFast: &s.SentFast,
		Dropped: &s.Dropped, NoPlace: &s.NoPlace, Failed: &s.Failed, Unsent: &s.Unsent,
	}[e]
}

// mostMissed bounds StreamFed.Missed.
const mostMissed = 1000

// count counts a frame.
func (s *StreamFed) count(f FrameFed) {
	*s.of(f.End)++
	if f.End != Unsent {
		s.Sent++
	}
	if f.End != InTime && len(s.Missed) < mostMissed {
		s.Missed = append(s.Missed, math.Round(f.Due.Seconds()*1000)/1000)
	}
}

// Feed sends the frames of streams, each at its own pace, whether or not earlier ones were answered.
// A stream whose first frame is refused sends no more. Latency counts from the
// instant at which a frame was due.
func Feed(ctx context.Context, o FeedOptions, open func(stream int, name string) FrameStream) (*FeedReport, error) {
	if o.Streams < 1 || !(o.Rate > 0) || o.Rate > mostRate || o.Duration <= 0 {
		return nil, fmt.Errorf("load: %d streams of %v frames a second for %v: each must be above zero, and a rate at most 1000000", o.Streams, o.Rate, o.Duration)
	}
	f := &feed{FeedOptions: o, start: time.Now(), reasons: map[string]string{}, fed: make([]StreamFed, o.Streams)}
	if f.sleep == nil {
		f.sleep = osutil.Sleep
	}
	rng := rand.New(rand.NewPCG(o.Seed, 2))
	var all sync.WaitGroup
	for i := range f.fed {
		f.fed[i].Name = fmt.Sprintf("%s-%d", cmp.Or(o.Kind, "camera"), i+1)
		phase := time.Duration(0)
		switch period := float64(time.Second) / o.Rate; {
		case o.Together:
		case o.Spread:
			phase = time.Duration(period * float64(i) / float64(o.Streams))
		default:
			phase = time.Duration(period * rng.Float64())
		}
		all.Go(func() { f.run(ctx, &f.fed[i], phase, open(i, f.fed[i].Name)) })
	}
	done := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() { watch(done, f.Progress, f.progress) })
	all.Wait()
	close(done)
	watching.Wait()
	return f.report(), nil
}

type feed struct {
	FeedOptions
	start time.Time

	mu        sync.Mutex
	fed       []StreamFed
	latency   histogram.Histogram
	misplaced int
	reasons   map[string]string
}

// sentFrame is one on its way.
type sentFrame struct {
	FrameFed
	uneven *atomic.Bool // as it was sent, a gateway that gets it at once drops it, or another in its place
}

// paceOf is when the next frame of a stream is due by what was sent, as a gateway counts it (see
// admission.Streams), but by the generator's clock.
type paceOf struct {
	next  time.Duration
	until time.Duration // for which a frame waits at the gateway, which is
	waits *atomic.Bool
}

// sends notes a frame.
func (p *paceOf) sends(at time.Duration, rate float64, jitter time.Duration) (uneven *atomic.Bool) {
	uneven = new(atomic.Bool)
	period := time.Duration(float64(time.Second) / rate)
	switch early := p.next - jitter - at; {
	case early > period/4: // it cannot wait for its time, but may take the place of one that does
		uneven.Store(true)
		if p.waits != nil && at < p.until {
			p.waits.Store(true)
		}
		return uneven
	case early > 0:
		p.waits, p.until = uneven, p.next-jitter
	}
	p.next = max(p.next, at) + period
	return uneven
}

// run sends the frames of one stream.
func (f *feed) run(ctx context.Context, fed *StreamFed, phase time.Duration, s FrameStream) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	frames := max(1, int(f.Duration.Seconds()*f.Rate))
	end := f.start.Add(phase + f.Duration)
	at := func(n int) time.Time {
		return f.start.Add(phase + time.Duration(float64(n)/f.Rate*float64(time.Second)))
	}
	sent := make(chan sentFrame, min(frames, mostAhead)) // in order
	var receiving sync.WaitGroup
	receiving.Go(func() {
		for {
			n, err := s.Receive()
			if errors.Is(err, io.EOF) {
				return
			}
			if of := <-sent; f.answered(fed, of, n, err) {
				stop()
			}
		}
	})
	defer receiving.Wait()
	defer s.Close()
	var pace paceOf
	for n := range frames {
		if !f.Fixed {
			phase += s.Shift()
		}
		due := at(n)
		if due.After(end) { // of a stream that sends later than it began
			frames = n + 1
		}
		if f.sleep(ctx, time.Until(due)) != nil {
			return
		}
		frame := sentFrame{FrameFed: FrameFed{Number: n, Answer: -1, Due: due.Sub(f.start)}}
		if late := time.Since(due); n < frames-1 && late > max(f.SLO/lagShare, leastLag) { // the last one ends the stream
			frame.End = Unsent
			f.end(fed, frame.FrameFed)
			continue
		}
		frame.Sent = time.Since(f.start)
		frame.uneven = pace.sends(frame.Sent, f.planned(), f.Jitter)
		sent <- frame
		if s.Send(n, n == frames-1) != nil || n == frames-1 {
			return
		}
	}
}

// planned is how many frames per second of a stream are planned for.
func (f *feed) planned() float64 { return cmp.Or(f.Planned, f.Rate) }

// answered counts the answer of a frame, or its error; true where the stream was refused.
func (f *feed) answered(fed *StreamFed, of sentFrame, n int, err error) (refused bool) {
	of.Answered = time.Since(f.start)
	of.End = f.endOf(of, err)
	if err == nil {
		of.Answer = n
	}
	f.mu.Lock()
	switch {
	case err == nil:
		f.latency.Add(of.Answered - of.Due)
		if n != of.Number {
			f.misplaced++
		}
	default:
		refused = of.Number == 0 && of.End == NoPlace
		fed.Refused = fed.Refused || refused
		if c := code(err); f.reasons[c] == "" {
			f.reasons[c] = reason(err)
		}
	}
	f.mu.Unlock()
	f.end(fed, of.FrameFed)
	return refused
}

// endOf is what became of a frame that was sent.
func (f *feed) endOf(of sentFrame, err error) FrameEnd {
	var e *wire.Error
	switch {
	case err == nil && of.Answered-of.Due <= f.SLO:
		return InTime
	case err == nil && of.Answered-of.Sent <= f.SLO:
		return SentLate
	case err == nil:
		return Late
	case !errors.As(err, &e):
		return Failed
	case e.Cause == wire.CauseTooFast && of.uneven.Load():
		return SentFast
	case e.Cause == wire.CauseTooFast:
		return TooFast
	case e.Cause == wire.CauseNoPlace:
		return NoPlace
	case e.Code == wire.CodeOverloaded || e.Code == wire.CodeDeadline:
		return Dropped
	}
	return Failed
}

// end counts a frame.
func (f *feed) end(fed *StreamFed, frame FrameFed) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fed.count(frame)
	if f.Ended != nil {
		f.Ended(fed.Name, frame)
	}
}

func (f *feed) progress() Progress {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := Progress{Elapsed: time.Since(f.start), Total: f.Duration}
	for _, s := range f.fed {
		late := s.Late + s.SentLate
		p.Sent, p.Completed, p.Late, p.Failed = p.Sent+s.Sent, p.Completed+s.InTime+late, p.Late+late, p.Failed+s.Sent-s.InTime-late
	}
	return p
}

func (f *feed) report() *FeedReport {
	r := &FeedReport{Pipeline: f.Pipeline, Kind: f.Kind, SLO: f.SLO, Began: f.start, Rate: f.Rate, Streams: f.fed, Worst: 1, Median: 1, Latency: f.latency.Percentiles(), Ends: map[FrameEnd]int{}, Misplaced: f.misplaced, Reasons: f.reasons}
	var shares []float64
	for i := range r.Streams {
		s := &r.Streams[i]
		for _, end := range FrameEnds() {
			r.Ends[end] += *s.of(end)
		}
		if n := s.Sent + s.Unsent; n > 0 {
			s.Attainment = float64(s.InTime) / float64(n)
		}
		if s.Refused {
			r.Refused++
			continue
		}
		shares = append(shares, s.Attainment)
	}
	if slices.Sort(shares); len(shares) > 0 {
		r.Worst, r.Median = shares[0], shares[(len(shares)-1)/2]
	}
	return r
}

// mostStreamsListed is how many streams Describe lists, those that attain least.
const mostStreamsListed = 10

// Describe is the report for people.
func (r *FeedReport) Describe() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s of %s frames/s, objective %s\n", r.Pipeline, quantity.Count(len(r.Streams), strings.TrimSpace(r.Kind+" stream")), quantity.Number(r.Rate), quantity.Duration(r.SLO))
	if r.Refused > 0 {
		fmt.Fprintf(&b, "%s refused\n", quantity.Count(r.Refused, "stream"))
	}
	fmt.Fprintf(&b, "of the worst stream %s in time, of the median %s; latency p50 %s, p99 %s, max %s\n\n",
		quantity.Percent(r.Worst), quantity.Percent(r.Median), quantity.Duration(r.Latency.P50), quantity.Duration(r.Latency.P99), quantity.Duration(r.Latency.Max))
	all := slices.Clone(r.Streams)
	slices.SortStableFunc(all, func(a, b StreamFed) int { return cmp.Compare(a.Attainment, b.Attainment) })
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "stream\tsent\tin time\tlate\tdropped\trefused\tfailed\tunsent\tattainment\t")
	for _, s := range all[:min(len(all), mostStreamsListed)] {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%s\t\n", s.Name, s.Sent, s.InTime, s.Late+s.SentLate, s.Dropped+s.TooFast+s.SentFast, s.NoPlace, s.Failed, s.Unsent, quantity.Percent(s.Attainment))
	}
	_ = w.Flush() // a strings.Builder takes everything
	if n := len(all) - mostStreamsListed; n > 0 {
		fmt.Fprintf(&b, "and %d more, of which each attains no less\n", n)
	}
	for _, end := range FrameEnds() {
		if n := r.Ends[end]; n > 0 && end != InTime {
			fmt.Fprintf(&b, "%s %s\n", quantity.Count(n, "frame"), end.Describe())
		}
	}
	if r.Misplaced > 0 {
		fmt.Fprintf(&b, "%s not of the frame that was next\n", quantity.Count(r.Misplaced, "answer"))
	}
	for _, c := range slices.Sorted(maps.Keys(r.Reasons)) {
		fmt.Fprintf(&b, "%s: %s\n", c, r.Reasons[c])
	}
	return b.String()
}

// MarshalJSON writes durations in milliseconds.
func (r *FeedReport) MarshalJSON() ([]byte, error) {
	return quantity.Marshal(*r, quantity.Derived{After: "median_attainment", Tag: "latency_ms", Value: inMS(r.Latency)})
}
