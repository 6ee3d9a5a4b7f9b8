package autoscale

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/quantity"
	"github.com/harpagon/harpagon/scheduler/plan"
)

// PromiseHold is how long too few requests must be in time before that is reported.
const PromiseHold = time.Minute

// Promise watches whether a pipeline's plan keeps what it promises, whatever the cause of that
// it does not. Like Drift it is a value that a workflow may keep; the zero value is ready.
type Promise struct {
	Since     time.Time `json:",omitzero"` // when it was first not kept; zero while it is
	Last      time.Time `json:",omitzero"` // end of the last measures
	Kept, All float64   `json:",omitzero"` // requests answered in time, and all, since then
	Cause     `json:",omitzero"`
}

// Cause is why a promise is not kept: in a word, with the module that it is about, if any, and
// in a sentence.
type Cause struct {
	Reason, Module, Why string `json:",omitempty"`
}

// The reasons.
const (
	ReasonRate    = "rate"    // more requests come than planned for
	ReasonFails   = "fails"   // a module fails
	ReasonRefused = "refused" // most that are not in time are refused when they come
	ReasonLate    = "late"    // a module keeps requests beyond its budget
)

// Broken is a promise that was not kept for long.
type Broken struct {
	Held       time.Duration
	Attainment float64 // meanwhile
	Target     float64
	Cause
}

// Describe returns it in one line.
func (b Broken) Describe() string {
	return fmt.Sprintf("promise not kept for %v: %s in time, %s promised; %s",
		b.Held.Round(time.Second), quantity.Percent(b.Attainment), quantity.Percent(b.Target), b.Why)
}

// promised is the share of a pipeline's requests that are to be in time: the declared
// attainment, or the default, for even arrivals too; 0 where nothing is promised.
func promised(p *pipelines.Pipeline) float64 {
	if p.Attainment < 0 || p.SLO <= 0 {
		return 0
	}
	return cmp.Or(p.Target(), pipelines.DefaultAttainment)
}

// Observe takes the measures of the next span of time, of a pipeline as it was planned.
func (p *Promise) Observe(m Measures, of *pipelines.Pipeline, planned *plan.Plan) {
	begin, fresh := m.since(p.Last)
	if fresh <= 0 {
		return
	}
	target := promised(of)
	if m.Outcomes() == 0 || m.Attainment >= target {
		*p = Promise{Last: m.To}
		return
	}
	p.Last = m.To
	if p.Since.IsZero() {
		p.Since = begin
	}
	part := fresh.Seconds() / m.Span().Seconds()
	p.Kept, p.All = p.Kept+part*float64(m.Completed), p.All+part*float64(m.Outcomes())
	p.Cause = cause(m, of, planned)
}

// Broken returns a promise that has not been kept for PromiseHold, else nil.
func (p *Promise) Broken(of *pipelines.Pipeline) *Broken {
	held := p.Last.Sub(p.Since)
	if p.Since.IsZero() || held < PromiseHold {
		return nil
	}
	return &Broken{Held: held, Attainment: p.Kept / cmp.Or(p.All, 1), Target: promised(of), Cause: p.Cause}
}

