package plan

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/quantity"
)

// Problem is one pipeline, its profiles included, and the hardware that may
// run it.
type Problem struct {
	Pipeline pipelines.Pipeline
	Hardware []pipelines.Hardware

	// Held are devices that others use, with what runs there. Policy exact under
	// cost model shared may use what is left of them, where all batches stay in time,
	// and is charged for its part in proportion to the time that is used.
	Held []HeldDevice `json:",omitempty"`
}

// Options choose how to plan. The zero value is the default.
type Options struct {
	Policy    string // PolicyExact when empty
	CostModel string // CostShared when empty

	// Without switches off steps of the policy, as in the papers' ablations; see
	// paper.Ablations for what they call the variants. "tc" (round robin, 2d) or "dt"
	// (each configuration collects at its own machines' rate, d + b/t); "multi"
	// (two configurations a module) or "multi:one" (one); "hetero" (only the
	// cheapest hardware) or "hetero:dearest"; "batch" (only the smallest batch);
	// "concurrency" (one batch at a time on a machine); "dummy"; "reassign" (or
	// "reassign:one", what is left goes to one module only); "merge"; "direct".
	// Of two that exclude each other the first of this list counts.
	Without []string

	// Split is how the latency is divided: "lc" (default, latency-cost
	// efficiency), "throughput", "quantized:10ms" or "even".
	Split string

	// Reading is how Theorem 1 judges a machine that is only partly used:
	// ReadingOwn (default) or ReadingLiteral.
	Reading string

	// Concurrency lets a policy use profile points measured with several batches
	// at a time on a machine. Policies exact, piccolo and scrooge always do.
	Concurrency bool

	// TimeLimit bounds a search by Clock: the best plan found by then is returned, with its
	// bound and CutShort set. It is a guard: searches bound their work by themselves, in
	// steps that are the same on any machine, so that the same problem has the same plan.
	// Policy harpagon needs milliseconds and ignores it.
	TimeLimit time.Duration

	// NoBound leaves out the search for a lower bound where budgets are given (ScheduleModules):
	// of many plans only one may need it.
	NoBound bool `json:"-"`

	// Stop, where it is not nil, is polled; true ends a search like TimeLimit does.
	Stop func() bool `json:"-"`

	// Policies are those that a program brings beside the ones of this project, by their names
	// (pipelines.Qualified); for Policy.
	Policies map[string]Policy `json:"-"`

	// Clock reads a monotonic clock, for SolveTime and TimeLimit. Nil leaves
	// SolveTime zero.
	Clock func() time.Duration `json:"-"`

	until func() bool // Stop and TimeLimit from when the search began
	ended *bool       // until was true once
}

// Names of the policies and cost models that exist.
const (
	PolicyHarpagon   = "harpagon"
	PolicyExact      = "exact" // least cost, with a proven lower bound
	PolicyNexus      = "nexus"
	PolicyInferLine  = "inferline"
	PolicyClipper    = "clipper"
	PolicyPiccolo    = "piccolo"
	PolicyScrooge    = "scrooge"
	PolicyBrute      = "brute" // all configuration sets and splits, in the papers' reading
	CostProportional = "proportional"
	CostWhole        = "whole"  // whole devices, each for one module
	CostShared       = "shared" // whole devices that modules and pipelines may share
)

// Budgets is the share of the latency objective that each module may use. The
// budgets along any path of the pipeline add up to at most its SLO.
type Budgets map[string]time.Duration

// CostModels lists the names that Options.CostModel takes.
func CostModels() []string { return []string{CostProportional, CostWhole, CostShared} }

func (o Options) policy() string {
	if o.Policy == "" {
		return PolicyExact
	}
	return o.Policy
}

func (o Options) costModel() string {
	if o.CostModel == "" {
		return CostShared
	}
	return o.CostModel
}

// Lacks reports that a step is switched off, or one that the policy does not have.
func (o Options) Lacks(step string) bool { return slices.Contains(o.Without, step) }

