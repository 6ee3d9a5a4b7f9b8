package autoscale

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/quantity"
	"github.com/harpagon/harpagon/scheduler/autoscale/size"
)

// DriftOptions define when a measured rate has left the planned one for good. Zero values
// take the defaults.
type DriftOptions struct {
	Above    float64       // share above the planned rate that counts; 0 means DefaultAbove
	Below    float64       // share below the planned rate that counts; 0 means DefaultBelow
	Hold     time.Duration // how long the rate must stay away; 0 means DefaultHold
	Cooldown time.Duration // least time between two advices, and after Reset; 0 means DefaultCooldown

	// MinRequests is the number of requests that a drift must rest on, so that
	// a handful of requests at a low rate is not taken for a change; 0 means
	// DefaultMinRequests.
	MinRequests int64

	// Ahead is the share of a measured rate by which the next plan is to be for more, so
	// that there is time to change it while the rate rises; 0 for none.
	Ahead float64 `json:",omitempty"`
}

// Defaults of DriftOptions. Falling behind is worse than paying for a while,
// so less is needed to scale up than down.
const (
	DefaultAbove       = 0.20
	DefaultBelow       = 0.40
	DefaultHold        = 30 * time.Second
	DefaultCooldown    = 2 * time.Minute
	DefaultMinRequests = 30
)

// noise is how many standard deviations of a Poisson count the requests seen
// must be away from those planned before chance is ruled out.
const noise = 4

// Advice is what a detector recommends.
type Advice struct {
	Reschedule bool
	Rate       float64       // requests per second to plan for
	Planned    float64       // requests per second planned for so far
	Held       time.Duration // how long the rate has been away
	Ahead      float64       `json:",omitempty"` // share of Rate to plan for besides
	Lost       float64       `json:",omitempty"` // share of the requests meanwhile, where it is a Rise
}

// Wanted is the rate to plan for, in requests per second.
func (a Advice) Wanted() float64 { return RoundUp(a.Rate * (1 + a.Ahead)) }

// Describe gives the reason in one line.
func (a Advice) Describe() string {
	if !a.Reschedule {
		return fmt.Sprintf("rate as planned, %s/s", quantity.Number(a.Planned))
	}
	text := fmt.Sprintf("rate %s/s for %v, planned %s/s", quantity.Number(a.Rate), a.Held.Round(a.digit()), quantity.Number(a.Planned))
	if a.Lost > 0 {
		text += fmt.Sprintf(", %s lost", quantity.Percent(a.Lost))
	}
	if a.Ahead > 0 {
		text += fmt.Sprintf("; to have some in reserve %s/s are planned for", quantity.Number(a.Wanted()))
	}
	return text
}

// digit is what times in a line are rounded to.
func (a Advice) digit() time.Duration {
	if a.Held < 10*time.Second {
		return time.Second / 10
	}
	return time.Second
}

// Drift finds a sustained difference between the rate that is measured and the
// rate that was planned for. It is a value: a workflow may keep it, copy it and
// carry it through JSON from one run to the next.
//
// The measured rate is smoothed over a third of the hold time, so that chance
// does not reset the watch and a short burst fades away. A reschedule is
// advised, for the mean rate meanwhile, when the smoothed rate has stayed
// beyond the threshold on one side for the hold time, the latest rate still is
// there, and the requests counted differ from the plan by more than chance
// explains.
type Drift struct {
	Options DriftOptions
	Planned float64   // requests per second
	Smooth  float64   // smoothed measured rate
	Side    int       // +1 above, -1 below, 0 as planned
	Since   time.Time // when the rate went away
	Seen    float64   // requests since then
	Quiet   time.Time // no advice before
	Last    time.Time // end of the last measures

	Met, Wanted float64 `json:",omitzero"` // the rate of the latest advice, and to plan for then
}

