// Package shared holds the policies over shared devices: any executor runs any model,
// and one dispatcher serves all of them.
//
//	base.go                 what all of them have in common: queues, executors, clock and timer
//	batch_forming.go        durations, batch sizes and how long a batch waits
//	adaptive.go             the default: deferred batching with a target from the staggered
//	                        bound; no model starves beside others
//	adaptive_lookahead.go   its look at the turns to come
//	deferred.go             Symphony (section 4): a batch waits while its deadline allows; eager
//	clockwork.go, nexus.go  baselines
//	options.go              makes one by name
//
// upperLimit in experiments bounds what any of them can reach.
package shared

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// Model is one kind of request that a cluster serves. The Class of a Request is
// the place of its model in Options.Models.
type Model struct {
	// Durations[b-1] is the profiled duration of a batch of b; its length is
	// the largest batch. It should not fall with b; where it does, the longer
	// duration of a smaller batch counts.
	Durations []time.Duration

	// Groups, where given, are tables for executors that differ: Groups[g]
	// takes the place of Durations on executors that came up with Group g.
	// Groups without a table of their own take Durations.
	Groups [][]time.Duration

	// SLO is the time from arrival to deadline that most requests have.
	// Target batches follow from it; a request without a Deadline is due one
	// SLO after its Arrival.
	SLO time.Duration

	// Rate is the expected arrivals per second; 0 if unknown. Policies that
	// need the rate measure it and begin with this one. nexus plans with it.
	Rate float64
}

// Options configures a policy that serves many models on one cluster of
// executors, any model on any executor.
type Options struct {
	Models []Model

	// MaxQueue is the most requests that may wait, of all models together; one
	// more is dropped as Full. 0 means DefaultMaxQueue.
	MaxQueue int

	// Delay of the network. Where it is not zero, a Start may name an executor
	// that still runs a batch, at most one ahead and early by no more than the
	// delay, so that data travel while the executor works; Action.At is when the batch is
	// to begin there. ExecutorFree then reports the end of the batch that ran, and the one
	// sent ahead begins.
	Delay dispatch.Delay

	// Margin is kept before every deadline, for timers and executors that are
	// not punctual.
	Margin time.Duration
}

// Linear is the table of durations l(b) = each·b + fixed for b = 1 .. largest
// (Symphony, section 3.1).
func Linear(each, fixed time.Duration, largest int) []time.Duration {
	table := make([]time.Duration, max(0, largest))
	for b := range table {
		table[b] = fixed + time.Duration(b+1)*each
	}
	return table
}

// Check reports what is wrong with the options, naming the model. The
// constructors mend what Check refuses, as New does.
func (o Options) Check() error {
	if len(o.Models) == 0 {
		return fmt.Errorf("a cluster needs at least one model")
	}
	if o.Delay.Control < 0 || o.Delay.PerRequest < 0 || o.Margin < 0 {
		return fmt.Errorf("delays and margin of a cluster must not be negative")
	}
	for i, m := range o.Models {
		if err := m.check(); err != nil {
			return fmt.Errorf("model %d: %w", i, err)
		}
	}
	return nil
}

func (m Model) check() error {
	if m.SLO <= 0 {
		return fmt.Errorf("give an SLO above zero, not %v", m.SLO)
	}
	if m.Rate < 0 || math.IsNaN(m.Rate) || math.IsInf(m.Rate, 0) {
		return fmt.Errorf("give a rate of zero (unknown) or above, not %v", m.Rate)
	}
	for _, table := range append([][]time.Duration{m.Durations}, m.Groups...) {
		if len(table) == 0 {
			return fmt.Errorf("give the durations of batches, from a batch of 1 up")
		}
		for b, d := range table {
			if d <= 0 {
				return fmt.Errorf("the duration of a batch of %d must be above zero, not %v", b+1, d)
			}
		}
		if table[0] > m.SLO {
			return fmt.Errorf("a batch of 1 takes %v, longer than the SLO of %v: raise the SLO or use faster hardware", table[0], m.SLO)
		}
	}
	return nil
}

// maker is a policy by its name, and what builds it with the variants that were chosen.
type maker struct {
	name string
	make func(name string, o Options, variants []string) dispatch.Policy
}

// makers lists the policies that New builds; pipelines.DispatchPolicies lists what
// declarations may set of them.
func makers() []maker {
	return []maker{
		{"adaptive", func(_ string, o Options, _ []string) dispatch.Policy { return NewAdaptive(o) }},
		{"clockwork", func(_ string, o Options, _ []string) dispatch.Policy {
			return NewClockwork(ClockworkOptions{Options: o})
		}},
		{"deferred", func(name string, o Options, variants []string) dispatch.Policy {
			ready := FrontRun
			if variants[0] == "beta-lambda" {
				ready = BetaLambda
			}
			return newDeferred(name, DeferredOptions{Options: o, Ready: ready, Drop: dropRule(variants[1])})
		}},
		{"eager", func(name string, o Options, variants []string) dispatch.Policy {
			return newDeferred(name, DeferredOptions{Options: o, Ready: AtOnce, Drop: dropRule(variants[0])})
		}},
		{"nexus", func(_ string, o Options, _ []string) dispatch.Policy { return NewNexus(NexusOptions{Options: o}) }},
	}
}

// Names lists the policies that New builds.
func Names() []string {
	var names []string
	for _, m := range makers() {
		names = append(names, m.name)
	}
	return names
}

// New builds the cluster policy of that name, which may choose among variants
// (pipelines.DispatchPolicy).
func New(name string, o Options) (dispatch.Policy, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	policy, chosen, err := pipelines.SplitDispatch(name)
	if err != nil {
		return nil, err
	}
	for _, m := range makers() {
		if m.name == policy {
			return m.make(name, o, chosen), nil
		}
	}
	return nil, fmt.Errorf("there is no dispatch policy %q for clusters; choose one of %s", policy, strings.Join(Names(), ", "))
}

func dropRule(name string) DropRule {
	return DropRule(slices.Index([]string{"window", "early", "head"}, name))
}
