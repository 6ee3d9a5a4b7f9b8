package dispatch

import (
	"time"
)

// Bounds and weights of what a Pace learns.
const (
	paceWeight = 8           // batches that a change takes to be followed
	paceLeast  = 0.05        // of the profile
	paceMost   = 50.0        // times the profile
	paceMemory = time.Second // without a batch, beyond what the last took, after which the profile counts again
)

// Pace is how long batches have lately taken on executors of one configuration,
// in terms of their profile: scale·profile + way, where scale is the engine's
// time over the profile's and way is what a batch spends beside the engine, on
// its way there and back and in queues before it. Both are exponential means
// over some paceWeight batches; spread is the mean absolute deviation of scale.
// What was learned is forgotten when no batch has come for a while: whoever
// believes that nothing can be in time would never learn otherwise.
//
// The zero value takes batches to be as profiled.
type Pace struct {
	off, spread float64 // off = scale - 1
	way         Time
	last        Time // when a batch was learned; 0 for never
	took        Time // how long that was away
}

// Learn takes in a batch that has ended: its duration by the profile, that in
// the engine (0 if unknown: then that in all), and from its start to its end.
func (p *Pace) Learn(now, profiled, took, all Time) {
	if took <= 0 {
		took = all
	}
	if profiled <= 0 || all < 0 {
		return
	}
	if !p.known(now) {
		*p = Pace{}
	}
	p.last, p.took = max(1, now), all
	off := min(paceMost, max(paceLeast, float64(took)/float64(profiled))) - 1 - p.off
	p.off += off / paceWeight
	if off < 0 {
		off = -off
	}
	p.spread += (off - p.spread) / paceWeight
	p.way += (max(0, all-took) - p.way) / paceWeight
}

// known says whether what was learned counts: the next batch is given the time that the
// last one took.
func (p *Pace) known(now Time) bool { return p.last > 0 && now-p.last <= paceMemory+p.took }

// Of is how long a batch may take whose profile says d: with its spread, so that
// most take no longer.
func (p *Pace) Of(now, d Time) Time { return p.Within(now, d, 1) }

// Within is how long it takes with so many times the spread.
func (p *Pace) Within(now, d Time, spreads float64) Time {
	if !p.known(now) {
		return d
	}
	return Time(float64(d)*(1+p.off+spreads*p.spread)) + p.way
}

// Scale is the factor on profiled durations alone, without the way.
func (p *Pace) Scale(now Time) float64 {
	if !p.known(now) {
		return 1
	}
	return 1 + p.off
}