// Base is the rate to watch from when a plan for a rate serves: where the latest advice
// was to plan for more than was measured, what was measured.
func (d *Drift) Base(planned float64) float64 {
	if d.Wanted > 0 && d.Wanted == planned {
		return d.Met
	}
	return planned
}

// NewDrift watches for a drift from the planned rate.
func NewDrift(planned float64, o DriftOptions) Drift {
	planned = math.Max(0, planned)
	return Drift{Options: o.withDefaults(), Planned: planned, Smooth: planned}
}

// Reset starts again after a plan for another rate took over at now.
func (d *Drift) Reset(planned float64, now time.Time) {
	quiet := now.Add(d.Options.withDefaults().Cooldown)
	*d = NewDrift(planned, d.Options)
	d.Quiet, d.Last = quiet, now
}

// Observe takes the measures of the next span of time. Where the span overlaps
// the last one, only the part after that counts, at the rate of the whole.
// Measures that end before the last ones, cover no time or have no usable rate
// change nothing.
func (d *Drift) Observe(m Measures) Advice {
	d.Options = d.Options.withDefaults()
	begin, span := m.since(d.Last)
	if span <= 0 || !(m.Offered >= 0) || math.IsInf(m.Offered, 1) {
		return d.noChange(0)
	}
	d.Last = m.To
	d.Smooth += (m.Offered - d.Smooth) * (1 - math.Exp(-3*span.Seconds()/d.Options.Hold.Seconds()))
	if side := d.side(d.Smooth); side != d.Side {
		d.Side, d.Since, d.Seen = side, begin, 0
	}
	d.Seen += m.Offered * span.Seconds()
	if d.side(m.Offered) != d.Side {
		return d.noChange(m.To.Sub(d.Since)) // a burst that is over, or a lull
	}
	return d.advice(m.To)
}

// ObserveLoad is Observe of a service that may be left alone, and true when another rate is
// advised: time without any request is no drift, since an idle service keeps its plan,
// ready for the declared rate. A few requests are no load either, and leave it ready for a
// real one.
func (d *Drift) ObserveLoad(m Measures) (Advice, bool) {
	if m.Offered == 0 {
		d.Side, d.Seen, d.Smooth, d.Last = 0, 0, d.Planned, m.To
		return Advice{}, false
	}
	quiet := d.Quiet
	advice := d.Observe(m)
	if advice.Reschedule && advice.Rate*advice.Held.Seconds() < DefaultMinRequests {
		d.Quiet = quiet
		return advice, false
	}
	return advice, advice.Reschedule
}

// Away is the rate that is measured where it has been other than planned for a third of
// the hold time, by more than chance explains; nil where it is as planned, and while a
// few requests are all that comes, which are no load.
func (d *Drift) Away() *Advice {
	held := d.Last.Sub(d.Since)
	few := d.Side < 0 && d.Seen < float64(d.Options.MinRequests)
	if d.Side == 0 || held < d.Options.Hold/3 || few || d.chance(held) {
		return nil
	}
	return &Advice{Reschedule: true, Rate: d.Smooth, Planned: d.Planned, Held: held}
}

func (d *Drift) noChange(held time.Duration) Advice {
	return Advice{Rate: d.Planned, Planned: d.Planned, Held: held}
}

func (d *Drift) advice(now time.Time) Advice {
	held := now.Sub(d.Since)
	if d.Side == 0 || held < d.Options.Hold || now.Before(d.Quiet) || d.chance(held) {
		return d.noChange(held)
	}
	a := Advice{Reschedule: true, Rate: d.Seen / held.Seconds(), Planned: d.Planned, Held: held}
	if a.Ahead = d.Options.Ahead; a.Ahead > 0 && d.Side > 0 {
		a.Rate = max(a.Rate, d.Smooth) // it may have risen all the while
	}
	d.Met, d.Wanted = a.Rate, a.Wanted()
	d.Since, d.Seen = now, 0
	d.Quiet = now.Add(d.Options.Cooldown)
	return a
}

