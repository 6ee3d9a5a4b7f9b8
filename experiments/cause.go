package experiments

import (
	"math"
	"slices"
	"strings"
)

// Far is how far one of our numbers may be from the one that the paper prints, as a share
// of it, before a figure says why.
const Far = 0.15

// Cause says why numbers of some systems and metrics are far from the printed ones.
type Cause struct {
	Systems []string // none for all
	Metrics []string // none for all
	Why     string   // one sentence
}

// Explain appends a cause. Names are divided by commas; an empty text stands for all.
func (r *Result) Explain(systems, metrics, why string) {
	r.Causes = append(r.Causes, Cause{Systems: names(systems), Metrics: names(metrics), Why: why})
}

func names(list string) []string {
	if list == "" {
		return nil
	}
	return strings.Split(list, ", ")
}

func (c Cause) covers(r Row) bool {
	within := func(list []string, name string) bool { return len(list) == 0 || slices.Contains(list, name) }
	return within(c.Systems, r.System) && within(c.Metrics, r.Metric)
}

// far says whether the row is far from the printed number.
func (r Row) far() bool {
	return r.Paper != nil && *r.Paper != 0 && math.Abs(r.Ours/(*r.Paper)-1) > Far
}

// Unexplained are the rows that are far from the printed numbers, without a cause.
func (r *Result) Unexplained() []Row {
	return slices.DeleteFunc(slices.Clone(r.Rows), func(row Row) bool {
		return !row.far() || slices.ContainsFunc(r.Causes, func(c Cause) bool { return c.covers(row) })
	})
}

// Sentences are the notes; then what of the numbers is far from the printed ones, and why.
func (r *Result) Sentences() []string {
	list := slices.Clone(r.Notes)
	left := slices.DeleteFunc(slices.Clone(r.Rows), func(row Row) bool { return !row.far() })
	for _, c := range r.Causes {
		var own []Row
		left = slices.DeleteFunc(left, func(row Row) bool {
			if c.covers(row) {
				own = append(own, row)
			}
			return c.covers(row)
		})
		if len(own) > 0 {
			list = append(list, "Not as printed, "+listed(own)+": "+c.Why)
		}
	}
	if len(left) > 0 {
		list = append(list, "Not as printed, and the cause is not known: "+listed(left)+".")
	}
	return list
}

// listed names systems with their metrics, each once.
func listed(rows []Row) string {
	var systems []string
	metrics := map[string][]string{}
	for _, r := range rows {
		if !slices.Contains(systems, r.System) {
			systems = append(systems, r.System)
		}
		if !slices.Contains(metrics[r.System], r.Metric) {
			metrics[r.System] = append(metrics[r.System], r.Metric)
		}
	}
	for i, s := range systems {
		systems[i] = s + " (" + strings.Join(metrics[s], ", ") + ")"
	}
	return strings.Join(systems, ", ")
}
