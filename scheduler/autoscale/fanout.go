package autoscale

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/quantity"
)

// Fanouts watches into how many items requests are split, module by module. Like Drift it is a
// value that a workflow may keep; the zero value is ready.
type Fanouts struct {
	Modules []FanoutSeen `json:",omitempty"` // in the order of the pipeline
	Quiet   time.Time    `json:",omitzero"`  // fewer are not planned for before
	Last    time.Time    `json:",omitzero"`  // end of the last measures
}

// FanoutSeen is one module that splits what comes to it.
type FanoutSeen struct {
	Module string
	Items  pipelines.Mix `json:",omitempty"` // lately: earlier ones fade within the hold time
	Side   int           `json:",omitempty"` // +1 more than planned for, -1 fewer
	Since  time.Time     `json:",omitzero"`

	Planned float64 // items of one, on average
	Most    int     `json:",omitempty"` // that are planned for; 0 where there is no bound
}

// Reset starts again after another plan took over at now.
func (f *Fanouts) Reset(now time.Time) {
	*f = Fanouts{Quiet: now.Add(DefaultCooldown), Last: now}
}

// Observe takes the measures of the next span of time, of a pipeline as it was planned.
func (f *Fanouts) Observe(m Measures, of *pipelines.Pipeline) {
	_, fresh := m.since(f.Last)
	if fresh <= 0 {
		return
	}
	f.Last = m.To
	fade, part := math.Exp(-fresh.Seconds()/DefaultHold.Seconds()), fresh.Seconds()/m.Span().Seconds()
	before := f.Modules
	f.Modules = nil
	for _, one := range of.Modules {
		seen := m.Module(one.Name)
		if !one.Scatter || seen == nil {
			continue
		}
		next := FanoutSeen{Module: one.Name}
		if i := slices.IndexFunc(before, func(b FanoutSeen) bool { return b.Module == one.Name }); i >= 0 {
			next = before[i]
		}
		next.Planned, next.Most = one.Fanout, one.MostItems()
		next.see(seen.Items, fade, part)
		if side := next.side(); side != next.Side {
			next.Side, next.Since = side, m.To
		}
		f.Modules = append(f.Modules, next)
	}
}

// see adds counts to those that fade.
func (s *FanoutSeen) see(counts []ItemCount, fade, part float64) {
	mix := MixDrift{Seen: slices.Clone(s.Items)}
	for i := range mix.Seen {
		mix.Seen[i].Weight *= fade
	}
	for _, c := range counts {
		mix.add(c.Items, part*float64(c.Times))
	}
	s.Items = slices.DeleteFunc(mix.Seen, func(one pipelines.Size) bool { return one.Weight*DefaultMinRequests < 1 }) // long ago
}

// side reports whether more or fewer items come than planned for, by a share that counts and by
// more than chance explains.
func (s *FanoutSeen) side() int {
	n, mean, squares := s.Items.Total(), s.Items.Mean(), 0.0
	if n < DefaultMinRequests {
		return 0
	}
	for _, one := range s.Items {
		squares += one.Weight * (float64(one.Size) - mean) * (float64(one.Size) - mean)
	}
	switch chance := noise * math.Sqrt(squares) / n; {
	case mean > (1+DefaultAbove)*s.Planned && mean-s.Planned > chance:
		return 1
	case mean < (1-DefaultBelow)*s.Planned && s.Planned-mean > chance:
		return -1
	}
	return 0
}

// Describe returns the deviating fan-outs in one line; empty without any.
func (s FanoutSeen) Describe() string {
	switch most := s.Items.Largest(); {
	case s.Most > 0 && most > s.Most:
		return fmt.Sprintf("%s: %d items at most in a request, planned for %d", s.Module, most, s.Most)
	case s.Side != 0:
		return fmt.Sprintf("%s: %s items in a request on average, planned for %s", s.Module, quantity.Number(s.Items.Mean()), quantity.Number(s.Planned))
	}
	return ""
}

// Into is a pipeline with what was measured of its fan-outs, to be simulated in place of means and
// bounds. One that is declared to be always so many is left alone.
func (f *Fanouts) Into(p pipelines.Pipeline) pipelines.Pipeline {
	p.Modules = slices.Clone(p.Modules)
	for _, s := range f.Modules {
		one := p.Module(s.Module)
		if one != nil && (one.Most > 0 || one.MostItems() == 0) && s.Items.Total() >= DefaultMinRequests && s.Items.Mean() > 0 {
			one.Items = slices.Clone(s.Items)
		}
	}
	return p
}

// Drifted is a pipeline with the fan-outs that were measured, where those of a module have left
// what was planned for: more at once where too few requests are in time and else after the hold
// time, fewer after the time between two plans. The reason is empty where none have.
func (f *Fanouts) Drifted(m Measures, p pipelines.Pipeline) (_ pipelines.Pipeline, how string) {
	p.Modules = slices.Clone(p.Modules)
	for _, s := range f.Modules {
		held := f.Last.Sub(s.Since)
		switch {
		case s.Side == 0, s.Side > 0 && held < DefaultHold && m.Attainment >= promised(&p):
			continue
		case s.Side < 0 && (held < DefaultCooldown || f.Last.Before(f.Quiet)):
			continue
		}
		one, mean := p.Module(s.Module), RoundUp(s.Items.Mean())
		if one == nil || one.IsConditional() && mean > 1 || math.Abs(mean-one.Fanout) <= DefaultAbove/2*one.Fanout {
			continue // the last request could not be met
		}
		how = cmp.Or(how, s.Describe())
		one.Fanout, one.Items = mean, slices.Clone(s.Items)
		if one.Most > 0 {
			one.Most = max(one.Most, int(math.Ceil(mean)))
		}
	}
	return p, how
}