// side returns on which side of the planned rate another rate is.
func (d *Drift) side(rate float64) int {
	switch {
	case rate > d.Planned*(1+d.Options.Above):
		return 1
	case rate < d.Planned*(1-d.Options.Below):
		return -1
	}
	return 0
}

// chance reports whether what was seen may be the planned rate after all: few
// requests, or within a few standard deviations of a Poisson count.
func (d *Drift) chance(held time.Duration) bool {
	expected := d.Planned * held.Seconds()
	if math.Max(d.Seen, expected) < float64(d.Options.MinRequests) {
		return true
	}
	return math.Abs(d.Seen-expected) <= noise*math.Sqrt(math.Max(1, expected))
}

func (o DriftOptions) withDefaults() DriftOptions {
	o.Above = positive(o.Above, DefaultAbove)
	o.Below = positive(o.Below, DefaultBelow)
	o.Hold = positive(o.Hold, DefaultHold)
	o.Cooldown = positive(o.Cooldown, DefaultCooldown)
	o.MinRequests = positive(o.MinRequests, DefaultMinRequests)
	return o
}

// positive is x, or the default where x is not above zero.
func positive[N float64 | int64 | time.Duration](x, otherwise N) N {
	if x > 0 {
		return x
	}
	return otherwise
}

// Rise finds a load that has outgrown what is planned for within seconds, by Measures.Latest.
// Like Drift, which finds what has fallen, it is a value that a workflow may keep.
//
// It looks at the spans since more came in one than planned for by the share that counts, or at
// all where more are lost than may be, as long as that holds for all of them together. Where
// chance does not explain how many these are, as many are planned for as there may be by what
// came after the first of them, which may hold some of what was before the rise.
type Rise struct {
	Planned float64     // requests per second that the plan is for, or the one requested last
	Last    time.Time   // end of the last span, or of the change of plan
	First   size.Latest `json:",omitzero"` // the first span in which more came
	Since   size.Latest `json:",omitzero"` // all from there on
}

// Observe takes the measures of the next span of time, of a pipeline as it was planned.
func (r *Rise) Observe(m Measures, o DriftOptions, of *pipelines.Pipeline) (a Advice) {
	l := m.Latest
	if l == nil || r.Planned <= 0 || l.From.Before(r.Last) || !l.To.After(l.From) {
		return a
	}
	r.Last = l.To
	variation := Variation(of.Arrivals)
	if r.First.From.IsZero() || r.beyond(*l, variation) && !r.beyond(r.First, variation) {
		r.First, r.Since = *l, size.Latest{From: l.From}
	}
	r.Since.To, r.Since.Counts = l.To, r.Since.Add(l.Counts)
	lost := float64(r.Since.Lost) / math.Max(1, float64(r.Since.Ended))
	least := 1 + positive(o.Above, DefaultAbove)
	switch kept := lost <= 1-promised(of); {
	case kept && variation < 0: // it may be in the trace, which was planned for
		least = math.Inf(1)
	case !kept:
		least = 1
	}
	if float64(r.Since.Arrived) <= least*r.Planned*r.Since.Span().Seconds() {
		r.First = size.Latest{}
		return a
	}
	after := r.Since.Arrived - r.First.Arrived
	if after < positive(o.MinRequests, DefaultMinRequests) || !r.beyond(r.Since, variation) {
		return a
	}
	a = Advice{Reschedule: true, Rate: float64(after) / r.Since.To.Sub(r.First.To).Seconds(), Planned: r.Planned, Held: r.Since.Span(), Lost: lost}
	a.Ahead = math.Max(o.Ahead, ahead(float64(after), variation))
	r.Planned, r.First = a.Wanted(), size.Latest{}
	return a
}

// beyond reports that more came than planned for and than chance explains, of which half the variance
// does where requests are lost by it.
func (r *Rise) beyond(l size.Latest, variation float64) bool {
	expected := math.Max(1, r.Planned*l.Span().Seconds())
	spread := math.Max(1, variation) * expected
	if l.Lossy() {
		spread /= 2
	}
	return float64(l.Arrived)-expected > noise*math.Sqrt(spread)
}

