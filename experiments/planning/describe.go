package planning

import (
	"fmt"
	"slices"
	"strings"

	"github.com/harpagon/harpagon/scheduler/plan"
)

// Describe writes the table for people.
func (t Table) Describe() string {
	return t.Title + "\n" + t.grid().text() + t.notes("")
}

// Markdown writes the table for documents, with a heading.
func (t Table) Markdown() string {
	return "### " + t.Title + "\n\n" + t.grid().markdown() + t.notes("\n")
}

func (t Table) grid() grid {
	if slices.ContainsFunc(t.Rows, func(r Row) bool { return r.What != "" }) {
		return t.ablations()
	}
	return t.policies()
}

func (t Table) policies() grid {
	over := "over " + t.Reference
	g := grid{header: []string{"policy", "infeasible", "sound", "sound, as " + t.Reference, "cheaper, not kept", "mean " + over, "worst", "mean, sound", "no dearer than brute", "late by", "solve p50", "p99"}}
	for _, r := range t.Rows {
		plans := r.Run - r.Infeasible
		late := "0"
		if r.Late > 0 {
			late = fmt.Sprintf("%.0f %% of SLO", 100*r.Late)
		}
		g.rows = append(g.rows, []string{
			t.name(r), count(r.Infeasible), share(r.Sound, plans), share(r.Optimal, r.Compared), share(r.Undercut, r.Compared),
			ratio(r.Mean), ratio(r.Worst), ratio(r.MeanSound), share(r.AsBrute, r.Brute), late, millis(r.P50), millis(r.P99),
		})
	}
	return g
}

// name says of a row how many workloads it is about where these are not all.
func (t Table) name(r Row) string {
	if r.Run < t.Workloads {
		return fmt.Sprintf("%s (%d workloads)", r.Name, r.Run)
	}
	return r.Name
}

func (t Table) ablations() grid {
	g := grid{prose: 1, header: []string{"variant", "what", "infeasible", "sound", "as cheap", "cheaper", "mean over " + t.Reference, "worst", "printed", "solve p50", "p99"}}
	for _, r := range t.Rows {
		g.rows = append(g.rows, []string{
			t.name(r), r.What, count(r.Infeasible), share(r.Sound, r.Run-r.Infeasible), share(r.Equal, r.Compared),
			share(r.Beats+r.Undercut, r.Compared), ratio(r.Mean), ratio(r.Worst), ratio(r.Printed), millis(r.P50), millis(r.P99),
		})
	}
	return g
}

// notes are what the columns cannot say, one line each, with the given text
// between them and the table.
func (t Table) notes(gap string) string {
	var lines, alone []string
	for _, r := range t.Rows {
		if r.Name == plan.PolicyExact && t.Reference == plan.PolicyExact {
			lines = append(lines, fmt.Sprintf("%s is certified (gap at most %.0e) on %d of %d workloads, %s; its largest gap is %.3g.",
				r.Name, Tolerance, r.Certified, r.Run, share(r.Certified, r.Run), r.LargestGap))
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
	if len(lines) == 0 {
		return ""
	}
	return gap + strings.Join(lines, "\n"+gap) + "\n"
}

// brute compares how long exhaustive search takes.
func (t Table) brute() string {
	find := func(name string) *Row {
		if i := slices.IndexFunc(t.Rows, func(r Row) bool { return r.Name == name }); i >= 0 {
			return &t.Rows[i]
		}
		return nil
	}
	brute, exact := find(plan.PolicyBrute), find(plan.PolicyExact)
	if brute == nil || exact == nil || exact.MeanSolve == 0 {
		return ""
	}
	return fmt.Sprintf("brute takes %s a workload on average, exact %s: %.3g times as long.",
		millis(brute.MeanSolve), millis(exact.MeanSolve), brute.MeanSolve/exact.MeanSolve)
}