// Check returns an error for invalid options that names the valid ones: each policy accepts
// those of its row in pipelines.PlanPolicies.
func (o Options) Check() error {
	open := pipelines.PlanPolicyNamed(pipelines.KindPipeline, o.Policy)
	if !slices.Contains(CostModels(), o.costModel()) {
		return fmt.Errorf("plan: policy %s has no cost model %q; it has %s", o.policy(), o.CostModel, strings.Join(CostModels(), ", "))
	}
	if open.Steps == nil && (o.Split != "" || len(o.Without) > 0) {
		return fmt.Errorf("plan: policy %s has one way to split and no steps to switch off; take policy harpagon for those", o.policy())
	}
	for _, step := range o.Without {
		if !slices.Contains(open.Steps, step) {
			return fmt.Errorf("plan: policy %s has no step %q to switch off; it has %s", o.policy(), step, strings.Join(open.Steps, ", "))
		}
	}
	if !open.Splits && o.Split != "" {
		return fmt.Errorf("plan: policy %s finds the best split itself; leave out split %q, or take policy harpagon", o.policy(), o.Split)
	}
	switch {
	case o.Reading != "" && !slices.Contains(readings(), o.Reading):
		return fmt.Errorf("plan: there is no reading %q of Theorem 1; there is %s", o.Reading, strings.Join(readings(), " and "))
	case o.Reading == ReadingLiteral && !open.Readings:
		return fmt.Errorf("plan: policy %s has one reading of Theorem 1; take policy harpagon or piccolo for reading %q", o.policy(), o.Reading)
	}
	return nil
}

// Check reports what is wrong with the numbers of the problem, the first thing
// found. A problem that was loaded from HCL and validated has nothing wrong.
func (p Problem) Check() error {
	pipe := &p.Pipeline
	if len(pipe.Modules) == 0 {
		return fmt.Errorf("plan: pipeline %q has no modules", pipe.Name)
	}
	if pipe.SLO <= 0 {
		return fmt.Errorf("plan: pipeline %q has an SLO of %v; it must be above zero", pipe.Name, pipe.SLO)
	}
	if !finite(pipe.Rate) {
		return fmt.Errorf("plan: pipeline %q has a rate of %v; it must be a number of requests per second, zero or more", pipe.Name, pipe.Rate)
	}
	if err := p.checkHardware(); err != nil {
		return err
	}
	seen := map[string]bool{}
	for i := range pipe.Modules {
		m := &pipe.Modules[i]
		if seen[m.Name] {
			return fmt.Errorf("plan: pipeline %q has two modules %q", pipe.Name, m.Name)
		}
		seen[m.Name] = true
		if err := checkModule(m); err != nil {
			return err
		}
	}
	if _, err := pipe.Order(); err != nil {
		return fmt.Errorf("plan: pipeline %q: %w", pipe.Name, err)
	}
	for name, rate := range pipe.Rates() {
		if !finite(rate) {
			return fmt.Errorf("plan: module %q would receive %v requests per second; lower its fanout or rate", name, rate)
		}
	}
	return nil
}

func (p Problem) checkHardware() error {
	seen := map[string]bool{}
	for _, h := range p.Hardware {
		switch {
		case seen[h.Name]:
			return fmt.Errorf("plan: hardware %q is declared twice", h.Name)
		case !finite(h.Price):
			return fmt.Errorf("plan: hardware %q has a price of %v; it must be a number, zero or more", h.Name, h.Price)
		case h.Count < 0:
			return fmt.Errorf("plan: hardware %q has a count of %d; it must be zero (unlimited) or more", h.Name, h.Count)
		}
		seen[h.Name] = true
	}
	return nil
}