// Follow combines the advice of the Rise (fast) and of a Drift (slow) on the same measures.
// A rise is the Rise's to handle where gateways report Latest and its last request could be
// met; a fall is planned for with a margin for chance (Advice.Ahead).
func (r *Rise) Follow(fast, slow Advice, d *Drift, m Measures, of *pipelines.Pipeline) Advice {
	switch {
	case fast.Reschedule:
		slow, d.Since, d.Seen = fast, m.To, 0
	case slow.Rate > slow.Planned && m.Latest != nil && r.Planned <= of.Rate:
		slow.Reschedule, d.Met, d.Wanted = false, 0, 0
	case slow.Rate < slow.Planned: // as little as what came in all that time shows, or in the end
		variation := Variation(of.Arrivals)
		all, end := ahead(slow.Rate*slow.Held.Seconds(), variation), ahead(float64(m.Arrived), variation)
		if m.Offered*(1+end) < slow.Rate*(1+all) {
			slow.Rate, all = m.Offered, end
		}
		slow.Ahead = math.Max(slow.Ahead, all)
	}
	if slow.Reschedule {
		d.Met, d.Wanted = slow.Rate, slow.Wanted()
	}
	return slow
}

// Over reports that a rise for which a pipeline could not be planned has not come any more for the
// hold time of a Drift.
func (r *Rise) Over(d *Drift, of *pipelines.Pipeline) bool {
	return r.Planned > of.Rate && d.Side == 0 && d.Last.Sub(d.Since) >= d.Options.Hold
}

// ahead is the share by which a rate may be more than so many requests show.
func ahead(requests, variation float64) float64 {
	return noise / 2 * math.Sqrt(math.Max(1, variation)/math.Max(1, requests))
}

// Gaps states how unevenly the requests of a service came, apart from how many: slow
// changes of the rate count little.
type Gaps struct {
	Compared  int64   `json:"compared"`  // neighbouring stretches of requests that it rests on
	Variation float64 `json:"variation"` // squared coefficient of variation of the gaps between requests: 0 even, 1 Poisson, more for bursts
}

// What calls arrivals other than declared. An estimate of 100 gaps scatters by a third.
const (
	gapsLeast    = 60  // stretches that a judgement rests on
	burstier     = 2.0 // times the declared variation, and
	burstierMore = 0.5 // this on top, are burstier
	calmer       = 0.3 // times the declared variation is more even

	// UnknownVariation is that of arrivals whose gaps between requests are unknown.
	UnknownVariation = -1.0
)

// Arrivals watches whether requests come as they are declared to. Like Drift it is a
// value that a workflow may keep; its options are those of a Drift.
type Arrivals struct {
	Declared  float64 // variation; negative where it follows from no declaration, as with a trace
	Compared  float64 // stretches seen lately: earlier ones fade within the hold time
	Squares   float64 // the variation of all of them together
	Kept, All float64 // requests answered in time, and all, lately
	Side      int     // +1 burstier than declared, -1 more even
	Since     time.Time
	Quiet     time.Time // no advice before
	Last      time.Time // end of the last measures
}

// ArrivalsAdvice is how requests come where that is not as declared.
type ArrivalsAdvice struct {
	Side                int // +1 burstier, -1 more even, 0 as declared
	Variation, Declared float64
	Held                time.Duration
	Attainment          float64 // meanwhile
}

// Describe returns the advice in one line.
func (a ArrivalsAdvice) Describe() string {
	how := "as unevenly as declared"
	switch a.Side {
	case 1:
		how = "in more bursts than declared"
	case -1:
		how = "more evenly than declared"
	}
	return fmt.Sprintf("requests come %s: squared variation of their gaps %s, declared %s (for %v, %s in time)",
		how, quantity.Number(a.Variation), quantity.Number(a.Declared), a.Held.Round(time.Second), quantity.Percent(a.Attainment))
}

