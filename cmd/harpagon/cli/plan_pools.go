package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/functions"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/policies"
	"github.com/harpagon/harpagon/scheduler/pool"
)

// planPools plans every pool of the declaration.
func planPools(doc *pipelines.Document, policy string) []pool.Plan {
	var all []pool.Plan
	for _, p := range doc.Pools {
		all = append(all, pool.Solve(pool.Problem{Pool: p, Hardware: doc.Hardware}, pool.Options{Policy: policy}))
	}
	return all
}

// poolPolicy is how pools are planned when --policy names policy: by it, or
// exactly where it is a policy of pipelines only.
func poolPolicy(policy string) string {
	if slices.Contains(pool.Policies(), policy) {
		return policy
	}
	return pool.PolicyExact
}

// pipelinePolicy is the same for pipelines.
func pipelinePolicy(policy string) string {
	if slices.Contains(pool.Policies(), policy) || slices.Contains(functions.Policies(), policy) {
		return plan.PolicyExact
	}
	return policy
}

// checkPools refuses a policy that pools do not have where there is nothing
// else to plan with it.
func checkPools(doc *pipelines.Document, policy string) error {
	others := len(doc.Pipelines) + len(doc.Functions)
	switch known := slices.Contains(pool.Policies(), policy); {
	case len(doc.Pools) > 0 && others == 0 && !known:
		return fmt.Errorf("there is no policy %q for pools; choose one of %s", policy, strings.Join(pool.Policies(), ", "))
	case len(doc.Pools) == 0 && known && pipelinePolicy(policy) != policy:
		return fmt.Errorf("policy %q plans pools, and the files declare none; for pipelines choose one of %s", policy, strings.Join(policies.Names(), ", "))
	}
	return nil
}

// servable says which functions nobody could call.
func servable(doc *pipelines.Document) error {
	for _, f := range doc.Functions {
		if p := doc.Provider(f.Provider); p != nil && p.URL == "" {
			return fmt.Errorf("provider %q has no url, so function %q can be planned and not served; add one, such as url = \"http://127.0.0.1:9100/v2/models/{function}-{platform}-{size}\", and start harpagon provider to stand in for it on this machine", p.Name, f.Name)
		}
	}
	return nil
}

// poolPolicies are those of pools, of the policies asked for.
func (f *compareFlags) poolPolicies() []string {
	return slices.DeleteFunc(pool.Policies(), func(name string) bool {
		return len(f.policies) > 0 && !slices.Contains(f.policies, name)
	})
}

// pools compares the policies on every pool of the declaration.
func (f *compareFlags) pools(doc *pipelines.Document) []pool.Comparison {
	policies := f.poolPolicies()
	if len(policies) == 0 {
		return nil
	}
	var all []pool.Comparison
	for _, p := range doc.Pools {
		all = append(all, pool.Compare(pool.Problem{Pool: p, Hardware: doc.Hardware}, pool.Options{}, policies...))
	}
	return all
}
