// Package size decides how many devices a cluster should have, by what is measured of it: a
// value that observes one span of time after the other and advises a change. The workflow
// of a cluster that serves keeps one, and the simulator plays it.
package size

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/harpagon/harpagon/pipelines/quantity"
)

// Options define when the size of a cluster changes. Zero values take the defaults.
type Options struct {
	Bad      float64       // share of bad requests above which devices are added; 0 means DefaultBad
	Spare    float64       // idle devices kept, as a share of those that the load needs; 0 means DefaultSpare
	Shrink   time.Duration // how long devices must have idled before any is returned; 0 means DefaultShrink
	Lead     time.Duration // from measures to devices that serve by their advice, for which a rising load is taken to rise on; 0 means DefaultLead
	Min, Max int           // devices; a Max of 0 is no bound
}

// leastOutcomes is how many requests must have ended for the share of bad ones to count.
const leastOutcomes = 20

// BadRate is the share of bad ones among the requests of a pipeline that have ended; 0
// where they are too few to count.
func BadRate(ended, bad int64) float64 {
	if ended < leastOutcomes {
		return 0
	}
	return float64(bad) / float64(ended)
}

// Defaults of Options. Devices are added at once and returned late: a square wave of load
// with low phases shorter than DefaultShrink changes the size once, one with longer phases
// twice a period.
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

	chance = 3 // standard deviations of a Poisson count within which rates are alike
)

// Cluster advises on the size of a cluster by Symphony's two signals (section 4.4):
// a bad rate r above the target adds N·r/(1-r) devices, an idle share f returns N·f, at
// most the fewest that idled at any time of Shrink. Since fewer devices run larger batches,
// a second return follows only after the load has been low for longer than the last time.
// Where hardly any device idles and the load rises steadily, as many are added as the load
// will need when they serve. Like Drift it is a value that a workflow may keep.
type Cluster struct {
	Options Options
	Idle    []IdleDevices // of the last Shrink, in order of time; devices that least idled
	Since   time.Time     // begin of what Idle covers
	Load    float64       // devices that the last measures needed
	Seen    time.Time     // their end
	Lossy   time.Time     `json:",omitzero"` // end of the latest counts, where too many were lost; see Rise
	Waves
}

// Waves is what is remembered of the last time that the load fell.
type Waves struct {
	Peak float64       `json:",omitempty"` // highest rate since devices were added, or the load has fallen
	Fell time.Time     `json:",omitzero"`  // when some were returned since then because it had fallen
	Low  time.Duration `json:",omitempty"` // from then to when devices were added, the last time
	Had  int           `json:",omitempty"` // devices before they were returned
	Bore float64       `json:",omitempty"` // highest rate that these have borne
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
}

// Describe gives the reason in one line.
func (a Advice) Describe() string {
	switch {
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
// reports a sudden rise.
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

// Rise advises at once by the latest counts, where in these and in those before, which may hold
// some from before the rise, more than a tenth was lost, and more came than the devices have
// borne: as many devices as there were when such a rate came last, or more by the share that was
// lost.
func (c *Cluster) Rise(l *Latest, devices int) (a Advice) {
	if l == nil || l.Ended < leastOutcomes || !l.Lossy() || l.From.Before(c.Since) {
		c.Lossy = time.Time{}
		return a
	}
	again := !c.Lossy.IsZero() && !l.From.Before(c.Lossy)
	if c.Lossy = l.To; !again {
		return a
	}
	span, came := l.Span().Seconds(), float64(l.Arrived)
	if borne := c.Peak * span; came-borne <= chance*math.Sqrt(borne) {
		return a // no rise: left to Observe
	}
	n := float64(devices)
	a.Bad = BadRate(l.Ended, l.Lost)
	bad := min(a.Bad, 1-1/(n+1))
	a.Change = int(math.Ceil(n * bad / (1 - bad)))
	if known := c.Bore * span; c.Had > devices && math.Abs(came-known) <= chance*math.Sqrt(known) {
		a.Change = c.Had - devices
	}
	return a
}

// Grew notes that devices were added at an instant.
func (c *Cluster) Grew(at time.Time) {
	if !c.Fell.IsZero() {
		c.Low, c.Fell = at.Sub(c.Fell), time.Time{}
	}
	c.Peak, c.Idle, c.Since = 0, nil, at
}

// Within is what the options allow of an advice to grow.
func (c *Cluster) Within(a Advice, devices int) Advice {
	a.Change = max(0, min(devices+a.Change, c.Options.withDefaults().Max)-devices)
	return a
}

// Compare observes the measures and returns the advice without Max (needed) and with it
// (allowed).
func (c *Cluster) Compare(m Measures) (needed, allowed Advice) {
	free := *c
	free.Options.Max, free.Idle = 0, slices.Clone(c.Idle)
	return free.Observe(m), c.Observe(m)
}

// Observe takes the measures of the next span of time. Its advice is taken to be
// followed.
func (c *Cluster) Observe(m Measures) Advice {
	o := c.Options.withDefaults()
	a := Advice{Bad: m.Bad, Idle: m.Idle}
	n := float64(m.Devices)
	bad := min(m.Bad, 1-1/(n+1))
	load := n * (1 - m.Idle) / (1 - bad)
	rise, step := c.rise(load, m.End)
	c.Load, c.Seen, c.Peak = load, m.End, max(c.Peak, m.Rate)
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
		a.Change = max(0, int(more))
		if a = c.Within(a, m.Devices); a.Change > 0 {
			c.Grew(m.End)
		}
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
	if m.End.Sub(c.Since) < o.Shrink || !c.Fell.IsZero() && m.End.Sub(c.Fell) < c.Low+o.Shrink {
		return a
	}
	least := n
	for _, at := range c.Idle {
		least = min(least, at.Devices)
	}
	fewer := int(math.Floor(least - o.Spare*(n-least)))
	if a.Change = -max(0, min(fewer, m.Devices-max(1, o.Min))); a.Change < 0 {
		c.Idle, c.Since = nil, m.End
		if c.Fell.IsZero() && m.Rate < c.Peak*(1-1/n) {
			c.Fell, c.Had, c.Bore, c.Peak = m.End, m.Devices, c.Peak, m.Rate
		}
	}
	return a
}
