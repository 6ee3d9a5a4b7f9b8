package paper

import (
	"cmp"
	"slices"

	"github.com/harpagon/harpagon/scheduler/plan"
)

// oneKind is a policy for one kind of hardware. The papers do not state which; it is the
// cheapest on which the policy finds a plan. A module that may not use that kind has the
// next dearer one, or its dearest.
type oneKind struct{ policy }

// Split implements plan.Policy.
func (p oneKind) Split(ready *plan.Prepared) (plan.Budgets, error) {
	return onKinds(ready, p.policy.Split)
}

// Schedule implements plan.Policy.
func (p oneKind) Schedule(ready *plan.Prepared, b plan.Budgets) (plan.Plan, error) {
	return onKinds(ready, func(only *plan.Prepared) (plan.Plan, error) { return p.policy.Schedule(only, b) })
}

// Solve implements plan.Policy.
func (p oneKind) Solve(ready *plan.Prepared) (plan.Plan, error) {
	return onKinds(ready, p.policy.Solve)
}

// onKinds tries one kind after the other, the cheapest first. The error is that of the
// last one.
func onKinds[T any](ready *plan.Prepared, try func(*plan.Prepared) (T, error)) (found T, err error) {
	var kinds []plan.Config // one of each
	for _, m := range ready.Modules {
		for _, c := range m.Configs {
			if !slices.ContainsFunc(kinds, func(k plan.Config) bool { return k.Hardware == c.Hardware }) {
				kinds = append(kinds, c)
			}
		}
	}
	slices.SortFunc(kinds, byPrice)
	for _, k := range kinds {
		only := *ready
		only.Modules = make([]*plan.ModuleProblem, len(ready.Modules))
		for i, m := range ready.Modules {
			only.Modules[i] = restricted(m, k)
		}
		if found, err = try(&only); err == nil {
			break
		}
	}
	return found, err
}

// restricted is the module on its cheapest kind of hardware that is no cheaper than k,
// or on its dearest.
func restricted(m *plan.ModuleProblem, k plan.Config) *plan.ModuleProblem {
	on := slices.MaxFunc(m.Configs, byPrice)
	for _, c := range m.Configs {
		if byPrice(c, k) >= 0 && byPrice(c, on) < 0 {
			on = c
		}
	}
	only := *m
	only.Configs = slices.DeleteFunc(slices.Clone(m.Configs), func(c plan.Config) bool { return c.Hardware != on.Hardware })
	return &only
}

func byPrice(a, b plan.Config) int {
	return cmp.Or(cmp.Compare(a.Price, b.Price), cmp.Compare(a.Hardware, b.Hardware))
}
