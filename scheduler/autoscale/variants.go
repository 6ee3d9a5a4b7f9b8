package autoscale

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/quantity"
	"github.com/harpagon/harpagon/scheduler/plan"
)

// What a pipeline that degrades takes for a change of its rate: it is to have changed its
// networks before requests are dropped, and nothing is paid for a change of mind, as its
// devices are the same.
const (
	degradeAbove    = 0.05
	degradeBelow    = 0.15
	degradeHold     = 5 * time.Second
	degradeCooldown = 10 * time.Second
	degradeAhead    = 0.25
)

// For returns the options for the pipeline: where it degrades, unset options react to a
// change of its rate sooner.
func (o DriftOptions) For(p *pipelines.Pipeline, hardware []pipelines.Hardware) DriftOptions {
	if p == nil || !p.Degrades(hardware) {
		return o
	}
	o.Above, o.Below = positive(o.Above, degradeAbove), positive(o.Below, degradeBelow)
	o.Ahead = positive(o.Ahead, degradeAhead)
	o.Hold, o.Cooldown = positive(o.Hold, degradeHold), positive(o.Cooldown, degradeCooldown)
	return o
}

// RoundUp keeps two significant digits of a rate, rounded up, because a plan for a few
// per cent more costs little and a plan for a few less is late.
func RoundUp(rate float64) float64 {
	const tolerance = 1e-9 // of rates that have two digits already
	step := math.Pow(10, math.Floor(math.Log10(rate))-1)
	return math.Ceil(rate/step-tolerance) * step
}

// Answered counts how many requests each combination of variants has answered. Like Drift
// it is a value that a workflow may keep.
type Answered struct {
	Requests map[string]float64 `json:"requests,omitempty"` // by combination, as plan.Name writes it
	Last     time.Time          `json:"last,omitzero"`      // end of the last measures
}

// Observe counts what was answered under a plan. Measures of a generation other than the
// serving one are ignored.
func (a *Answered) Observe(m Measures, p *plan.Plan, serving int) {
	_, fresh := m.since(a.Last)
	if fresh > 0 {
		a.Last = m.To
	}
	if p == nil || len(p.Variants) == 0 || fresh <= 0 || m.Generation != serving {
		return
	}
	if a.Requests == nil {
		a.Requests = map[string]float64{}
	}
	a.Requests[plan.VariantName(p.Variants)] += float64(m.Completed+m.Late) * fresh.Seconds() / m.Span().Seconds()
}

// AnsweredBy is what one combination of variants has answered.
type AnsweredBy struct {
	Variants string  // as plan.Name writes it
	Requests float64 // about so many
	Share    float64 // of all that were answered
}

// Shares are the combinations by name.
func (a Answered) Shares() (all []AnsweredBy) {
	sum := 0.0
	for _, name := range slices.Sorted(maps.Keys(a.Requests)) {
		sum += a.Requests[name]
		all = append(all, AnsweredBy{Variants: name, Requests: a.Requests[name]})
	}
	for i := range all {
		if sum > 0 {
			all[i].Share = all[i].Requests / sum
		}
	}
	return all
}

// Describe returns in one line which combination has answered which share; empty before any
// request.
func (a Answered) Describe() string {
	sum := 0.0
	var parts []string
	for _, one := range a.Shares() {
		sum += one.Requests
		parts = append(parts, fmt.Sprintf("%s with %s", quantity.Percent(one.Share), one.Variants))
	}
	if sum == 0 {
		return ""
	}
	return fmt.Sprintf("answered about %s requests: %s\n", quantity.Number(math.Round(sum)), strings.Join(parts, ", "))
}
