package experiments

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/arrivals"
	"github.com/harpagon/harpagon/scheduler/autoscale/size"
	"github.com/harpagon/harpagon/scheduler/simulate"
)

// A square wave of load on a cluster that follows its own advice, beside an oracle that has
// the wave beforehand.
const (
	wavePeak  = 900.0 // requests/s of InceptionResNetV2, which eight devices bear
	waveStart = 5 * time.Second
	waveSpan  = 12 * time.Minute // at least, in whole periods
	waveFirst = 4                // periods in which it is learned, before that

	withMemory = "with memory" // the rule of follower
)

// Wave is a load that jumps between the peak and a share of it.
type Wave struct {
	Period time.Duration
	Low    float64 // share of the peak
}

// Waved is what a wave did.
type Waved struct {
	Paid, Oracle float64 // devices, on average
	Changes      float64 // of the size, a period
	Lost         float64 // share of the requests
}

// Play plays the wave with so many devices at most, of which the low half needs few, by the size's own
// rule or another, and reports what it did in its first periods and after them. The oracle has the devices that either half needs in
// time, pays for those that start, too, and keeps them where that is cheaper.
func (w Wave) Play(few, many int, advise func(size.Measures) size.Advice, stop func() bool) (first, then Waved, err error) {
	begin := waveFirst * w.Period
	span := begin + w.Period*time.Duration(math.Ceil(waveSpan.Seconds()/w.Period.Seconds()))
	rng := rand.New(rand.NewPCG(14, 1))
	trace := &pipelines.Trace{}
	for s := range int64(span.Seconds()) {
		rate := wavePeak
		if time.Duration(s)*time.Second%w.Period < w.Period/2 {
			rate *= w.Low
		}
		trace.Seconds, trace.Counts = append(trace.Seconds, s), append(trace.Counts, float64(simulate.DrawPoisson(rng, rate)))
	}
	load := simulate.Load{Pipeline: table4()[1].pipeline(0), Arrivals: arrivals.Process{Kind: pipelines.ArrivalsTrace, Trace: trace}}
	r, err := simulate.OnCluster([]simulate.Load{load}, []simulate.Devices{{Hardware: deviceKind, Count: many}},
		simulate.Options{Duration: span, Seed: 1, Stop: stop, Scaling: &simulate.Scaling{Start: waveStart, Advise: advise}})
	if err != nil {
		return first, then, err
	}
	k := slices.IndexFunc(r.Sizes, func(s simulate.Size) bool { return s.At > begin })
	return w.sum(r.Sizes[:k], few, many), w.sum(r.Sizes[k:], few, many), nil
}

// sum is what the wave did in spans of measures.
func (w Wave) sum(sizes []simulate.Size, few, many int) (out Waved) {
	var came, missed int64
	for _, s := range sizes {
		if s.Advice != 0 {
			out.Changes++
		}
		out.Paid += float64(s.Paid) / float64(len(sizes))
		came, missed = came+s.Requests, missed+s.Missed
	}
	out.Changes *= w.Period.Seconds() / (float64(len(sizes)) * simulate.DefaultEvery.Seconds())
	a, b := float64(few), float64(many)
	out.Oracle = min(b, (a+b)/2+(b-a)*waveStart.Seconds()/w.Period.Seconds())
	out.Lost = float64(missed) / float64(max(1, came))
	return out
}

// least is how few devices keep 99 % of that rate.
func least(rate float64, stop func() bool) (int, error) {
	for n := 1; ; n++ {
		load := simulate.Load{Pipeline: table4()[1].pipeline(0), Arrivals: arrivals.Process{Kind: pipelines.ArrivalsPoisson}, Rate: rate}
		r, err := simulate.OnCluster([]simulate.Load{load}, []simulate.Devices{{Hardware: deviceKind, Count: n}}, simulate.Options{Seed: 2, Stop: stop})
		if err != nil || r.Least() >= simulate.DefaultAttainment {
			return n, err
		}
	}
}

