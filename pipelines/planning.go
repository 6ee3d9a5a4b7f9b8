package pipelines

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/agext/levenshtein"
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

// Override is the planning of a service of that kind with the attributes of
// another, where these are given, in place of its own. Of a pool or function that
// is the policy only, and it where the kind has it. Another policy drops what
// belonged to the one before: without, split, reading and concurrency. Steps that
// are given for no policy are those of policy harpagon.
func (p Planning) Override(k Kind, by Planning) Planning {
	if slices.Contains(Policies(k), by.Policy) {
		if by.Policy != p.policy() {
			p = Planning{CostModel: p.CostModel, AllowUnsound: p.AllowUnsound}
		}
		p.Policy = by.Policy
	}
	if k != KindPipeline {
		return p
	}
	if by.Policy == "" && p.Policy == "" && (len(by.Without) > 0 || by.Split != "" || by.Reading != "") {
		p.Policy = policyHarpagon
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
	if i := slices.IndexFunc(kinds, func(k Kind) bool { return by.Policy == "" || slices.Contains(Policies(k), by.Policy) }); i > 0 {
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

// unfitPolicy says what is wrong with a policy for the services together: each
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
		has := slices.Contains(Policies(k), policy)
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

// Dispatches lists the dispatch policies that a pipeline may name, the default
// first. Some have variants, named after a colon: see DispatchVariants.
func Dispatches() []string {
	return []string{"tc", "adaptive", "clockwork", "deferred", "eager", "nexus", "round-robin"}
}

// DispatchesGroups says whether the policy, with variants or without, hands requests to the
// groups of a plan; the others go by deadlines alone, and serve clusters, too.
func DispatchesGroups(text string) bool {
	policy, _, _ := strings.Cut(text, ":")
	return policy == "tc" || policy == "round-robin"
}

// DispatchVariants are the choices that a dispatch policy leaves, each with its
// default first: one of each may follow the name, as in
// "deferred:beta-lambda,early". Nil where a policy leaves none.
//
// Of tc, which batch a request joins: the one that is due first (due), or one after another in
// the order of throughput-cost ratios, as the Harpagon paper has it (ratio; section III-B).
//
// Of deferred, when a batch is ready (at the last instant at which one more
// request would fit, or as soon as it holds beta·lambda requests; Symphony,
// section 4.3), and of both which requests are given up: all that the newest
// batch of the target size has no room for (window), all before the first whole
// batch (early), or only what cannot be served even alone (head).
func DispatchVariants(policy string) [][]string {
	switch policy {
	case "tc":
		return [][]string{{"due", "ratio"}}
	case "deferred":
		return [][]string{{"front-run", "beta-lambda"}, {"window", "early", "head"}}
	case "eager":
		return [][]string{{"head", "window", "early"}}
	}
	return nil
}

// SplitDispatch takes the name of a dispatch policy apart: the policy, and its
// choice of each of its DispatchVariants, the default where none is named. The
// error says what is wrong with the variants; the policy itself is not looked
// up.
func SplitDispatch(text string) (policy string, chosen []string, err error) {
	policy, list, given := strings.Cut(text, ":")
	variants := DispatchVariants(policy)
	for _, v := range variants {
		chosen = append(chosen, v[0])
	}
	if !given {
		return policy, chosen, nil
	}
	all := slices.Concat(variants...)
	if len(all) == 0 {
		return policy, nil, fmt.Errorf("dispatch policy %s has no variants; leave out %q", policy, ":"+list)
	}
	named := map[int]bool{}
	for one := range strings.SplitSeq(list, ",") {
		at := slices.IndexFunc(variants, func(v []string) bool { return slices.Contains(v, one) })
		switch {
		case at < 0:
			return policy, nil, fmt.Errorf("dispatch policy %s has no variant %q.%s", policy, one, Suggest(one, all))
		case named[at]:
			return policy, nil, fmt.Errorf("%q names two of %s; keep one", text, Quoted(variants[at]))
		}
		chosen[at], named[at] = one, true
	}
	return policy, chosen, nil
}

// DispatchFault is what is wrong with the dispatch policy of a pipeline, which may
// be left empty; the zero value where nothing is.
func DispatchFault(text string) Fault {
	const unfit = "Dispatch policy that does not fit"
	fault := func(summary, format string, args ...any) Fault {
		return Fault{"dispatch", summary, fmt.Sprintf(format, args...)}
	}
	policy, _, err := SplitDispatch(text)
	switch {
	case text == "" || err == nil && slices.Contains(Dispatches(), policy):
		return Fault{}
	case policy == "matching":
		return fault(unfit, "Policy matching pairs queries of different sizes with instances; requests of a pipeline have no sizes. Declare a pool block for it, or choose one of %s.", Quoted(Dispatches()))
	case policy == "grouped":
		return fault(unfit, "Policy grouped batches applications that share a function. Declare a function block for it, or choose one of %s.", Quoted(Dispatches()))
	case !slices.Contains(Dispatches(), policy):
		return fault("Unknown dispatch policy", "There is no dispatch policy %q.%s", policy, suggestAll(policy, Dispatches()))
	}
	return fault("Unknown variant", "%s", strings.ToUpper(err.Error()[:1])+err.Error()[1:])
}

// Suggest names the candidate that was probably meant, or lists a few, as a
// sentence to append; it is empty when there is nothing to suggest.
func Suggest(name string, candidates []string) string {
	most := max(2, len(name)/3)
	if len(name) < 3 {
		most = 1 // of two letters, two changed leave nothing
	}
	best, distance := "", 1+most
	for _, c := range candidates {
		if d := levenshtein.Distance(name, c, nil); d < distance {
			best, distance = c, d
		}
	}
	switch {
	case best != "":
		return fmt.Sprintf(" Did you mean %q?", best)
	case len(candidates) == 0:
		return ""
	case len(candidates) <= 6:
		return fmt.Sprintf(" There are: %s.", Quoted(candidates))
	}
	return ""
}

// Quoted lists names in order, in quotes.
func Quoted(names []string) string {
	sorted := slices.Sorted(slices.Values(names))
	s := ""
	for i, n := range sorted {
		if i > 0 {
			s += ", "
		}
		s += fmt.Sprintf("%q", n)
	}
	return s
}
