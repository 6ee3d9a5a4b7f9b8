package pipelines

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"
)

// What a plan keeps back where a declaration does not say.
const (
	// DefaultHeadroom is the share of the objective that is kept free where durations
	// were measured and plans do not count on their spread.
	DefaultHeadroom = 0.1

	// DefaultAttainment is the share of random arrivals that a plan is made for.
	DefaultAttainment = 0.99

	// NoAttainment asks for no capacity beyond what even arrivals need, whatever
	// the arrivals are: attainment = 0 in HCL.
	NoAttainment = -1.0

	// MeasuredQuantile is the share of measured runs that took at most Duration + Spread
	// of a Point.
	MeasuredQuantile = 0.95
)

// Target is the share of requests that the plan must finish within the SLO, by
// simulation: the declared attainment, DefaultAttainment where requests or their
// items do not come evenly and none is declared, and 0 where nothing is asked for.
func (p *Pipeline) Target() float64 {
	_, _, _, err := SplitArrivals(p.Arrivals)
	switch {
	case p.Attainment > 0:
		return p.Attainment
	case p.Attainment < 0 || err != nil || p.ProvesEvery():
		return 0
	}
	return DefaultAttainment
}

// ProvesEvery reports whether a plan may promise something to every request: they come evenly,
// no module gets more than so many items of one, and no attainment is asked for of fan-outs that
// vary. Where none at all is asked for, NoAttainment, items count by their mean rate.
func (p *Pipeline) ProvesEvery() bool {
	kind, _, _, err := SplitArrivals(p.Arrivals)
	if err != nil || kind != ArrivalsEven {
		return false
	}
	most := p.Bursts()
	for i := range p.Modules {
		m := &p.Modules[i]
		if most[m.Name] == 0 || most[m.Name] > 1 && p.Attainment < 0 || m.Rate > 0 && math.Abs(m.Rate-float64(most[m.Name])*p.Rate) > 1e-9*m.Rate {
			return false
		}
	}
	return p.Attainment <= 0 || !slices.ContainsFunc(p.Modules, func(m Module) bool { return m.Scatter && float64(m.MostItems()) != m.Fanout })
}

// Kept is the share of the SLO that planning leaves free for what machines do
// besides: the declared headroom. Without one it is DefaultHeadroom where durations
// were measured and plans do not count on their spread (see Quantile), and 0 otherwise.
func (p *Pipeline) Kept() float64 {
	switch {
	case p.Headroom != nil:
		return *p.Headroom
	case p.Quantile() > 0 || !slices.ContainsFunc(p.Modules, func(m Module) bool { return m.measured() }):
		return 0
	}
	return DefaultHeadroom
}

// Quantile is the share of measured runs that took no longer than planning counts for a
// batch: MeasuredQuantile where a profile tells a spread, no headroom is declared, and the
// objective leaves room for it; 0 where durations count as profiles state them.
func (p *Pipeline) Quantile() float64 {
	if p.Headroom != nil || !slices.ContainsFunc(p.Modules, func(m Module) bool { return m.spreads() }) {
		return 0
	}
	quickest := make(map[string]time.Duration, len(p.Modules))
	for i := range p.Modules {
		quickest[p.Modules[i].Name] = p.Modules[i].quickest()
	}
	if _, need, err := p.LongestPath(func(name string) time.Duration { return quickest[name] }); err != nil || need > p.SLO {
		return 0
	}
	return MeasuredQuantile
}

// Planned is the pipeline as it is planned: its objective less the headroom, and its
// profiles with the spreads that Quantile counts. The requests' own deadline stays that of
// the SLO.
func (p Pipeline) Planned() Pipeline {
	if kept := p.Kept(); kept > 0 && kept < 1 {
		p.SLO = max(1, p.SLO-time.Duration(math.Round(kept*float64(p.SLO))))
	}
	if p.Quantile() > 0 {
		p.Modules = slices.Clone(p.Modules)
		for i := range p.Modules {
			p.Modules[i].Profile.Points = Raised(p.Modules[i].Profile.Points)
		}
	}
	none := 0.0
	p.Headroom = &none
	return p
}

// Raised are points whose durations count their spread: what MeasuredQuantile of all runs
// took at most.
func Raised(points []Point) []Point {
	all := slices.Clone(points)
	for i := range all {
		all[i].Duration, all[i].Spread = all[i].Duration+all[i].Spread, 0
	}
	return all
}

// spreads reports whether the module's profile tells how durations vary.
func (m *Module) spreads() bool {
	return slices.ContainsFunc(m.Profile.Points, func(at Point) bool { return at.Spread > 0 })
}

// measured reports whether the module's profile was measured: it tells a spread, or
// is not on file though there is something to measure.
func (m *Module) measured() bool {
	runs := m.Model != "" || m.Function != "" || len(m.Command) > 0
	return m.spreads() || len(m.Profile.Points) > 0 && m.ProfileFile == "" && runs
}

// quickest is the shortest duration of the profile, its spread counted; 0 without points.
func (m *Module) quickest() time.Duration {
	least := time.Duration(0)
	for _, at := range m.Profile.Points {
		if d := at.Duration + at.Spread; least == 0 || d < least {
			least = d
		}
	}
	return least
}

// HeadroomHint is how a headroom is written, for errors.
const HeadroomHint = `a share of the objective, such as "10%"`

// CheckHeadroom reports what is wrong with a share, and nothing when it is right.
func CheckHeadroom(share float64) string {
	if share >= 0 && share < 1 {
		return ""
	}
	what := "Headroom is " + HeadroomHint + ", from 0% to less than 100%; "
	switch {
	case math.IsNaN(share) || math.IsInf(share, 0):
		return what + "write it with a percent sign in quotes."
	case share < 0:
		return what + `it cannot be negative: "0%" keeps nothing.`
	}
	return fmt.Sprintf("%s%s would leave no time to serve requests. Keep less, or raise the SLO.", what, PercentText(share))
}

// PercentText is a share as HCL writes it.
func PercentText(share float64) string {
	return strconv.FormatFloat(math.Round(share*100*1e9)/1e9, 'f', -1, 64) + "%"
}