// waves plays square waves of several periods and heights.
func waves(ctx context.Context, e *Env) (out Result, err error) {
	periods := Part(e, []int{10, 20, 30, 60, 90, 120, 130, 150, 180, 240, 300, 450, 600}, 3)
	lows := []float64{0.5, 0.25}
	stop := func() bool { return ctx.Err() != nil }
	many, err := least(wavePeak, stop)
	if err != nil {
		return out, err
	}
	type place struct {
		Wave
		few         int
		system      string
		advise      func(size.Measures) size.Advice
		first, then Waved
	}
	var all []place
	for _, low := range lows {
		few, err := least(low*wavePeak, stop)
		if err != nil {
			return out, err
		}
		for _, p := range periods {
			w := Wave{time.Duration(p) * time.Second, low}
			all = append(all, place{Wave: w, few: few, system: adaptive}, place{Wave: w, few: few, system: withMemory, advise: newFollower(0, math.MaxInt32).Observe})
		}
	}
	err = e.Each(ctx, "Square waves", len(all), func(i int) (err error) {
		all[i].first, all[i].then, err = all[i].Play(all[i].few, many, all[i].advise, stop)
		return err
	})
	for _, p := range all {
		at := Set("low", fmt.Sprintf("%g of the peak", p.Low), "period_s", p.Period.Seconds())
		out.Add(at, p.system, "devices", "", p.then.Paid)
		out.Add(at, p.system, "cost over the oracle's", "", p.then.Paid/p.then.Oracle)
		out.Add(at, p.system, "changes a period", "", p.then.Changes)
		out.Add(at, p.system, "not in time", "%", 100*p.then.Lost)
		out.Add(at, p.system, "cost over the oracle's, first periods", "", p.first.Paid/p.first.Oracle)
		out.Add(at, p.system, "changes a period, first periods", "", p.first.Changes)
		out.Add(at, p.system, "not in time, first periods", "%", 100*p.first.Lost)
	}
	out.Note("%s: a rule that remembers how long low halves last, gives devices back as they begin and asks for them before they end. It is simulated only: no cluster that serves follows it.", withMemory)
	out.Note("InceptionResNetV2 at %g requests/s at the peak, on up to %d devices that serve %v after they are asked for; the first %d periods and those after them.", wavePeak, many, waveStart, waveFirst)
	return out, err
}

// follower advises as the size of a cluster does that serves, and remembers waves beside: what
// that would save is measured here, and no cluster that serves does it.
type follower struct {
	size.Cluster
	remembered
	foretold int // how often it requested devices, or returned some, by what it remembers
}

// newFollower is for between so many devices.
func newFollower(least, most int) *follower {
	return &follower{Cluster: size.Cluster{Options: size.Options{
		Bad: size.DefaultBad, Spare: size.DefaultSpare, Shrink: size.DefaultShrink, Lead: size.DefaultLead, Min: least, Max: most,
	}}}
}

func (f *follower) Observe(m size.Measures) size.Advice {
	before := f.Load
	f.served(m)
	a := f.Cluster.Observe(m)
	f.see(m, before)
	if change := f.change(m, f.Options); change != 0 {
		a.Change = change
		f.foretold++
		f.Idle, f.Since = nil, m.End
	}
	f.asked(m, a.Change)
	return a
}

// remembered remembers a load that jumps between two rates and back. Once two low halves in a row have
// lasted as long as each other, the next is taken to last as long, too: devices are
// returned when the load has fallen and requested again so early that they serve when it
// rises. Where the low half is too short for that, they stay. A half that does not end when
// it should ends the matter, until two are alike again.
type remembered struct {
	High, Low float64          // requests/s of either half, smoothed
	Fallen    bool             // the load is in its low half
	Began     time.Time        // this half, as near as measures show
	Settled   bool             // the last measures were of this half alone
	Lows      [2]time.Duration // how long the last low halves were, the latest first
	Peak      int              // devices at the end of the last high half
	Small     int              // devices that the last low half was given
	Floor     int              // devices that a low half has lately been found to need, more than it keeps busy
	Needed    float64          // devices that the low half keeps busy, smoothed
	Rate      float64          // of the last measures
	Seen      time.Time        // their end
	Asked     time.Time        // when more devices were requested that have not served yet
	Had       int              // devices then
	Lead      time.Duration    // from then until they served; 0 where that was not seen
}

// Tuning of remembered.
const (
	waveJump  = 0.25 // share of the high rate that is a jump
	waveSure  = 4.0  // standard deviations of Poisson arrivals in a span of measures, at least
	waveAlike = 0.1  // share by which two low halves may differ, or a span of measures
	waveStep  = 0.3  // weight of new measures in what is smoothed
	waveSlack = 0.15 // of what is kept busy, that must be left for a low half to be given less than the last
	waveCalm  = 0.1  // share of the way from the low rate to the high one
	waveEarly = 0.25 // of a span, by which devices should serve sooner than expected
)

// asked notes that the advice requests more devices.
func (w *remembered) asked(m size.Measures, change int) {
	if change > 0 {
		w.Asked, w.Had = m.End, m.Devices
	}
}

