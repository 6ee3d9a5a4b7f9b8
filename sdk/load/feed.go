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
	Receive() error              // the error of the next frame
	Shift() time.Duration        // how much later to send than before
	Close()
}

// FeedOptions of a Feed.
type FeedOptions struct {
	Pipeline string
	SLO      time.Duration
	Streams  int
	Rate     float64 // frames per second of each
	Duration time.Duration
	Seed     uint64 // of phases
	Together bool   // all streams send at one instant; else each has a phase that is drawn
	Spread   bool   // or their phases are spread evenly over a period
	Fixed    bool   // streams keep their phases, whatever the gateway says

	Progress func(Progress) // called about once a second; may be nil
}

// FeedReport is what came of the frames of streams.
type FeedReport struct {
	Pipeline string        `json:"pipeline"`
	SLO      time.Duration `json:"slo_ms"`
	Began    time.Time     `json:"began"`
	Rate     float64       `json:"frame_rate"` // of one stream
	Streams  []StreamFed   `json:"streams"`
	Refused  int           `json:"refused_streams"` // of which the first frame was refused
	Worst    float64       `json:"worst_attainment"`
	Median   float64       `json:"median_attainment"`
	Latency  Percentiles   `json:"-"`

	Reasons map[string]string `json:"reasons,omitempty"` // what the first error of each code says
}

// StreamFed is what came of one stream. Every frame is in exactly one of InTime, Late, Dropped and
// Failed; Unsent are those that the generator left out, since the stream had too many under way.
type StreamFed struct {
	Name       string  `json:"name"`
	Sent       int     `json:"sent"`
	InTime     int     `json:"in_time"`
	Late       int     `json:"late"`
	Dropped    int     `json:"dropped"` // by the stream's rule, or refused
	Failed     int     `json:"failed"`
	Unsent     int     `json:"unsent"`
	Refused    bool    `json:"refused"`    // the first frame was
	Attainment float64 `json:"attainment"` // InTime / (Sent + Unsent)

	Missed []float64 `json:"missed_at_s,omitempty"` // seconds after Began at which frames were due that were not in time, the first thousand
}

// mostMissed bounds StreamFed.Missed.
const mostMissed = 1000

// miss notes a frame that was not in time.
func (s *StreamFed) miss(due time.Duration) {
	if len(s.Missed) < mostMissed {
		s.Missed = append(s.Missed, math.Round(due.Seconds()*1000)/1000)
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
	rng := rand.New(rand.NewPCG(o.Seed, 2))
	var all sync.WaitGroup
	for i := range f.fed {
		f.fed[i].Name = fmt.Sprintf("camera-%d", i+1)
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

	mu      sync.Mutex
	fed     []StreamFed
	latency histogram.Histogram
	reasons map[string]string
}

// sentFrame is one that was due then.
type sentFrame struct {
	number int
	due    time.Time
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
			err := s.Receive()
			if errors.Is(err, io.EOF) {
				return
			}
			if of := <-sent; f.count(fed, of, err) {
				stop()
			}
		}
	})
	defer receiving.Wait()
	defer s.Close()
	for n := range frames {
		if !f.Fixed {
			phase += s.Shift()
		}
		due := at(n)
		if due.After(end) { // of a stream that sends later than it began
			frames = n + 1
		}
		if osutil.Sleep(ctx, time.Until(due)) != nil {
			return
		}
		if late := time.Since(due); n < frames-1 && late > max(f.SLO/lagShare, leastLag) { // the last one ends the stream
			f.mu.Lock()
			fed.miss(due.Sub(f.start))
			fed.Unsent++
			f.mu.Unlock()
			continue
		}
		sent <- sentFrame{n, due}
		if s.Send(n, n == frames-1) != nil || n == frames-1 {
			return
		}
	}
}

// count counts what came of a frame; true where the stream was refused.
func (f *feed) count(fed *StreamFed, of sentFrame, err error) (refused bool) {
	took, first := time.Since(of.due), of.number == 0
	f.mu.Lock()
	defer f.mu.Unlock()
	if fed.Sent++; err != nil || took > f.SLO {
		fed.miss(of.due.Sub(f.start))
	}
	var e *wire.Error
	switch {
	case err == nil && took <= f.SLO:
		fed.InTime++
		f.latency.Add(took)
		return false
	case err == nil:
		fed.Late++
		f.latency.Add(took)
		return false
	case errors.As(err, &e) && (e.Code == wire.CodeOverloaded || e.Code == wire.CodeDeadline):
		fed.Dropped++
		refused = first && e.Code == wire.CodeOverloaded
		fed.Refused = fed.Refused || refused
	default:
		fed.Failed++
	}
	if c := code(err); f.reasons[c] == "" {
		f.reasons[c] = reason(err)
	}
	return refused
}

func (f *feed) progress() Progress {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := Progress{Elapsed: time.Since(f.start), Total: f.Duration}
	for _, s := range f.fed {
		p.Sent, p.Completed, p.Late, p.Failed = p.Sent+s.Sent, p.Completed+s.InTime+s.Late, p.Late+s.Late, p.Failed+s.Dropped+s.Failed
	}
	return p
}

func (f *feed) report() *FeedReport {
	r := &FeedReport{Pipeline: f.Pipeline, SLO: f.SLO, Began: f.start, Rate: f.Rate, Streams: f.fed, Worst: 1, Median: 1, Latency: f.latency.Percentiles(), Reasons: f.reasons}
	var shares []float64
	for i := range r.Streams {
		s := &r.Streams[i]
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
	fmt.Fprintf(&b, "%s: %s of %s frames/s, objective %s\n", r.Pipeline, quantity.Count(len(r.Streams), "stream"), quantity.Number(r.Rate), quantity.Duration(r.SLO))
	if r.Refused > 0 {
		fmt.Fprintf(&b, "%s refused\n", quantity.Count(r.Refused, "stream"))
	}
	fmt.Fprintf(&b, "of the worst stream %s in time, of the median %s; latency p50 %s, p99 %s, max %s\n\n",
		quantity.Percent(r.Worst), quantity.Percent(r.Median), quantity.Duration(r.Latency.P50), quantity.Duration(r.Latency.P99), quantity.Duration(r.Latency.Max))
	all := slices.Clone(r.Streams)
	slices.SortStableFunc(all, func(a, b StreamFed) int { return cmp.Compare(a.Attainment, b.Attainment) })
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "stream\tsent\tin time\tlate\tdropped\tfailed\tunsent\tattainment\t")
	for _, s := range all[:min(len(all), mostStreamsListed)] {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%s\t\n", s.Name, s.Sent, s.InTime, s.Late, s.Dropped, s.Failed, s.Unsent, quantity.Percent(s.Attainment))
	}
	_ = w.Flush() // a strings.Builder takes everything
	if n := len(all) - mostStreamsListed; n > 0 {
		fmt.Fprintf(&b, "and %d more, of which each attains no less\n", n)
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
