package pipelines

import (
	"errors"
	"fmt"
	"slices"
	"strings"
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

// DispatchPolicy is a line of the table of dispatch policies: what declarations, checks, help and
// docs must know of one. Package scheduler/dispatch/factory makes it.
type DispatchPolicy struct {
	Name string
	For  Kind // of service; policies of pipelines that do not cut batches for groups serve clusters, too

	// Groups means that it cuts batches for the groups of a plan, by their windows; others go by
	// deadlines alone, and start any batch on any executor.
	Groups bool

	// Variants are the choices that it leaves, each with its default first: one of each may
	// follow the name, as in "deferred:beta-lambda,early".
	Variants [][]string

	Help string // what it does, after its name
}

// DispatchPolicies is the table, the default of each kind first.
//
// Of round-robin, a variant says what goes to an executor in its turn: one request, or as many as its
// batch holds, as the Harpagon paper has it (batches; section III-B).
//
// Of deferred, when a batch is ready (at the last instant at which one more
// request would fit, or as soon as it holds beta·lambda requests; Symphony,
// section 4.3), and of both which requests are given up: all that the newest
// batch of the target size has no room for (window), all before the first whole
// batch (early), or only what cannot be served even alone (head).
func DispatchPolicies() []DispatchPolicy {
	dropping := []string{"window", "early", "head"}
	return []DispatchPolicy{
		{Name: "tc", For: KindPipeline, Groups: true, Help: "starts what waits on any idle device that no promise needs; cuts batches for the groups of the plan, earliest due date first"},
		{Name: "adaptive", For: KindPipeline, Help: "holds batches back as far as that pays in this cluster"},
		{Name: "clockwork", For: KindPipeline, Help: "deadline order, the largest batch that meets it"},
		{Name: "deferred", For: KindPipeline, Variants: [][]string{{"front-run", "beta-lambda"}, dropping}, Help: "Symphony: a batch waits until the last instant at which one more request would still fit"},
		{Name: "eager", For: KindPipeline, Variants: [][]string{{"head", "window", "early"}}, Help: "whatever waits starts when a device is free; a request is given up when it could not be served even alone"},
		{Name: "nexus", For: KindPipeline, Help: "models are bound to devices beforehand"},
		{Name: "round-robin", For: KindPipeline, Groups: true, Variants: [][]string{{"requests", "batches"}}, Help: "requests go to the executors of a plan one by one, or a batch at a time, in turn, and each collects its own batch"},

		{Name: "matching", For: KindPool, Help: "pairs queries of different sizes with instances, at least cost (Kairos); other requests have no sizes"},

		{Name: "grouped", For: KindFunction, Help: "batches applications that share a function: a queue per group, a timeout per application (HarmonyBatch)"},
	}
}

// serves reports whether a service of a kind may name the policy.
func (d *DispatchPolicy) serves(k Kind) bool {
	return d.For == k || k == KindCluster && d.For == KindPipeline && !d.Groups
}

// Dispatches lists the dispatch policies for services of a kind, the default first. Some have
// variants, named after a colon.
func Dispatches(k Kind) []string {
	var names []string
	for _, d := range DispatchPolicies() {
		if d.serves(k) {
			names = append(names, d.Name)
		}
	}
	return names
}

// Qualified reports that a policy of that name is none of this project's: a program that embeds the
// system brings it, under a name with a slash, such as "acme/fifo". Only that program knows
// what it can do, so nothing here judges it.
func Qualified(name string) bool { return strings.Contains(name, "/") }

// SplitDispatch takes the name of a dispatch policy apart: the policy, and its choice of each of
// its variants, the default where none is named. The error says what is wrong with the
// variants; the policy itself is not looked up.
func SplitDispatch(text string) (policy string, chosen []string, err error) {
	policy, list, given := strings.Cut(text, ":")
	if text == "tc:ratio" { // until the second edition
		return policy, nil, errors.New(`the order of throughput-cost ratios is a variant of round robin now: write "round-robin:batches" in place of "tc:ratio"`)
	}
	var variants [][]string
	for _, d := range DispatchPolicies() {
		if d.Name == policy && len(variants) == 0 {
			variants = d.Variants
		}
	}
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

// DispatchFault is what is wrong with the dispatch policy of a service of a kind, which may be
// left empty; the zero value where nothing is.
func DispatchFault(k Kind, text string) Fault {
	fault := func(summary, format string, args ...any) Fault {
		return Fault{"dispatch", summary, fmt.Sprintf(format, args...)}
	}
	if text == "" {
		return Fault{}
	}
	names := Dispatches(k)
	policy, _, err := SplitDispatch(text)
	if gone := onlyCompared(policy, "ribbon", "drs", "clockwork"); gone != "" && k == KindPool {
		return fault("Unknown dispatch policy", "There is no dispatch policy %q for a pool any more: %s. Choose %s.", policy, gone, Quoted(names))
	}
	if !slices.Contains(names, policy) && !Qualified(policy) {
		for _, d := range DispatchPolicies() {
			switch {
			case d.Name != policy:
			case d.Groups && k == KindCluster:
				return fault(unfitDispatch, "Policy %s cuts batches for the groups of a plan; a cluster has none. Choose one of %s.", text, Quoted(names))
			default:
				return fault(unfitDispatch, "Policy %s %s. Declare a %s block for it, or choose one of %s.", policy, d.Help, d.For, Quoted(names))
			}
		}
		return fault("Unknown dispatch policy", "There is no dispatch policy %q.%s", policy, suggestAll(policy, names))
	}
	if err != nil {
		return fault("Unknown variant", "%s", sentence(err))
	}
	return Fault{}
}

// onlyCompared reports what runs the policies of pools that older editions had, and that only figures
// compare with now; empty for any other name.
func onlyCompared(name string, gone ...string) string {
	if slices.Contains(gone, name) {
		return "harpagon reproduce kairos/figure11 and kairos/figure14 compare with it"
	}
	return ""
}

const unfitDispatch = "Dispatch policy that does not fit"

// PlanPolicy is a line of the table of planner policies: what declarations, checks, help and docs
// must know of one. Packages scheduler/plan/policies, pool and functions have them.
type PlanPolicy struct {
	Name     string
	For      Kind     // of service that it plans
	Steps    []string // that it can do without; nil where it is fixed
	Splits   bool     // whether the way to divide the objective may be chosen
	Readings bool     // whether the reading of Theorem 1 may be chosen

	// Several means that several batches at a time on a device are the point of it, so that
	// profiles are measured with 2 and 4.
	Several bool

	// Together means that pipelines that are planned by it share one search, and devices, under
	// the cost model that lets them.
	Together bool

	Help string // what it does
}

// PlanPolicies is the table, the default of each kind first.
func PlanPolicies() []PlanPolicy {
	// Steps that any search for devices and batches can do without, then those of Algorithms 1 and 2.
	choices := []string{"hetero", "hetero:dearest", "batch", "concurrency"}
	piccolo := append(append([]string{"tc", "dt", "multi", "multi:one"}, choices...), "dummy", "reassign", "reassign:one")
	harpagon := append(slices.Clone(piccolo), "merge", "direct")
	return []PlanPolicy{
		{Name: PolicyExact, For: KindPipeline, Steps: choices, Together: true, Help: "the least cost of a sound plan, with a lower bound"},
		{Name: "harpagon", For: KindPipeline, Steps: harpagon, Splits: true, Readings: true, Help: "the Harpagon paper: Algorithms 1 and 2, dummy requests, reassigned budgets, node merger, cost-direct"},
		{Name: "piccolo", For: KindPipeline, Steps: piccolo, Splits: true, Readings: true, Several: true, Help: "the Piccolo paper: the same family with several batches at a time on a device, budgets resized linearly"},
		{Name: "nexus", For: KindPipeline, Help: "one kind of hardware, two configurations a module by the 2d rule, a split in a hundred steps"},
		{Name: "scrooge", For: KindPipeline, Several: true, Help: "two configurations a module, a worst case of about d(1 + 1/n), split by throughput"},
		{Name: "inferline", For: KindPipeline, Help: "one configuration a module by the 2d rule, split by throughput"},
		{Name: "clipper", For: KindPipeline, Help: "one kind of hardware, one configuration a module by the 2d rule, the objective split evenly"},
		{Name: "brute", For: KindPipeline, Steps: append(slices.Clone(choices), "dummy"), Help: "all configuration sets and splits in the papers' own reading"},

		{Name: PolicyExact, For: KindPool, Help: "the configuration with the highest goodput in simulation"},
		{Name: "kairos", For: KindPool, Help: "the paper's estimate of every configuration (Eq. 15) and its rule to choose among the best"},
		{Name: "homogeneous", For: KindPool, Help: "the best pool of a single kind"},
		{Name: "kairos+", For: KindPool, Help: "the paper's Algorithm 1"},

		{Name: PolicyExact, For: KindFunction, Help: "the best partition of up to 14 applications"},
		{Name: "harmonybatch", For: KindFunction, Help: "the paper's two-stage merging"},
		{Name: "batch", For: KindFunction, Help: "BATCH as the paper compares with it: every application alone"},
		{Name: "mbs+", For: KindFunction, Help: "the paper's MBS+: groups of equal rates"},
		{Name: "mbs+ optimal", For: KindFunction, Help: "the same groups, each with its best function"},
	}
}

// PolicyExact is the default policy of every kind of service.
const PolicyExact = "exact"

// PlanPolicyNamed is the line of a policy for a kind of service; empty names the default. Of one
// that the table does not have, only the name is known.
func PlanPolicyNamed(k Kind, name string) PlanPolicy {
	if name == "" {
		name = PolicyExact
	}
	for _, p := range PlanPolicies() {
		if p.Name == name && p.For == k {
			return p
		}
	}
	return PlanPolicy{Name: name, For: k}
}

// Policies are the names of the policies that plan services of a kind, the
// default first. A cluster's pipelines have those of pipelines.
func Policies(k Kind) []string {
	if k == KindCluster {
		k = KindPipeline
	}
	var names []string
	for _, p := range PlanPolicies() {
		if p.For == k {
			names = append(names, p.Name)
		}
	}
	return names
}

// plans reports whether a policy is there for a kind of service: one of the table, or one of a
// program's own for pipelines.
func plans(k Kind, policy string) bool {
	return slices.Contains(Policies(k), policy) || k == KindPipeline && Qualified(policy)
}

// mostOpen is the policy that leaves most choices, named to whoever makes one that another policy
// does not leave.
func mostOpen() PlanPolicy {
	return slices.MaxFunc(PlanPolicies(), func(a, b PlanPolicy) int { return len(a.Steps) - len(b.Steps) })
}
