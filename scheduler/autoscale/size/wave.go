package size

import (
	"cmp"
	"math"
	"time"
)

// Wave remembers a load that jumps between two rates and back. Once two low halves in a row have
// lasted as long as each other, the next is taken to last as long, too: devices are given back
// when the load has fallen and asked for again so early that they serve when it rises. Where the
// low half is too short for that, they stay. A half that does not end when it should ends the
// matter, until two are alike again.
//
// What that costs depends on how soon devices serve: docs/clusters.md, Scaling.
type Wave struct {
	High, Low float64          // requests/s of either half, smoothed
	Fallen    bool             // the load is in its low half
	Began     time.Time        // this half, as near as measures tell
	Settled   bool             // the last measures were of this half alone
	Lows      [2]time.Duration // how long the last low halves were, the latest first
	Peak      int              // devices at the end of the last high half
	Small     int              // devices that the last low half was given
	Floor     int              // devices that a low half has lately been found to need, more than it keeps busy
	Needed    float64          // devices that the low half keeps busy, smoothed
	Rate      float64          // of the last measures
	Seen      time.Time        // their end
	Asked     time.Time        // when more devices were asked for that have not served yet
	Had       int              // devices then
	Lead      time.Duration    // from then until they served; 0 where that was not seen
}

// Tuning of Wave.
const (
	waveJump  = 0.25 // share of the high rate that is a jump
	waveSure  = 4.0  // standard deviations of Poisson arrivals in a span of measures, at least
	waveAlike = 0.1  // share by which two low halves may differ, or a span of measures
	waveStep  = 0.3  // weight of new measures in what is smoothed
	waveSlack = 0.15 // of what is kept busy, that must be left for a low half to be given less than the last
	waveCalm  = 0.1  // share of the way from the low rate to the high one
	waveEarly = 0.25 // of a span, by which devices should serve sooner than expected
)

// asked notes that the advice asks for more devices.
func (w *Wave) asked(m Measures, change int) {
	if change > 0 {
		w.Asked, w.Had = m.End, m.Devices
	}
}

// served learns how long devices take until they serve, from the first measures of more than
// there were. A longer time counts at once, a shorter one by and by.
func (w *Wave) served(m Measures) {
	if lead := m.End.Add(-m.Span).Sub(w.Asked); !w.Asked.IsZero() && m.Devices > w.Had {
		w.Lead = max(lead, w.Lead+time.Duration(waveStep*float64(lead-w.Lead)))
	}
	w.Asked = time.Time{}
}

// see takes in the next measures; load is what those before kept busy.
func (w *Wave) see(m Measures, load float64) {
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
func (w *Wave) middle(span time.Duration) float64 {
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
func (w *Wave) turn(at time.Time) { w.Fallen, w.Began, w.Settled = !w.Fallen, at, false }

// crossed is when the load went from one rate to the other, by the share of the last two
// measures that was no longer as before.
func (w *Wave) crossed(m Measures, before, after float64) time.Time {
	share := func(rate float64) float64 { return min(1, max(0, (rate-before)/(after-before))) }
	since := share(m.Rate)
	if w.Seen.Equal(m.End.Add(-m.Span)) {
		since += share(w.Rate)
	}
	return m.End.Add(-time.Duration(since * float64(m.Span)))
}

// length is how long a low half lasts, where the last two were alike.
func (w *Wave) length(span time.Duration) (time.Duration, bool) {
	short, long := min(w.Lows[0], w.Lows[1]), max(w.Lows[0], w.Lows[1])
	return short, short > 0 && long-short <= max(span, time.Duration(waveAlike*float64(short)))
}

// change is how many devices to ask for, or to give back, by when the load should rise; 0 where
// that is not known or changes nothing.
func (w *Wave) change(m Measures, o Options) int {
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
	case !full && next.Add(lead).After(rise): // the next measures would be too late to ask
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