// cause finds what most probably keeps requests from being in time: more of them than planned
// for, a module that fails, that they are refused when they come or given up as they are
// divided, or the module that keeps them the longest beyond its budget.
func cause(m Measures, of *pipelines.Pipeline, planned *plan.Plan) Cause {
	if of.Rate > 0 && m.Offered > (1+DefaultAbove)*of.Rate {
		return Cause{Reason: ReasonRate, Why: fmt.Sprintf("%s requests/s come, and %s are planned for", quantity.Number(m.Offered), quantity.Number(of.Rate))}
	}
	for _, one := range m.Modules {
		if one.Failed > 0 && one.Failure != "" && 2*m.Failed > m.Outcomes()-m.Completed {
			return Cause{Reason: ReasonFails, Module: one.Name, Why: one.Name + " fails: " + one.Failure}
		}
	}
	if 2*m.Refused > m.Outcomes()-m.Completed {
		return Cause{Reason: ReasonRefused, Why: fmt.Sprintf("%s are refused when they come, because what is under way leaves no time for them", quantity.Percent(float64(m.Refused)/float64(m.Outcomes())))}
	}
	if 2*m.Dropped > m.Outcomes()-m.Completed {
		if given, ok := divided(m, of); ok {
			return given
		}
	}
	var worst *ModuleMeasures
	var most, stays, budget time.Duration
	for i := range planned.Modules {
		seen := m.Module(planned.Modules[i].Name)
		if seen == nil {
			continue
		}
		stay := seen.Queue.P99 + seen.Wait.P99 + seen.Compute.P99 + seen.Transfer.P99
		if beyond := stay - planned.Modules[i].Budget; worst == nil || beyond > most {
			worst, most, stays, budget = seen, beyond, stay, planned.Modules[i].Budget
		}
	}
	if worst == nil {
		return Cause{Reason: ReasonLate, Why: "nothing is known of its modules"}
	}
	text := fmt.Sprintf("%s keeps requests for %s and %s are planned (99 of 100: %s for a device, %s for their batch, %s computed, %s on the way)",
		worst.Name, quantity.Duration(stays), quantity.Duration(budget),
		quantity.Duration(worst.Queue.P99), quantity.Duration(worst.Wait.P99), quantity.Duration(worst.Compute.P99), quantity.Duration(worst.Transfer.P99))
	if declared := of.Module(worst.Name); declared != nil && declared.Scatter {
		text += fmt.Sprintf("; the items into which a request is divided come to it at once, %s on average", quantity.Number(Fanout(m, of, worst.Name)))
	}
	return Cause{Reason: ReasonLate, Module: worst.Name, Why: text}
}

// divided is the cause where requests are given up as they are divided: then their items come to
// no module, and none has given them up.
func divided(m Measures, of *pipelines.Pipeline) (Cause, bool) {
	for _, one := range of.Modules {
		seen := m.Module(one.Name)
		if !one.Scatter || seen != nil && (seen.Dropped > 0 || 2*Fanout(m, of, one.Name) > one.Fanout) {
			continue
		}
		return Cause{Reason: ReasonLate, Module: one.Name, Why: fmt.Sprintf("%s are given up before %s: the items into which a request is divided come to it at once, %s as declared, and cannot all be in time",
			quantity.Percent(float64(m.Dropped)/float64(m.Outcomes())), one.Name, quantity.Number(one.Fanout))}, true
	}
	return Cause{}, false
}

// Fanout is how many requests came to a module for each of those that it follows; 0 where that
// is not known.
func Fanout(m Measures, of *pipelines.Pipeline, module string) float64 {
	seen, declared := m.Module(module), of.Module(module)
	if seen == nil || declared == nil {
		return 0
	}
	follows, above := of.Follows(module), 0.0
	for _, name := range follows {
		if from := m.Module(name); from != nil {
			above = max(above, from.Rate)
		}
	}
	if len(follows) == 0 {
		above = m.Offered
	}
	if above == 0 {
		return 0
	}
	return seen.Rate / above
}

// WithMeasuredFanout is the pipeline with the fan-out that was measured where that is more than declared by
// the share, and how that differs; empty where it is not.
func WithMeasuredFanout(m Measures, p pipelines.Pipeline, share float64) (_ pipelines.Pipeline, how string) {
	p.Modules = slices.Clone(p.Modules)
	for i := range p.Modules {
		one := &p.Modules[i]
		if seen := Fanout(m, &p, one.Name); one.Scatter && seen > (1+share)*one.Fanout {
			how += fmt.Sprintf("; %s is sent %s requests for each that it follows, declared %s", one.Name, quantity.Number(seen), quantity.Number(one.Fanout))
			if one.Fanout = RoundUp(seen); one.IsConditional() {
				one.Fanout = min(one.Fanout, 1)
			} else if one.Most > 0 {
				one.Most = max(one.Most, int(math.Ceil(one.Fanout)))
			}
		}
	}
	return p, how
}