// Arrivals are what to declare instead.
func (a ArrivalsAdvice) Arrivals() string {
	switch {
	case a.Variation <= calmer:
		return pipelines.ArrivalsEven
	case a.Variation <= burstier: // what a plan for Poisson arrivals stands for
		return pipelines.ArrivalsPoisson
	}
	shape := 1 / a.Variation
	digit := math.Pow(10, math.Floor(math.Log10(shape)))
	return fmt.Sprintf("%s:%g", pipelines.ArrivalsGamma, math.Max(math.Floor(shape/digit)*digit, 0.01))
}

// Variation is the squared coefficient of variation of the gaps between requests under
// declared arrivals, for example gamma:0.5; negative where it cannot be derived.
func Variation(declared string) float64 {
	kind, shape, _, err := pipelines.SplitArrivals(declared)
	switch {
	case err != nil || kind == pipelines.ArrivalsTrace:
		return UnknownVariation
	case kind == pipelines.ArrivalsPoisson:
		return 1
	case kind == pipelines.ArrivalsGamma:
		return 1 / shape
	}
	return 0
}

// Reset starts again after a plan for the pipeline's arrivals took over at now. Evenly
// paced streams are not checked: each is even, but their superposition is not.
func (a *Arrivals) Reset(p *pipelines.Pipeline, now time.Time) {
	declared := Variation(p.Arrivals)
	if p.Streams() > 0 {
		declared = UnknownVariation
	}
	*a = Arrivals{Declared: declared, Since: now, Quiet: now.Add(DefaultCooldown), Last: now}
}

// Observe takes the measures of the next span of time.
func (a *Arrivals) Observe(m Measures) {
	begin, fresh := m.since(a.Last)
	if fresh <= 0 || a.Declared < 0 {
		return
	}
	a.Last = m.To
	fade, part := math.Exp(-fresh.Seconds()/DefaultHold.Seconds()), fresh.Seconds()/m.Span().Seconds()
	a.Kept, a.All = a.Kept*fade+part*float64(m.Completed), a.All*fade+part*float64(m.Outcomes())
	a.Compared, a.Squares = a.Compared*fade, a.Squares*fade
	if g := m.Gaps; g != nil {
		a.Compared += part * float64(g.Compared)
		a.Squares += part * float64(g.Compared) * g.Variation
	}
	side, v := 0, a.variation()
	switch {
	case a.Compared < gapsLeast:
	case v > burstier*a.Declared+burstierMore:
		side = 1
	case v < calmer*a.Declared:
		side = -1
	}
	if side != a.Side {
		a.Side, a.Since = side, begin
	}
}

func (a *Arrivals) variation() float64 {
	if a.Compared == 0 {
		return 0
	}
	return a.Squares / a.Compared
}

// Seen returns advice when arrivals have differed from the declared ones for the hold time,
// else nil.
func (a *Arrivals) Seen() *ArrivalsAdvice {
	held := a.Last.Sub(a.Since)
	if a.Side == 0 || held < DefaultHold {
		return nil
	}
	return &ArrivalsAdvice{Side: a.Side, Variation: a.variation(), Declared: a.Declared, Held: held, Attainment: a.Kept / cmp.Or(a.All, 1)}
}

// Missed advises to plan for the arrivals that come: they are burstier than declared,
// and less than the target is in time. Those that cost nothing are let be, and so are
// more even ones, which may not last.
func (a *Arrivals) Missed(target float64) (ArrivalsAdvice, bool) {
	seen := a.Seen()
	if seen == nil || seen.Side < 0 || seen.Attainment >= target || a.Last.Before(a.Quiet) {
		return ArrivalsAdvice{}, false
	}
	a.Quiet = a.Last.Add(DefaultCooldown)
	return *seen, true
}
