package experiments

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/quantity"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/policies"
)

// Tolerance is the share of a cost up to which two costs are equal, and the
// largest gap that counts as certified.
const Tolerance = 1e-6

// Table is how variants did on a suite under one cost model.
type Table struct {
	CostModel string
	Reference string // the variant that ratios are over
	Workloads int
	Rows      []PlanningRow
}

// PlanningRow is how one variant did. Shares are of the workloads that it was run on,
// except where noted; ratios are over the cost of the reference, on workloads where both
// have a plan.
type PlanningRow struct {
	Name       string
	What       string
	Run        int // workloads that it was run on
	Infeasible int
	Alone      int     // a plan where the reference has none
	Sound      int     // plans whose promise can be kept
	Optimal    int     // sound, and as cheap as the reference
	Equal      int     // as cheap as the reference, sound or not
	Undercut   int     // cheaper than the reference by a promise that cannot be kept
	Beats      int     // sound and cheaper than the reference
	Compared   int     // both have a plan
	Brute      int     // both this and brute have a plan
	AsBrute    int     // of these, no dearer than brute
	Mean       float64 // ratio
	Worst      float64 // ratio
	Least      float64 // ratio
	MeanSound  float64 // ratio of sound plans alone
	Late       float64 // largest part of the SLO by which proven exceeds it
	Printed    float64
	Certified  int     // cost equals a proven bound
	LargestGap float64 // where there is a bound
	P50        float64
	P99        float64
	MeanSolve  float64

	Ratios []float64 // one for each workload that was compared
}

// atLeast is how many ratios are so high.
func (r *PlanningRow) atLeast(ratio float64) (n int) {
	for _, x := range r.Ratios {
		if x >= ratio {
			n++
		}
	}
	return n
}

// NewTable sums up outcomes, which are by workload and then by variant, as
// Measure gives them. The reference is the variant of that name; ratios stay
// zero where there is none.
func NewTable(reference string, workloads []Workload, variants []Variant, outcomes [][]Outcome) Table {
	named := func(name string) int {
		return slices.IndexFunc(variants, func(v Variant) bool { return v.Name == name })
	}
	t := Table{Reference: reference, Workloads: len(workloads)}
	ref, brute := named(reference), named(plan.PolicyBrute)
	for i, v := range variants {
		t.CostModel = v.Options.CostModel
		var s sums
		row := PlanningRow{Name: v.Name, What: v.What, Printed: v.Printed}
		for w := range workloads {
			o := outcomes[w][i]
			if o.Status == "" {
				continue
			}
			row.add(o, workloads[w].Problem.Pipeline.SLO)
			s.solve = append(s.solve, o.Solve)
			if ref >= 0 {
				row.compare(o, outcomes[w][ref], &s)
			}
			if brute >= 0 {
				row.match(o, outcomes[w][brute])
			}
		}
		s.finish(&row)
		t.Rows = append(t.Rows, row)
	}
	return t
}

// sums is what a row needs to see as a whole.
type sums struct {
	ratios, sound float64
	soundRatios   int
	solve         []time.Duration
}

func (r *PlanningRow) add(o Outcome, slo time.Duration) {
	r.Run++
	if !o.feasible() {
		r.Infeasible++
		return
	}
	if o.Sound {
		r.Sound++
	}
	if o.Proven > slo {
		r.Late = max(r.Late, float64(o.Proven-slo)/float64(slo))
	}
	if o.Status == plan.Optimal && o.gap() <= Tolerance {
		r.Certified++
	}
	if o.Bound > 0 {
		r.LargestGap = max(r.LargestGap, o.gap())
	}
}

