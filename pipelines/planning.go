package pipelines

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
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

// Concurrencies are how many batches at a time on one device a module is measured
// with for the plan: one, and 2 and 4 where the block asks for several or names a
// policy that Piccolo's sharing of devices is the point of. Policy exact takes such
// points where a profile has them, but is not worth three times the measuring by
// itself: on a core, batches side by side only take turns.
func (p Planning) Concurrencies() []int {
	if slices.Contains(p.Without, "concurrency") || !p.Concurrency && !PlanPolicyNamed(KindPipeline, p.Policy).Several {
		return []int{1}
	}
	return []int{1, 2, 4}
}

// CostModels are the names of what a plan of a pipeline may cost, the default
// last.
func CostModels() []string { return []string{"proportional", "whole", "shared"} }

// Steps are all steps that a policy of pipelines can do without.
func Steps() []string { return mostOpen().Steps }

// Splits are the names of how a policy of pipelines may divide the objective, where it leaves
// that open; quantized takes any step of at least 1ms.
func Splits() []string { return []string{"lc", "throughput", "even", "quantized:10ms"} }

// Readings are the names of how Theorem 1 may judge a machine that is only partly used, the
// default first, which is the only one of policies that do not leave it open.
func Readings() []string { return []string{"own", "literal"} }

// Faults are what is wrong with the planning of a service of that kind.
func (p Planning) Faults(k Kind) []Fault {
	var all []Fault
	add := func(attribute, summary, format string, args ...any) {
		all = append(all, Fault{attribute, summary, fmt.Sprintf(format, args...)})
	}
	policy := PlanPolicyNamed(k, p.Policy)
	if !plans(k, policy.Name) {
		add("policy", "Unknown policy", "%s", unknownPolicy(k, policy.Name))
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
	if Qualified(policy.Name) {
		return all // it says itself what it takes
	}
	if fault := p.stepFault(policy); fault != "" {
		add("without", "No such step", "%s", fault)
	}
	if fault := p.splitFault(policy); fault != "" {
		add("split", "No such split", "%s", fault)
	}
	switch {
	case p.Reading == "":
	case !slices.Contains(Readings(), p.Reading):
		add("reading", "No such reading", "There is no reading %q of Theorem 1.%s", p.Reading, suggestAll(p.Reading, Readings()))
	case !policy.Readings && p.Reading != Readings()[0]:
		add("reading", "No such reading", "Policy %s has one reading of Theorem 1; take policy harpagon or piccolo for reading %q.", policy.Name, p.Reading)
	}
	if p.Concurrency && slices.Contains(p.Without, "concurrency") {
		add("concurrency", "Contradiction", "Several batches at a time are asked for and switched off: take out concurrency, or \"concurrency\" of without.")
	}
	return all
}

// PlanPath is where a plan block stands within its service. No name can be
// spelled like it, so that pipeline "x.plan" is not taken for a part of "x".
const PlanPath = ".{plan}"

// IsZero reports whether nothing is declared.
func (p Planning) IsZero() bool {
	for _, one := range p.attributes() {
		if one.given {
			return false
		}
	}
	return true
}

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

// unknownPolicy reports what there is, or which kind of service has the policy.
func unknownPolicy(k Kind, policy string) string {
	if gone := onlyCompared(policy, "random", "genetic", "ribbon"); gone != "" {
		return fmt.Sprintf("There is no policy %q for a pool any more: %s.%s", policy, gone, suggestAll("", Policies(KindPool)))
	}
	for _, other := range []Kind{KindPipeline, KindPool, KindFunction} {
		if slices.Contains(Policies(other), policy) {
			return fmt.Sprintf("Policy %q plans %ss, and this is a %s.%s", policy, other, k, suggestAll("", Policies(k)))
		}
	}
	return fmt.Sprintf("There is no policy %q for a %s.%s", policy, k, suggestAll(policy, Policies(k)))
}

// stepFault reports what is wrong with the steps that are switched off.
func (p Planning) stepFault(policy PlanPolicy) string {
	has := policy.Steps
	for i, step := range p.Without {
		base, _, _ := strings.Cut(step, ":")
		switch {
		case slices.Contains(p.Without[:i], step):
			return fmt.Sprintf("Step %q is switched off twice; once will do.", step)
		case len(has) == 0:
			return fmt.Sprintf("Policy %s has no steps to switch off; take policy %s for those.", policy.Name, mostOpen().Name)
		case !slices.Contains(has, step):
			if slices.Contains(Steps(), step) {
				return fmt.Sprintf("Policy %s has no step %q to switch off; policy %s has.%s", policy.Name, step, mostOpen().Name, suggestAll("", has))
			}
			return fmt.Sprintf("Policy %s has no step %q to switch off.%s", policy.Name, step, suggestAll(step, has))
		case step != base && slices.Contains(p.Without, base):
			return fmt.Sprintf("Steps %q and %q exclude each other; keep one of them.", base, step)
		case step == "dt" && slices.Contains(p.Without, "tc"):
			return `Steps "tc" and "dt" exclude each other; keep one of them.`
		}
	}
	return ""
}

// splitFault reports what is wrong with the way to divide the objective.
func (p Planning) splitFault(policy PlanPolicy) string {
	switch {
	case p.Split == "" || policy.Splits && slices.Contains(Splits(), p.Split):
		return ""
	case !policy.Splits:
		return fmt.Sprintf("Policy %s has one way to divide the objective; leave out split %q, or take policy %s.", policy.Name, p.Split, mostOpen().Name)
	}
	if text, ok := strings.CutPrefix(p.Split, "quantized:"); ok {
		if step, err := time.ParseDuration(text); err == nil && step >= time.Millisecond {
			return ""
		}
		return fmt.Sprintf("The step of split %q must be a duration of 1ms or more, as in quantized:10ms.", p.Split)
	}
	return fmt.Sprintf("There is no split %q.%s", p.Split, suggestAll("", Splits()))
}

// Override is the planning of a service of that kind with the attributes of
// another, where these are given, in place of its own. Of a pool or function that
// is the policy only, and it where the kind has it. Another policy drops what
// belonged to the one before: without, split, reading and concurrency. Steps that
// are given for no policy are those of the policy that leaves most open.
func (p Planning) Override(k Kind, by Planning) Planning {
	if plans(k, by.Policy) {
		if by.Policy != cmp.Or(p.Policy, PolicyExact) {
			p = Planning{CostModel: p.CostModel, AllowUnsound: p.AllowUnsound}
		}
		p.Policy = by.Policy
	}
	if k != KindPipeline {
		return p
	}
	if by.Policy == "" && p.Policy == "" && (len(by.Without) > 0 || by.Split != "" || by.Reading != "") {
		p.Policy = mostOpen().Name
	}
	set := func(to *string, value string) {
		if value != "" {
			*to = value
		}
	}
	set(&p.CostModel, by.CostModel)
	set(&p.Split, by.Split)
	set(&p.Reading, by.Reading)
	if len(by.Without) > 0 {
		p.Without = by.Without
	}
	p.Concurrency = p.Concurrency || by.Concurrency
	p.AllowUnsound = p.AllowUnsound || by.AllowUnsound
	return p
}

// CheckOverride finds what is wrong with attributes that are to go before plan
// blocks, whatever services there are.
func CheckOverride(by Planning) []Fault {
	kinds := []Kind{KindPipeline, KindPool, KindFunction}
	if i := slices.IndexFunc(kinds, func(k Kind) bool { return by.Policy == "" || plans(k, by.Policy) }); i > 0 {
		by.Policy = "" // of another kind: the rest is for pipelines that are planned otherwise
	}
	return Planning{Policy: by.Policy}.Override(KindPipeline, by).Faults(KindPipeline)
}

// Override lets attributes that are given go before the plan blocks of all
// services, as Planning.Override does. It reports a policy that no service has,
// attributes that are for no service of the document, and what then is wrong with
// the planning of some service.
func (d *Document) Override(by Planning) []Fault {
	if text := d.unfitPolicy(by.Policy); text != "" {
		return []Fault{{Attribute: "policy", Summary: "Unknown policy", Detail: text}}
	}
	var all []Fault
	if len(d.Pipelines) == 0 {
		for _, one := range by.attributes() {
			if one.given && one.name != "policy" {
				all = append(all, Fault{Attribute: one.name, Summary: "Not for these services", Detail: one.name + " is for pipelines, and none is declared."})
			}
		}
	}
	d.eachPlanning(func(k Kind, name string, p *Planning) {
		*p = p.Override(k, by)
		for _, one := range p.Faults(k) {
			one.Detail = fmt.Sprintf("%s %q: %s", k, name, one.Detail)
			all = append(all, one)
		}
	})
	return all
}

// eachPlanning calls do for all services.
func (d *Document) eachPlanning(do func(k Kind, name string, p *Planning)) {
	for i := range d.Pipelines {
		do(KindPipeline, d.Pipelines[i].Name, &d.Pipelines[i].Plan)
	}
	for i := range d.Pools {
		do(KindPool, d.Pools[i].Name, &d.Pools[i].Plan)
	}
	for i := range d.Functions {
		do(KindFunction, d.Functions[i].Name, &d.Functions[i].Plan)
	}
}

// unfitPolicy reports what is wrong with a policy for the services together: each
// kind has policies of its own, and one of them must have this.
func (d *Document) unfitPolicy(policy string) string {
	if policy == "" {
		return ""
	}
	declared := map[Kind]bool{}
	d.eachPlanning(func(k Kind, _ string, _ *Planning) { declared[k] = true })
	var choices []string
	other := ""
	for _, k := range []Kind{KindPipeline, KindPool, KindFunction} {
		has := plans(k, policy)
		switch {
		case declared[k] && has:
			return ""
		case declared[k]:
			choices = append(choices, fmt.Sprintf("for %ss there is %s", k, strings.Join(Policies(k), ", ")))
		case has:
			other = string(k)
		}
	}
	if other != "" {
		return fmt.Sprintf("policy %q plans %ss, and none is declared; %s", policy, other, strings.Join(choices, "; "))
	}
	return fmt.Sprintf("there is no policy %q; %s", policy, strings.Join(choices, "; "))
}
