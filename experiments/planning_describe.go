package experiments

import (
	"fmt"
	"slices"
	"strings"

	"github.com/harpagon/harpagon/pipelines/quantity"
	"github.com/harpagon/harpagon/scheduler/plan"
)

// Notes are what the columns of the table cannot say.
func (t Table) Notes() []string {
	var lines, alone []string
	for _, r := range t.Rows {
		if r.Name == plan.PolicyExact && t.Reference == plan.PolicyExact {
			lines = append(lines, fmt.Sprintf("Under cost model %s, %s is certified (gap at most %.0e) on %d of %d workloads; its largest gap is %.3g.",
				t.CostModel, r.Name, Tolerance, r.Certified, r.Run, r.LargestGap))
		}
		if r.Beats > 0 && t.Reference == plan.PolicyExact {
			lines = append(lines, fmt.Sprintf("DEFECT: %s has a sound plan that is cheaper than that of %s on %d workloads.", r.Name, t.Reference, r.Beats))
		}
		if r.Alone > 0 {
			alone = append(alone, fmt.Sprintf("%s %d", r.Name, r.Alone))
		}
	}
	if len(alone) > 0 {
		lines = append(lines, fmt.Sprintf("Plans on workloads where %s has none: %s.", t.Reference, strings.Join(alone, ", ")))
	}
	if line := t.brute(); line != "" && t.Reference == plan.PolicyExact {
		lines = append(lines, line)
	}
	return lines
}

// brute compares how long exhaustive search takes.
func (t Table) brute() string {
	find := func(name string) *PlanningRow {
		if i := slices.IndexFunc(t.Rows, func(r PlanningRow) bool { return r.Name == name }); i >= 0 {
			return &t.Rows[i]
		}
		return nil
	}
	brute, exact := find(plan.PolicyBrute), find(plan.PolicyExact)
	if brute == nil || exact == nil || exact.MeanSolve == 0 {
		return ""
	}
	return fmt.Sprintf("brute takes %s ms a workload on average, exact %s ms: %s times as long.",
		quantity.Number(brute.MeanSolve), quantity.Number(exact.MeanSolve), quantity.Number(brute.MeanSolve/exact.MeanSolve))
}
