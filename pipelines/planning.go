package pipelines

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Kind of service.
type Kind string

// The kinds, as blocks and IDs of workflows spell them.
const (
	KindPipeline Kind = "pipeline"
	KindPool     Kind = "pool"
	KindFunction Kind = "function"
	KindCluster  Kind = "cluster"
)

// Planning is how a service is planned, as its plan block says; the zero value
// is the default of its kind.
type Planning struct {
	Policy      string   `json:",omitempty"` // empty means exact
	CostModel   string   `json:",omitempty"` // of pipelines; empty means shared
	Without     []string `json:",omitempty"` // steps of the policy that are switched off
	Split       string   `json:",omitempty"` // how policy harpagon divides the objective
	Reading     string   `json:",omitempty"` // of Theorem 1, for a machine that is partly used
	Concurrency bool     `json:",omitempty"` // several batches at a time on a machine, for policies that leave the choice

	// AllowUnsound lets a plan serve that is not sound: some of its windows cannot
	// be kept by any dispatcher.
	AllowUnsound bool `json:",omitempty"`
}

// The names that attributes of a plan block take. The planners in scheduler
// implement them; a test there compares the names.
const (
	policyExact    = "exact"
	policyBrute    = "brute"
	policyHarpagon = "harpagon"
)

// Policies are the names of the policies that plan services of a kind, the
// default first.
func Policies(k Kind) []string {
	switch k {
	case KindPool:
		return []string{policyExact, "kairos", "homogeneous", "kairos+", "random", "genetic", "ribbon"}
	case KindFunction:
		return []string{policyExact, "harmonybatch", "batch", "mbs+", "mbs+ optimal"}
	}
	return []string{policyExact, policyHarpagon, "piccolo", "nexus", "scrooge", "inferline", "clipper", policyBrute}
}

// Concurrencies are how many batches at a time on one device a module is measured
// with for the plan: one, and 2 and 4 where the block asks for several or names a
// policy that Piccolo's sharing of devices is the point of. Policy exact takes such
// points where a profile has them, but is not worth three times the measuring by
// itself: on a core, batches side by side only take turns.
func (p Planning) Concurrencies() []int {
	if slices.Contains(p.Without, "concurrency") || !p.Concurrency && p.Policy != "piccolo" && p.Policy != "scrooge" {
		return []int{1}
	}
	return []int{1, 2, 4}
}

// CostModels are the names of what a plan of a pipeline may cost, the default
// last.
func CostModels() []string { return []string{"proportional", "whole", "shared"} }

// Steps are the steps that a policy of pipelines can do without.
func Steps(policy string) []string {
	all := []string{"tc", "dt", "multi", "multi:one", "hetero", "hetero:dearest", "batch", "concurrency", "dummy", "reassign", "reassign:one", "merge", "direct"}
	switch policy {
	case policyHarpagon:
		return all
	case "piccolo":
		return all[:len(all)-2]
	case policyExact, "":
		return []string{"hetero", "hetero:dearest", "batch", "concurrency"}
	case policyBrute:
		return []string{"hetero", "hetero:dearest", "batch", "concurrency", "dummy"}
	}
	return nil
}

// Splits are the names of how a policy of pipelines may divide the objective;
// quantized takes any step of at least 1ms. Policies that find or prescribe the
// division themselves have none.
func Splits(policy string) []string {
	if policy == policyHarpagon || policy == "piccolo" {
		return []string{"lc", "throughput", "even", "quantized:10ms"}
	}
	return nil
}

// Readings are the names of how Theorem 1 may judge a machine that is only
// partly used, the default first.
func Readings(policy string) []string {
	if policy == policyHarpagon || policy == "piccolo" {
		return []string{"own", "literal"}
	}
	return []string{"own"}
}

// Fault is what is wrong with one attribute of a plan block, or the flag of its
// name.
type Fault struct {
	Attribute string
	Summary   string
	Detail    string // a sentence that says what to write instead
}

