package experiments_test

import (
	"fmt"
	"testing"

	"github.com/harpagon/harpagon/experiments"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/policies"
)

func ExampleWorkloads() {
	list, err := experiments.Workloads(experiments.DefaultSeed, 2)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, w := range list {
		fmt.Println(w.Describe())
	}
	// Output:
	// workload 0: actdet at 871.4 requests per second, SLO 304.8 ms (4.31 times the fastest path), 3 kinds of hardware, profiles [noisy noisy tiring gaining]
	// workload 1: caption at 945.5 requests per second, SLO 477.1 ms (6.59 times the fastest path), 2 kinds of hardware, profiles [tiring tiring gaining]
}

// A table of two policies on a handful of workloads, whose solve times are left
// out because no clock is given.
func ExampleNewTable() {
	list, err := experiments.Workloads(experiments.DefaultSeed, 8)
	if err != nil {
		fmt.Println(err)
		return
	}
	variants := []experiments.Variant{
		{Name: "exact", Options: plan.Options{Policy: plan.PolicyExact, CostModel: plan.CostProportional}},
		{Name: "even", Options: plan.Options{Policy: plan.PolicyHarpagon, CostModel: plan.CostProportional, Split: "even"}},
	}
	var outcomes [][]experiments.Outcome
	for _, w := range list {
		outcomes = append(outcomes, w.Measure(variants, nil, 0))
	}
	table := experiments.NewTable("exact", list, variants, outcomes)
	for _, r := range table.Rows {
		fmt.Printf("%s: %d plans, %d sound, dearer than exact on %d\n", r.Name, r.Run-r.Infeasible, r.Sound, r.Compared-r.Equal)
	}
	// Output:
	// exact: 8 plans, 8 sound, dearer than exact on 0
	// even: 8 plans, 6 sound, dearer than exact on 8
}

func BenchmarkWorkloads(b *testing.B) {
	b.ReportAllocs()
	for range b.N {
		if _, err := experiments.Workloads(experiments.DefaultSeed, 100); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPolicies plans the first fifty workloads by every policy under every
// cost model.
func BenchmarkPolicies(b *testing.B) {
	list, err := experiments.Workloads(experiments.DefaultSeed, 50)
	if err != nil {
		b.Fatal(err)
	}
	for _, model := range plan.CostModels() {
		for _, v := range experiments.PlanningPolicies(model) {
			if v.Every > 1 {
				continue
			}
			b.Run(model+"/"+v.Name, func(b *testing.B) {
				b.ReportAllocs()
				for i := range b.N {
					policies.Solve(list[i%len(list)].Problem, v.Options)
				}
			})
		}
	}
}
