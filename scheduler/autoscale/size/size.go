// Package size says how many devices a cluster should have, by what is measured of it:
// a value that observes one span of time after the other and advises a change.
// The workflow of a cluster that serves keeps one, and the simulator plays it.
package size

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/harpagon/harpagon/pipelines/quantity"
)

// Options say when the size of a cluster is to change. Zero values take the
// defaults.
type Options struct {
	Bad      float64       // share of bad requests from which on more devices are asked for; 0 means DefaultBad
	Spare    float64       // idle devices kept, as a share of those that the load needs; 0 means DefaultSpare
	Shrink   time.Duration // how long devices must have idled before any is returned; 0 means DefaultShrink
	Lead     time.Duration // from measures to devices that serve by their advice, for which a rising load is taken to rise on; 0 means DefaultLead
	Min, Max int           // devices; a Max of 0 is no bound
}

// leastOutcomes is how many requests must have ended for the share of bad ones to tell
// something.
const leastOutcomes = 20

// BadRate is the share of bad ones among the requests of a pipeline that have ended; 0
// where they are too few to tell.
func BadRate(ended, bad int64) float64 {
	if ended < leastOutcomes {
		return 0
	}
	return float64(bad) / float64(ended)
}

// Defaults of Options. More is asked for at once and returned late: a
// square wave of load that idles for less than DefaultShrink changes the size
// once, and a longer one twice a period.
const (
	DefaultBad    = 0.01
	DefaultSpare  = 0.05
	DefaultShrink = time.Minute
	DefaultLead   = 20 * time.Second
)

// A load that grows by a share between leastRise and mostRise of itself in a second is
// taken to go on. Slower, it may be chance; faster, it is a step, which ends there.
const (
	leastRise = 0.007
	mostRise  = 0.05

	crowded = 1.5 // times Spare: when fewer idle, a rise counts
)

// Cluster advises on the size of a cluster by Symphony's two signals (section 4.4):
// a bad rate r above the target asks for N·r/(1-r) more devices, an idle share f
// returns N·f. Devices are returned only as far as the least that idled over all
// of Shrink. Where hardly any idle and the load rises steadily, it asks for what that will
// need once more can serve, too. What jumps up and down in halves of equal length is
// remembered, see Wave. Like Drift it is a value that a workflow may keep.
type Cluster struct {
	Options Options
	Idle    []IdleDevices // of the last Shrink, in order of time; devices that least idled
	Since   time.Time     // begin of what Idle covers
	Load    float64       // devices that the last measures needed
	Seen    time.Time     // their end
	Wave    Wave          // what is remembered of a load that jumps
}

// IdleDevices is how many devices idled in the span that ended at At.
type IdleDevices struct {
	At      time.Time
	Devices float64
}

// Measures are what a span of time has shown of a cluster.
type Measures struct {
	End     time.Time
	Span    time.Duration // that ended then
	Rate    float64       // requests per second that came; of all pipelines
	Devices int           // that served
	Bad     float64       // share of requests that were not answered in time; of the pipeline with most
	Idle    float64       // share of the devices' time without a batch
}

// Advice is to change the number of devices; a Change of 0 is none.
type Advice struct {
	Change    int
	Bad, Idle float64
	Early     bool `json:",omitempty"` // before the load rises, as it has before
}

// Describe gives the reason in one line.
func (a Advice) Describe() string {
	switch {
	case a.Early:
		return fmt.Sprintf("%d more devices: the load is about to rise, as it has before", a.Change)
	case a.Change > 0:
		return fmt.Sprintf("%d more devices: %s of the requests were not in time", a.Change, quantity.Percent(a.Bad))
	case a.Change < 0:
		return fmt.Sprintf("%d devices less: %s of their time idle", -a.Change, quantity.Percent(a.Idle))
	}
	return "as many devices as the load needs"
}

func (o Options) withDefaults() Options {
	if o.Bad == 0 {
		o.Bad = DefaultBad
	}
	if o.Spare == 0 {
		o.Spare = DefaultSpare
	}
	if o.Shrink == 0 {
		o.Shrink = DefaultShrink
	}
	if o.Lead == 0 {
		o.Lead = DefaultLead
	}
	if o.Max == 0 {
		o.Max = math.MaxInt32
	}
	return o
}

// rise is by how many devices a second the load rises steadily, 0 where it does not; step
// says that it has risen at once.
func (c *Cluster) rise(load float64, now time.Time) (rise float64, step bool) {
	span := now.Sub(c.Seen).Seconds()
	if c.Load <= 0 || span <= 0 {
		return 0, false
	}
	rise = (load - c.Load) / span
	share := rise / c.Load
	if share < leastRise || share > mostRise {
		return 0, share > mostRise
	}
	return rise, false
}

// Compare observes the measures, and says beside what is allowed what would be needed were
// there no Max.
func (c *Cluster) Compare(m Measures) (needed, allowed Advice) {
	free := *c
	free.Options.Max, free.Idle = 0, slices.Clone(c.Idle)
	return free.Observe(m), c.Observe(m)
}

// Observe takes the measures of the next span of time. Its advice is taken to be
// followed.
func (c *Cluster) Observe(m Measures) Advice {
	o := c.Options.withDefaults()
	c.Wave.served(m)
	a := c.observe(m, o)
	c.Wave.asked(m, a.Change)
	return a
}

func (c *Cluster) observe(m Measures, o Options) Advice {
	a := Advice{Bad: m.Bad, Idle: m.Idle}
	n := float64(m.Devices)
	bad := min(m.Bad, 1-1/(n+1))
	load := n * (1 - m.Idle) / (1 - bad)
	rise, step := c.rise(load, m.End)
	c.Wave.see(m, c.Load)
	c.Load, c.Seen = load, m.End
	if a.Change = c.Wave.change(m, o); a.Change != 0 {
		a.Early = a.Change > 0
		c.Idle, c.Since = nil, m.End
		return a
	}
	more := 0.0
	if m.Bad > o.Bad {
		more = math.Ceil(n * bad / (1 - bad))
		if step { // not once more for the little that it may have been underrated by
			more = math.Ceil(load*(1+o.Spare) - n)
		}
	}
	if rise > 0 && (m.Bad > o.Bad || m.Idle < crowded*o.Spare) {
		more = max(more, math.Ceil((load+rise*o.Lead.Seconds())*(1+o.Spare)-n))
	}
	if m.Bad > o.Bad || more > 0 {
		a.Change = max(0, min(m.Devices+int(more), o.Max)-m.Devices)
		c.Idle, c.Since = nil, m.End
		return a
	}
	if c.Since.IsZero() {
		c.Since = m.End
	}
	c.Idle = append(c.Idle, IdleDevices{m.End, n * m.Idle})
	first := 0
	for first < len(c.Idle) && m.End.Sub(c.Idle[first].At) > o.Shrink {
		first++
	}
	c.Idle = c.Idle[first:]
	if m.End.Sub(c.Since) < o.Shrink {
		return a
	}
	least := n
	for _, at := range c.Idle {
		least = min(least, at.Devices)
	}
	fewer := int(math.Floor(least - o.Spare*(n-least)))
	if a.Change = -max(0, min(fewer, m.Devices-max(1, o.Min))); a.Change < 0 {
		c.Idle, c.Since = nil, m.End
	}
	return a
}

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