func (r *PlanningRow) compare(o, ref Outcome, s *sums) {
	if !o.feasible() || ref.Status == "" {
		return
	}
	if !ref.feasible() {
		r.Alone++
		return
	}
	ratio := 1.0
	if ref.Cost > 0 {
		ratio = o.Cost / ref.Cost
	}
	r.Compared++
	r.Ratios = append(r.Ratios, ratio)
	s.ratios += ratio
	r.Worst = max(r.Worst, ratio)
	if r.Compared == 1 || ratio < r.Least {
		r.Least = ratio
	}
	if o.Sound {
		s.sound += ratio
		s.soundRatios++
	}
	switch equal := math.Abs(ratio-1) <= Tolerance; {
	case equal && o.Sound:
		r.Equal++
		r.Optimal++
	case equal:
		r.Equal++
	case ratio < 1 && o.Sound:
		r.Beats++
	case ratio < 1:
		r.Undercut++
	}
}

func (r *PlanningRow) match(o, brute Outcome) {
	if !o.feasible() || !brute.feasible() {
		return
	}
	r.Brute++
	if o.Cost <= brute.Cost*(1+Tolerance) {
		r.AsBrute++
	}
}

func (s *sums) finish(r *PlanningRow) {
	if r.Compared > 0 {
		r.Mean = s.ratios / float64(r.Compared)
	}
	if s.soundRatios > 0 {
		r.MeanSound = s.sound / float64(s.soundRatios)
	}
	if len(s.solve) == 0 {
		return
	}
	slices.Sort(s.solve)
	total := time.Duration(0)
	for _, d := range s.solve {
		total += d
	}
	r.P50, r.P99 = quantity.Millis(timeQuantile(s.solve, 0.5)), quantity.Millis(timeQuantile(s.solve, 0.99))
	r.MeanSolve = quantity.Millis(total) / float64(len(s.solve))
}

// timeQuantile of sorted values, by the nearest rank.
func timeQuantile(sorted []time.Duration, q float64) time.Duration {
	rank := int(math.Ceil(q * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// Notes are what the columns of the table leave out.
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

// Outcome is what a variant made of a workload. Its Status is empty where the
// variant was not run.
type Outcome struct {
	Status  plan.Status
	Sound   bool
	Cost    float64       // money per hour
	Bound   float64       // proven lower bound; 0 when none is known
	Claimed time.Duration // end to end
	Proven  time.Duration // end to end; 0 when a module has no proof
	Solve   time.Duration
}

// Measure plans the workload with all variants. The clock is monotonic; nil
// leaves solve times zero. A limit above zero bounds searches that can be cut
// short.
func (w Workload) Measure(variants []Variant, clock func() time.Duration, limit time.Duration) []Outcome {
	list := make([]Outcome, len(variants))
	for i, v := range variants {
		if v.Every > 1 && w.ID%v.Every != 0 {
			continue
		}
		o := v.Options
		o.Clock, o.TimeLimit = clock, limit
		list[i] = outcome(&w.Problem.Pipeline, policies.Solve(w.Problem, o))
	}
	return list
}

func outcome(pipe *pipelines.Pipeline, p plan.Plan) Outcome {
	return Outcome{
		Status: p.Status, Sound: p.Sound, Cost: p.Cost, Bound: p.LowerBound,
		Claimed: p.Latency, Proven: proven(pipe, &p), Solve: p.SolveTime,
	}
}

// proven is the longest path of proven worst cases, or 0 when a module that
// serves requests has none.
func proven(pipe *pipelines.Pipeline, p *plan.Plan) time.Duration {
	worst := map[string]time.Duration{}
	for _, m := range p.Modules {
		if m.Proven == 0 && m.Rate > 0 {
			return 0
		}
		worst[m.Name] = m.Proven
	}
	_, total, err := pipe.LongestPath(func(name string) time.Duration { return worst[name] })
	if err != nil || p.Status == plan.Infeasible {
		return 0
	}
	return total
}

// feasible reports whether there is a plan.
func (o Outcome) feasible() bool { return o.Status == plan.Optimal || o.Status == plan.Feasible }

// gap is how far the cost may lie above the least possible, as a share of it.
func (o Outcome) gap() float64 {
	if o.Cost <= o.Bound || o.Cost == 0 {
		return 0
	}
	return (o.Cost - o.Bound) / o.Cost
}
