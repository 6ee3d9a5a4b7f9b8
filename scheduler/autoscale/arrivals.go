package autoscale

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/quantity"
)

// Gaps says how unevenly the requests of a service came, apart from how many: slow
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
	likePoisson  = 2.0 // the most variation that a plan for Poisson arrivals stands for
	unknownGaps  = -1.0
)

// Arrivals watches whether requests come as they are declared to. Like Drift it is a
// value that a workflow may keep; its options are those of a Drift.
type Arrivals struct {
	Declared  float64 // variation; negative where the declaration tells none, as of a trace
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

// Describe says it in one line.
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
	case a.Variation <= likePoisson:
		return pipelines.ArrivalsPoisson
	}
	shape := 1 / a.Variation
	digit := math.Pow(10, math.Floor(math.Log10(shape)))
	return fmt.Sprintf("%s:%g", pipelines.ArrivalsGamma, math.Max(math.Floor(shape/digit)*digit, 0.01))
}

// Variation is the squared coefficient of variation of the gaps between requests that
// come as the text of a declaration says; negative where it does not tell.
func Variation(declared string) float64 {
	kind, shape, _, err := pipelines.SplitArrivals(declared)
	switch {
	case err != nil || kind == pipelines.ArrivalsTrace:
		return unknownGaps
	case kind == pipelines.ArrivalsPoisson:
		return 1
	case kind == pipelines.ArrivalsGamma:
		return 1 / shape
	}
	return 0
}

// Reset starts anew after a plan for the declared arrivals took over at now.
func (a *Arrivals) Reset(declared string, now time.Time) {
	*a = Arrivals{Declared: Variation(declared), Since: now, Quiet: now.Add(DefaultCooldown), Last: now}
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

// Seen is what is worth telling: arrivals that have been other than declared for the
// hold time. Nil is nothing.
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