// Faults are what is wrong with the planning of a service of that kind.
func (p Planning) Faults(k Kind) []Fault {
	var all []Fault
	add := func(attribute, summary, format string, args ...any) {
		all = append(all, Fault{attribute, summary, fmt.Sprintf(format, args...)})
	}
	policy := p.policy()
	if !slices.Contains(Policies(k), policy) {
		add("policy", "Unknown policy", "%s", unknownPolicy(k, policy))
		return all // what goes with it cannot be judged
	}
	if k != KindPipeline {
		for _, one := range p.attributes() {
			if one.given && one.name != "policy" {
				add(one.name, "Not for a "+string(k), "The plan of a %s has a policy only; %s is for pipelines. Take it out.", k, one.name)
			}
		}
		return all
	}
	if p.CostModel != "" && !slices.Contains(CostModels(), p.CostModel) {
		add("cost_model", "Unknown cost model", "There is no cost model %q.%s", p.CostModel, suggestAll(p.CostModel, CostModels()))
	}
	if fault := p.stepFault(policy); fault != "" {
		add("without", "No such step", "%s", fault)
	}
	if fault := p.splitFault(policy); fault != "" {
		add("split", "No such split", "%s", fault)
	}
	if p.Reading != "" && !slices.Contains(Readings(policy), p.Reading) {
		if slices.Contains(Readings(policyHarpagon), p.Reading) {
			add("reading", "No such reading", "Policy %s has one reading of Theorem 1; take policy harpagon or piccolo for reading %q.", policy, p.Reading)
		} else {
			add("reading", "No such reading", "There is no reading %q of Theorem 1.%s", p.Reading, suggestAll(p.Reading, Readings(policyHarpagon)))
		}
	}
	if p.Concurrency && slices.Contains(p.Without, "concurrency") {
		add("concurrency", "Contradiction", "Several batches at a time are asked for and switched off: take out concurrency, or \"concurrency\" of without.")
	}
	return all
}

// PlanPath is where a plan block stands within its service. No name can be
// spelled like it, so that pipeline "x.plan" is not taken for a part of "x".
const PlanPath = ".{plan}"

// IsZero says whether nothing is declared.
func (p Planning) IsZero() bool {
	for _, one := range p.attributes() {
		if one.given {
			return false
		}
	}
	return true
}

// policy is the policy by its name.
func (p Planning) policy() string { return cmp.Or(p.Policy, policyExact) }

// attributes of a plan block, and whether each has a value.
func (p Planning) attributes() []struct {
	name  string
	given bool
} {
	return []struct {
		name  string
		given bool
	}{
		{"policy", p.Policy != ""}, {"cost_model", p.CostModel != ""}, {"without", len(p.Without) > 0}, {"split", p.Split != ""},
		{"reading", p.Reading != ""}, {"concurrency", p.Concurrency}, {"allow_unsound", p.AllowUnsound},
	}
}

// unknownPolicy says what there is, or which kind of service has the policy.
func unknownPolicy(k Kind, policy string) string {
	for _, other := range []Kind{KindPipeline, KindPool, KindFunction} {
		if slices.Contains(Policies(other), policy) {
			return fmt.Sprintf("Policy %q plans %ss, and this is a %s.%s", policy, other, k, suggestAll("", Policies(k)))
		}
	}
	return fmt.Sprintf("There is no policy %q for a %s.%s", policy, k, suggestAll(policy, Policies(k)))
}

// stepFault says what is wrong with the steps that are switched off.
func (p Planning) stepFault(policy string) string {
	has := Steps(policy)
	for i, step := range p.Without {
		base, _, _ := strings.Cut(step, ":")
		switch {
		case slices.Contains(p.Without[:i], step):
			return fmt.Sprintf("Step %q is switched off twice; once will do.", step)
		case len(has) == 0:
			return fmt.Sprintf("Policy %s has no steps to switch off; take policy harpagon for those.", policy)
		case !slices.Contains(has, step):
			if slices.Contains(Steps(policyHarpagon), step) {
				return fmt.Sprintf("Policy %s has no step %q to switch off; policy harpagon has.%s", policy, step, suggestAll("", has))
			}
			return fmt.Sprintf("Policy %s has no step %q to switch off.%s", policy, step, suggestAll(step, has))
		case step != base && slices.Contains(p.Without, base):
			return fmt.Sprintf("Steps %q and %q exclude each other; keep one of them.", base, step)
		case step == "dt" && slices.Contains(p.Without, "tc"):
			return `Steps "tc" and "dt" exclude each other; keep one of them.`
		}
	}
	return ""
}

// splitFault says what is wrong with the way to divide the objective.
func (p Planning) splitFault(policy string) string {
	switch has := Splits(policy); {
	case p.Split == "" || slices.Contains(has, p.Split):
		return ""
	case len(has) == 0:
		return fmt.Sprintf("Policy %s has one way to divide the objective; leave out split %q, or take policy harpagon.", policy, p.Split)
	}
	if text, ok := strings.CutPrefix(p.Split, "quantized:"); ok {
		if step, err := time.ParseDuration(text); err == nil && step >= time.Millisecond {
			return ""
		}
		return fmt.Sprintf("The step of split %q must be a duration of 1ms or more, as in quantized:10ms.", p.Split)
	}
	return fmt.Sprintf("There is no split %q.%s", p.Split, suggestAll("", Splits(policy)))
}

// suggestAll is suggest for names that are few enough to list all of them.
func suggestAll(name string, candidates []string) string {
	if text := Suggest(name, candidates); name != "" && strings.HasPrefix(text, " Did you mean") {
		return text
	}
	if len(candidates) == 0 {
		return ""
	}
	return " Choose one of " + strings.Join(candidates, ", ") + "."
}