// served learns how long devices take until they serve, from the first measures of more than
// there were. A longer time counts at once, a shorter one by and by.
func (w *remembered) served(m size.Measures) {
	if lead := m.End.Add(-m.Span).Sub(w.Asked); !w.Asked.IsZero() && m.Devices > w.Had {
		w.Lead = max(lead, w.Lead+time.Duration(waveStep*float64(lead-w.Lead)))
	}
	w.Asked = time.Time{}
}

// see takes in the next measures; load is what those before kept busy.
func (w *remembered) see(m size.Measures, load float64) {
	switch middle := w.middle(m.Span); {
	case m.Span <= 0:
		return
	case w.Seen.IsZero():
		w.High = m.Rate
	case !w.Fallen && m.Rate < middle:
		if w.Low == 0 {
			w.Low = m.Rate
		}
		w.turn(w.crossed(m, w.High, w.Low))
		w.Peak = m.Devices
	case w.Fallen && m.Rate >= middle:
		at := w.crossed(m, w.Low, w.High)
		w.Lows = [2]time.Duration{at.Sub(w.Began), w.Lows[0]}
		if _, ok := w.length(m.Span); !ok {
			w.Small, w.Floor = 0, 0
		}
		w.turn(at)
	case !w.Settled: // what came before may be of both halves
		w.Settled = true
	case w.Fallen:
		w.Low += waveStep * (w.Rate - w.Low)
		if w.Needed == 0 {
			w.Needed = load
		}
		w.Needed += waveStep * (load - w.Needed)
	default:
		w.High += waveStep * (w.Rate - w.High)
	}
	w.Rate, w.Seen = m.Rate, m.End
}

// middle is the rate between the halves.
func (w *remembered) middle(span time.Duration) float64 {
	if w.Fallen {
		return (w.Low + w.High) / 2
	}
	jump := max(waveJump*w.High, waveSure*math.Sqrt(w.High/span.Seconds()))
	if w.Low == 0 {
		return w.High - jump
	}
	return min(w.High-jump, (w.Low+w.High)/2)
}

// turn begins the other half.
func (w *remembered) turn(at time.Time) { w.Fallen, w.Began, w.Settled = !w.Fallen, at, false }

// crossed is when the load went from one rate to the other, by the share of the last two
// measures that was no longer as before.
func (w *remembered) crossed(m size.Measures, before, after float64) time.Time {
	share := func(rate float64) float64 { return min(1, max(0, (rate-before)/(after-before))) }
	since := share(m.Rate)
	if w.Seen.Equal(m.End.Add(-m.Span)) {
		since += share(w.Rate)
	}
	return m.End.Add(-time.Duration(since * float64(m.Span)))
}

// length is how long a low half lasts, where the last two were alike.
func (w *remembered) length(span time.Duration) (time.Duration, bool) {
	short, long := min(w.Lows[0], w.Lows[1]), max(w.Lows[0], w.Lows[1])
	return short, short > 0 && long-short <= max(span, time.Duration(waveAlike*float64(short)))
}

// change is how many devices to request, or to return, by when the load should rise; 0
// where that is unknown or changes nothing.
func (w *remembered) change(m size.Measures, o size.Options) int {
	length, ok := w.length(m.Span)
	rise := w.Began.Add(length)
	if !ok || !w.Fallen || m.End.After(rise) || w.Needed == 0 {
		return 0
	}
	calm := w.Rate < w.Low+waveCalm*(w.High-w.Low)
	if m.Bad > o.Bad && m.Devices < w.Peak && calm {
		w.Floor = m.Devices + 1
	}
	lead := cmp.Or(w.Lead, o.Lead)
	next := m.End.Add(m.Span + time.Duration(waveEarly*float64(m.Span)))
	switch full := m.Devices >= w.Peak; {
	case !full && next.Add(lead).After(rise): // at the next measures it would be too late
		return max(0, min(w.Peak, o.Max)-m.Devices)
	case !full || m.Bad > o.Bad || m.Devices <= max(1, o.Min):
		return 0
	case w.Lead == 0 && next.Add(m.Span).Before(rise): // one, to see how long it takes until it serves again
		return -1
	case next.Add(lead).After(rise):
		return 0
	}
	small := int(math.Ceil(w.Needed * (1 + o.Spare)))
	if small < w.Small { // no smaller than the last for a little
		small = min(w.Small, int(math.Ceil(w.Needed*(1+waveSlack))))
	}
	w.Small = max(small, w.Floor, o.Min, 1)
	return min(0, w.Small-m.Devices)
}