func checkModule(m *pipelines.Module) error {
	if !finite(m.Fanout) || !finite(m.Rate) {
		return fmt.Errorf("plan: module %q has a fanout of %v and a rate of %v; both must be numbers, zero or more", m.Name, m.Fanout, m.Rate)
	}
	for _, pt := range m.Profile.Points {
		if pt.Batch < 1 || pt.Duration <= 0 || pt.Concurrency < 0 {
			return fmt.Errorf("plan: module %q has a profile point on %q with batch %d, concurrency %d and duration %v; all must be above zero",
				m.Name, pt.Hardware, pt.Batch, pt.Concurrency, pt.Duration)
		}
	}
	return nil
}

// finite is true for numbers that are zero or more and not infinite.
func finite(x float64) bool { return x >= 0 && !math.IsInf(x, 1) }

// Headroom: a plan is made for the objective less the share that the pipeline
// keeps for what machines do besides (pipelines.Pipeline.Kept), or with durations
// that few of the measured runs took longer than (Quantile). Its budgets add
// up to that; the deadline of requests stays the objective. Every entry of the
// package plans the tightened problem and writes the objective as declared.

// tightened is the problem as it is planned: without headroom, for what it
// leaves of the objective, and with durations that count their spread.
func (p Problem) tightened() Problem {
	p.Pipeline = p.Pipeline.Planned()
	return p
}

// keep notes in the plan of a tightened problem the headroom that it keeps.
func (p *Plan) keep(declared *Problem) {
	p.Headroom = declared.Pipeline.SLO - declared.tightened().Pipeline.SLO
	p.SLO = declared.Pipeline.SLO
	if p.DurationQuantile = declared.Pipeline.Quantile(); p.Covers != nil {
		p.Covers.DurationQuantile = p.DurationQuantile
	}
	if p.Status == Infeasible && p.Reason != "" {
		p.Reason += declared.less()
	}
}

// less explains an objective that is shorter, or durations that are longer, than declared.
func (p *Problem) less() string {
	kept := p.Pipeline.SLO - p.tightened().Pipeline.SLO
	switch quantile := p.Pipeline.Quantile(); {
	case quantile > 0:
		return " (durations are what " + quantity.Percent(quantile) + ` of measured runs took at most; headroom = "0%" counts those that profiles state)`
	case kept <= 0:
		return ""
	}
	return " (the SLO of " + quantity.Duration(p.Pipeline.SLO) + " less a headroom of " + quantity.Duration(kept) + ")"
}

// explained adds that to a reason.
func (p *Problem) explained(err error) error {
	var why *InfeasibleError
	if less := p.less(); less != "" && errors.As(err, &why) {
		told := *why
		told.Reason, told.SLO = told.Reason+less, p.Pipeline.SLO
		return &told
	}
	return err
}

// HasMargin reports whether the plan keeps anything for what machines do besides.
func (p *Plan) HasMargin() bool { return p.Headroom > 0 || p.DurationQuantile > 0 }

// Relaxed is the problem without headroom, and with durations as profiles state them: the
// difference in cost is the price of the margin.
func (p Problem) Relaxed() Problem {
	none := 0.0
	p.Pipeline.Headroom = &none
	return p
}

// Transferred is the pipeline as a gateway sees it whose batches are on their way to an
// executor and back for so long: until the answer is there, the executor gets no other
// batch, and the item goes nowhere else. So every batch takes that much longer, in its
// part of the objective and of its machine alike.
func Transferred(p pipelines.Pipeline, transfer time.Duration) pipelines.Pipeline {
	if transfer <= 0 {
		return p
	}
	p.Modules = slices.Clone(p.Modules)
	for i := range p.Modules {
		points := slices.Clone(p.Modules[i].Profile.Points)
		for k := range points {
			points[k].Duration += transfer
		}
		p.Modules[i].Profile.Points = points
	}
	return p
}

// Count notes in the plan of a pipeline that was Transferred the transfer that it includes.
func (p *Plan) Count(transfer time.Duration) {
	if p.Transfer = max(0, transfer); p.Transfer > 0 && p.Status == Infeasible {
		p.Reason += " (" + quantity.Duration(p.Transfer) + " of that at every module for the way to executors and back, as measured)"
	}
}
