package workflows

import (
	"fmt"
	"strings"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/autoscale"
	"github.com/harpagon/harpagon/scheduler/functions"
)

// FunctionSpec is what a user asks for of a function.
type FunctionSpec struct {
	Function pipelines.Function
	Provider pipelines.Provider
	Options  functions.Options
}

// FunctionApply replaces the spec of a function.
type FunctionApply struct {
	Spec   FunctionSpec
	Expect int    // generation that must be the current one; 0 for any
	Reason string // for the history; empty means "applied"
}

// FunctionState is everything a function workflow knows. It is the workflow's
// input, so that it can continue as new.
type FunctionState struct {
	Name     string
	Settings Settings

	Spec       FunctionSpec
	Generation int    // grows with every accepted change
	Cause      string // of the latest change
	Pending    bool   // Spec has changed and is not carried out

	Phase     Phase
	Serving   *functions.Deployment // what the gateway has installed
	Reinstall bool                  // the gateway has started anew
	Stop      Stop

	Decisions []FunctionDecision
	Failure   *Failure
	Failures  int // in a row
	RetryAt   time.Time

	Drift    []ApplicationDrift // in the order of the spec
	Measures *functions.Measures
	Handled  int // messages in this run
}

// ApplicationDrift watches the rate of one application.
type ApplicationDrift struct {
	Application string
	Drift       autoscale.Drift
}

// FunctionDecision is one change that was tried.
type FunctionDecision struct {
	Generation int
	At         time.Time
	Reason     string
	Change     Change
	Groups     int
	Failure    string // empty when it was carried out
}

// Describe is the decision in one line, or two when it failed.
func (d FunctionDecision) Describe() string {
	line := fmt.Sprintf("  %s generation %d: %s", d.At.UTC().Format(time.DateTime), d.Generation, d.Reason)
	if d.Failure != "" {
		return line + "\n    failed: " + d.Failure + "\n"
	}
	groups := "1 group"
	if d.Groups != 1 {
		groups = fmt.Sprintf("%d groups", d.Groups)
	}
	return fmt.Sprintf("%s\n    %s; %s\n", line, d.Change.Describe(), groups)
}

// FunctionStatus is a function at one moment, for people and programs.
type FunctionStatus struct {
	Function       string
	Phase          Phase
	Generation     int     // that serves; while none does, the one that is asked for
	Serving        int     // generation that serves; 0 when none does
	Rate           float64 // requests per second of that generation
	Cost           float64 // per hour, by the plan that serves
	CostPerRequest float64 // by the plan that serves
	Cause          string  // of that generation
	Asked          *Asked  `json:",omitempty"` // nil when what serves is what is asked for
	Pending        bool
	Plan           *functions.Plan
	Decisions      []FunctionDecision // oldest first
	Failure        *Failure
	Measures       *functions.Measures
}

// Describe writes the status as `harpagon status NAME` and `explain` print it.
func (s FunctionStatus) Describe() string {
	var b strings.Builder
	b.WriteString(headline("function", s.Function, s.Phase, s.Generation, s.Rate, s.Cost, s.Cause, s.Asked, s.Failure))
	if s.Plan != nil {
		fmt.Fprintf(&b, "\n%s", s.Plan.Describe())
	}
	if s.Measures != nil && s.Plan != nil && s.Measures.Generation == s.Serving {
		fmt.Fprintf(&b, "\nmeasured since this plan serves\n%s", s.Measures.Describe(*s.Plan))
	}
	if len(s.Decisions) > 0 {
		b.WriteString("\ndecisions, latest first\n")
		for i := len(s.Decisions) - 1; i >= 0; i-- {
			b.WriteString(s.Decisions[i].Describe())
		}
	}
	return b.String()
}
