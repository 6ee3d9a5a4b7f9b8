package functions

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/harpagon/harpagon/pipelines"
)

// Problem is one function, its profile and applications included, and the
// provider that runs it.
type Problem struct {
	Function pipelines.Function
	Provider pipelines.Provider
}

// Options choose how to plan. The zero value is the default.
type Options struct {
	Policy string // PolicyExact when empty

	Seed uint64 // of policy mbs+, whose search begins at random

	// Stop ends the search early: the best plan found by then is returned. Asked
	// from time to time; nil for never.
	Stop func() bool `json:"-"`
	// Clock reads a monotonic clock, for SolveTime. Nil leaves it zero.
	Clock func() time.Duration `json:"-"`
}

// Names of the policies.
const (
	PolicyExact        = "exact"        // the best partition
	PolicyHarmonyBatch = "harmonybatch" // two-stage merging, as printed
	PolicyBatch        = "batch"        // each application alone, on CPU functions, by average latencies
	PolicyMBS          = "mbs+"         // groups of equal rates, each provisioned by eleven steps of Bayesian optimisation
	PolicyMBSOptimal   = "mbs+ optimal" // groups of equal rates, each provisioned at its best
)

// Policies lists the names that Options.Policy takes.
func Policies() []string {
	return []string{PolicyExact, PolicyHarmonyBatch, PolicyBatch, PolicyMBS, PolicyMBSOptimal}
}

func (o Options) policy() string {
	if o.Policy == "" {
		return PolicyExact
	}
	return o.Policy
}

// Check says what is wrong with the options, naming what exists.
func (o Options) Check() error {
	if !slices.Contains(Policies(), o.policy()) {
		return fmt.Errorf("functions: there is no policy %q; there is %s", o.Policy, strings.Join(Policies(), ", "))
	}
	return nil
}

// Check says what is wrong with the problem. One that was loaded from HCL and
// validated has nothing wrong, save objectives that cannot be met: those are an
// infeasible plan.
func (p Problem) Check() error {
	if p.Function.Provider != p.Provider.Name {
		return fmt.Errorf("functions: function %q names provider %q, not %q", p.Function.Name, p.Function.Provider, p.Provider.Name)
	}
	if err := pipelines.CheckFunction(&p.Function, &p.Provider); err != nil {
		return fmt.Errorf("functions: function %q: %w", p.Function.Name, err)
	}
	return nil
}
