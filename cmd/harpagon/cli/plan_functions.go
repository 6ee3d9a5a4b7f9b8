package cli

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/functions"
)

// planFunctions plans every function of the declaration.
func planFunctions(doc *pipelines.Document, policy string, clock func() time.Duration) ([]functions.Plan, error) {
	var all []functions.Plan
	for _, f := range doc.Functions {
		one, err := functions.Solve(functionProblem(doc, f), functions.Options{Policy: functionPolicy(policy), Clock: clock})
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

func functionProblem(doc *pipelines.Document, f pipelines.Function) functions.Problem {
	p := functions.Problem{Function: f}
	if provider := doc.Provider(f.Provider); provider != nil {
		p.Provider = *provider
	}
	return p
}

// functionPolicy is how functions are planned when --policy names policy: by
// it, or exactly where it is a policy of pipelines or pools only.
func functionPolicy(policy string) string {
	if slices.Contains(functions.Policies(), policy) {
		return policy
	}
	return functions.PolicyExact
}

// checkFunctions refuses a policy that functions do not have where there is
// nothing else to plan with it, and one of theirs where there is no function.
func checkFunctions(doc *pipelines.Document, policy string) error {
	others := len(doc.Pipelines) + len(doc.Pools)
	known := slices.Contains(functions.Policies(), policy)
	switch {
	case len(doc.Functions) > 0 && others == 0 && !known:
		return fmt.Errorf("there is no policy %q for functions; choose one of %s", policy, strings.Join(functions.Policies(), ", "))
	case len(doc.Functions) == 0 && known && policy != functions.PolicyExact:
		return fmt.Errorf("policy %q plans functions, and the files declare none", policy)
	}
	return nil
}

// functionPolicies are those of functions, of the policies asked for.
func (f *compareFlags) functionPolicies() []string {
	return slices.DeleteFunc(functions.Policies(), func(name string) bool {
		return len(f.policies) > 0 && !slices.Contains(f.policies, name)
	})
}

// functions compares the policies on every function of the declaration.
func (f *compareFlags) functions(d *Deps, doc *pipelines.Document) ([]functions.Comparison, error) {
	var all []functions.Comparison
	policies := f.functionPolicies()
	if len(policies) == 0 {
		return nil, nil
	}
	for _, fn := range doc.Functions {
		one, err := functions.Compare(functionProblem(doc, fn), functions.Options{Clock: d.Clock}, policies...)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}
