package pipelines

import (
	"fmt"
	"slices"
	"strings"
)

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
