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
	// DefaultHeadroom is the share of the objective that is kept free at the least
	// where durations were measured.
	DefaultHeadroom = 0.1

	// DefaultAttainment is the share of random arrivals that a plan is made for.
	DefaultAttainment = 0.99

	// NoAttainment asks for no capacity beyond what even arrivals need, whatever
	// the arrivals are: attainment = 0 in HCL.
	NoAttainment = -1.0

	mostNoise    = 1.0 // times a duration, that headroom covers by default
	slowestTwice = 2.0 // times the slowest path, that it leaves
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
// besides: the declared headroom. Without one it is 0 where all profiles are
// given, and otherwise the larger of DefaultHeadroom and what the measured noise
// says: when every batch takes the share s longer that one run in 20 takes longer
// (Point.Spread), a plan for 1/(1+s) of the SLO still keeps it. Noise takes no
// more than leaves twice the time of the slowest path, so that it does not make
// an objective impossible.
func (p *Pipeline) Kept() float64 {
	if p.Headroom != nil {
		return *p.Headroom
	}
	if !slices.ContainsFunc(p.Modules, func(m Module) bool { return m.measured() }) {
		return 0
	}
	quickest := make(map[string]time.Duration, len(p.Modules))
	for i := range p.Modules {
		quickest[p.Modules[i].Name] = p.Modules[i].quickest()
	}
	path, _, err := p.LongestPath(func(name string) time.Duration { return quickest[name] })
	if err != nil {
		return DefaultHeadroom
	}
	along := make(map[string]bool, len(path))
	for _, name := range path {
		along[name] = true
	}
	longer, total := 0.0, 0.0
	for i := range p.Modules {
		if m := &p.Modules[i]; along[m.Name] {
			longer += m.noise() * m.quickest().Seconds()
			total += m.quickest().Seconds()
		}
	}
	if !(longer > 0) || !(total > 0) {
		return DefaultHeadroom
	}
	s := math.Min(longer/total, mostNoise)
	possible := 1 - slowestTwice*total/p.SLO.Seconds()
	return math.Max(DefaultHeadroom, math.Min(s/(1+s), possible))
}

// Planned is the pipeline as it is planned: its objective less the headroom. The
// requests' own deadline stays that of the SLO.
func (p Pipeline) Planned() Pipeline {
	kept := p.Kept()
	none := 0.0
	if kept > 0 && kept < 1 {
		p.SLO = max(1, p.SLO-time.Duration(math.Round(kept*float64(p.SLO))))
	}
	p.Headroom = &none
	return p
}

// measured reports whether the module's profile was measured: it tells a spread, or
// is not on file though there is something to measure.
func (m *Module) measured() bool {
	if len(m.Profile.Points) == 0 {
		return false
	}
	spread := func(at Point) bool { return at.Spread > 0 }
	runs := m.Model != "" || m.Function != "" || len(m.Command) > 0
	return slices.ContainsFunc(m.Profile.Points, spread) || m.ProfileFile == "" && runs
}

// quickest is the shortest duration of the profile, 0 without points.
func (m *Module) quickest() time.Duration {
	least := time.Duration(0)
	for _, at := range m.Profile.Points {
		if least == 0 || at.Duration < least {
			least = at.Duration
		}
	}
	return least
}

// noise is the median over the points of spread over duration.
func (m *Module) noise() float64 {
	var all []float64
	for _, at := range m.Profile.Points {
		if at.Duration > 0 {
			all = append(all, float64(at.Spread)/float64(at.Duration))
		}
	}
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[len(all)/2]
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
