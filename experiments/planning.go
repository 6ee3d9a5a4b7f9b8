package experiments

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/harpagon/harpagon/scheduler/plan"
)

const (
	timeLimit       = 10 * time.Second // of searches that can be cut short
	planningQuickly = 150              // a quick look takes every so many workloads
	// of the papers' regime it takes more: their plans are quick
	quicklyPublished = 18
)

// planningFigures are those about planning. They share what they measure.
func planningFigures() []Figure {
	s := &planningStudy{known: map[string][]Outcome{}}
	byPolicy := Layout{Down: []string{System}, Across: []string{Metric}}
	byVariant := Layout{Down: []string{System, "what"}, Across: []string{Metric}}
	bySystem := Layout{Down: []string{System, Metric}}
	return append(exampleFigures(bySystem), []Figure{
		{ID: "planning/policies", Title: "Every policy on 1131 drawn workloads", Seconds: 900, Layout: byPolicy, Run: s.policies},
		{ID: "harpagon/figure5", Title: "Harpagon beside four systems and the optimum: costs over Harpagon's (figure 5)", Seconds: 200, Layout: bySystem, Run: s.systems("Harpagon")},
		{ID: "harpagon/figure6", Title: "Harpagon with one step less each (figures 6, 8a and 12)", Seconds: 200, Layout: byVariant, Run: s.ablations("Harpagon")},
		{ID: "harpagon/figure7", Title: "Worst cases of the same configurations under other dispatch policies (figure 7a)", Seconds: 20, Layout: bySystem, Run: s.latencies("Harpagon")},
		{ID: "harpagon/figure9", Title: "Throughput of a module's machines, the whole policy's is 1 (figures 7b, 8b and 9)", Seconds: 20, Layout: bySystem, Run: s.throughputs("Harpagon")},
		{ID: "harpagon/figure10", Title: "What is left of the objective, the whole policy's is 1 (figure 10)", Seconds: 20, Layout: bySystem, Run: s.remaining("Harpagon")},
		{ID: "harpagon/table2", Title: "Four ways to serve module M3 at 198 requests per second (table II)", Seconds: 1, Layout: bySystem, Run: table2},
		{ID: "piccolo/table2", Title: "Three ways to divide 0.9 s between modules M2 and M3 (table II)", Seconds: 1, Layout: bySystem, Run: piccoloTable2},
		{ID: "piccolo/figure4", Title: "Piccolo beside four systems and the optimum: costs over Piccolo's (figure 4)", Seconds: 200, Layout: bySystem, Run: s.systems("Piccolo")},
		{ID: "piccolo/figure5", Title: "Piccolo with one step less each (figures 5, 7 and 10)", Seconds: 200, Layout: byVariant, Run: s.ablations("Piccolo")},
		{ID: "piccolo/figure6", Title: "Throughput of a module's machines, the whole policy's is 1 (figure 6)", Seconds: 20, Layout: bySystem, Run: s.throughputs("Piccolo")},
		{ID: "piccolo/figure8", Title: "Worst cases of the same configurations under other dispatch policies (figure 8)", Seconds: 20, Layout: bySystem, Run: s.latencies("Piccolo")},
		{ID: "piccolo/figure9", Title: "Split by throughput, by the number of modules on a path (figure 9)", Seconds: 20, Layout: bySystem, Run: s.byDepth("Piccolo")},
		{ID: "piccolo/figure11", Title: "What is left of the objective, the whole policy's is 1 (figure 11)", Seconds: 20, Layout: bySystem, Run: s.remaining("Piccolo")},
		{ID: "planning/regimes", Title: "What the papers leave open: costs over the whole policy's in other regimes", Seconds: 600, Layout: byPolicy, Run: s.regimes},
		{ID: "planning/theorem1", Title: "What Theorem 1 of the Harpagon paper promises, on random modules", Seconds: 30,
			Layout: Layout{Down: []string{Metric}, Across: []string{System}}, Run: probes},
		{ID: "planning/bursts", Title: "What crops that come at once cost, by their number and the objective", Seconds: 5,
			Layout: Layout{Down: []string{"objective", "crops"}, Across: []string{Metric, System}}, Run: cropCosts,
			Picture: &Picture{Metric: "cost", Panel: []string{"objective"}, X: "crops", LogX: true, LogY: true}},
		{ID: "planning/growth", Title: "Solve time over the number of modules, 10 kinds of hardware, 16 batch sizes", Seconds: 120,
			Layout: Layout{Down: []string{"modules"}, Across: []string{System}}, Run: growth,
			Picture: &Picture{Metric: "solve time", Panel: []string{"cost_model"}, X: "modules", LogX: true, LogY: true,
				Footer: "A line ends where a policy needed more than a second, or found no plan."}},
	}...)
}

// quick leaves exhaustive searches out of a quick look.
func quick(e *Env, variants []Variant) []Variant {
	return slices.DeleteFunc(variants, func(v Variant) bool { return e.Quick && v.Every > 1 })
}

// planningStudy plans the drawn workloads, and remembers what became of them.
type planningStudy struct {
	known map[string][]Outcome // by options, number of workloads and regime; then by workload
}

func (s *planningStudy) policies(ctx context.Context, e *Env) (Result, error) {
	var out Result
	for _, model := range plan.CostModels() {
		t, err := s.table(ctx, e, wide(), plan.PolicyExact, quick(e, PlanningPolicies(model)), DefaultWorkloads)
		if err != nil {
			return out, err
		}
		t.addTo(&out, Set("cost_model", model), policyMetrics)
	}
	return out, nil
}

// table plans n workloads of a regime by all variants; what an earlier table has measured
// is not measured again. Policies that run several batches at a time on a device get
// profiles for that.
func (s *planningStudy) table(ctx context.Context, e *Env, from Regime, reference string, variants []Variant, n int) (Table, error) {
	workloads, err := s.workloads(e, from, n)
	if err != nil {
		return Table{}, err
	}
	all, err := s.outcomes(ctx, e, from.Name, workloads, variants)
	return NewTable(reference, workloads, variants, all), err
}

// workloads are n of a regime, or some of them for a quick look.
func (s *planningStudy) workloads(e *Env, from Regime, n int) ([]Workload, error) {
	list, err := from.Workloads(DefaultSeed, n)
	every := planningQuickly
	if strings.HasPrefix(from.Name, Published().Name) {
		every = quicklyPublished
	}
	list = Part(e, list, every)
	if from.Concurrent {
		for i, w := range list {
			list[i] = w.WithConcurrency(DefaultSeed)
		}
	}
	return list, err
}

// outcomes are by workload and then by variant.
func (s *planningStudy) outcomes(ctx context.Context, e *Env, regime string, workloads []Workload, variants []Variant) ([][]Outcome, error) {
	key := func(v Variant) string {
		v.Options.Policies = nil // their names distinguish them
		return fmt.Sprintf("%+v %d %s", v.Options, len(workloads), regime)
	}
	missing := slices.DeleteFunc(slices.Clone(variants), func(v Variant) bool { return s.known[key(v)] != nil })
	fresh := make([][]Outcome, len(workloads))
	err := e.Each(ctx, "Planning", len(workloads), func(i int) error {
		fresh[i] = workloads[i].Measure(missing, e.Clock, timeLimit)
		return nil
	})
	if err != nil {
		return nil, err
	}
	for k, v := range missing {
		for i := range workloads {
			s.known[key(v)] = append(s.known[key(v)], fresh[i][k])
		}
	}
	all := make([][]Outcome, len(workloads))
	for i := range workloads {
		for _, v := range variants {
			all[i] = append(all[i], s.known[key(v)][i])
		}
	}
	return all, nil
}

// metric is a number of a row of a table.
type metric struct {
	name, unit string
	of         func(*PlanningRow) float64
}

// planningShare is n of all in per cent.
func planningShare(n, all int) float64 { return 100 * float64(n) / float64(all) }

// known is a ratio that is 0 where nothing was compared.
func known(ratio float64) float64 {
	if ratio == 0 {
		return math.NaN()
	}
	return ratio
}

func policyMetrics(reference string) []metric {
	return []metric{
		{"workloads", "", func(r *PlanningRow) float64 { return float64(r.Run) }},
		{"infeasible", "", func(r *PlanningRow) float64 { return float64(r.Infeasible) }},
		{"sound", "%", func(r *PlanningRow) float64 { return planningShare(r.Sound, r.Run-r.Infeasible) }},
		{"sound, as " + reference, "%", func(r *PlanningRow) float64 { return planningShare(r.Optimal, r.Compared) }},
		{"cheaper, not kept", "%", func(r *PlanningRow) float64 { return planningShare(r.Undercut, r.Compared) }},
		{"mean over " + reference, "", func(r *PlanningRow) float64 { return known(r.Mean) }},
		{"worst", "", func(r *PlanningRow) float64 { return known(r.Worst) }},
		{"mean, sound", "", func(r *PlanningRow) float64 { return known(r.MeanSound) }},
		{"no dearer than brute", "%", func(r *PlanningRow) float64 { return planningShare(r.AsBrute, r.Brute) }},
		{"late by", "% of SLO", func(r *PlanningRow) float64 { return 100 * r.Late }},
		{"solve p50", "ms", func(r *PlanningRow) float64 { return r.P50 }},
		{"p99", "ms", func(r *PlanningRow) float64 { return r.P99 }},
	}
}

// addTo appends the rows of the table, and its notes.
func (t Table) addTo(out *Result, s Setting, metrics func(reference string) []metric) {
	for i := range t.Rows {
		r := &t.Rows[i]
		for _, m := range metrics(t.Reference) {
			out.Add(s, r.Name, m.name, m.unit, m.of(r))
		}
	}
	out.Notes = append(out.Notes, t.Notes()...)
}

func probes(ctx context.Context, e *Env) (Result, error) {
	var out Result
	n := DefaultModules
	if e.Quick {
		n /= planningQuickly
	}
	for _, v := range ProbeVariants() {
		samples := make([]Sample, n)
		err := e.Each(ctx, "Random modules, "+v.Name, n, func(i int) error {
			samples[i] = v.Sample(Module(DefaultSeed, i))
			return nil
		})
		if err != nil {
			return out, err
		}
		NewProbe(v, samples).addTo(&out)
	}
	return out, nil
}

func (p Probe) addTo(out *Result) {
	for _, m := range []struct {
		name, unit string
		is         float64
	}{
		{"modules", "", float64(p.Modules)},
		{"plans", "", float64(p.Plans)},
		{"plans of several groups", "", float64(p.Several)},
		{"claims that the demand test refuses", "% of plans", planningShare(p.Fail, p.Plans)},
		{"such claims of several groups", "% of these", planningShare(p.Several-p.Passed, p.Several)},
		{"plans that can promise nothing at all", "", float64(p.NoProof)},
		{"missing at most", "% of SLO", 100 * p.Missing},
		{"plans of several groups that pass", "", float64(p.Passed)},
		{"of these, kept request by request", "", float64(p.Kept)},
		{"modules with plans on whole devices", "", float64(p.Compared)},
		{"saved there by exact, on average", "%", 100 * p.Saving},
		{"and at most, times", "", known(p.Worst)},
	} {
		out.Add(nil, p.Variant, m.name, m.unit, m.is)
	}
}

// tooLong, in milliseconds, is how long a policy may need for one size and still
// be tried on the next.
const tooLong = 1000

func growth(ctx context.Context, e *Env) (Result, error) {
	var out Result
	sizes := Sizes()
	if e.Quick {
		sizes = sizes[:2]
	}
	for _, model := range plan.CostModels() {
		variants := quick(e, PlanningPolicies(model))
		points := make([][]GrowthPoint, len(variants))
		// One policy after the other on all cores would blur the times of the
		// largest sizes, so each policy has one core.
		err := e.Each(ctx, "Solve time, cost model "+model, len(variants), func(i int) error {
			for _, n := range sizes {
				at := variants[i].Grow(Growth(DefaultSeed, n), e.Clock, timeLimit)
				points[i] = append(points[i], at)
				if at.Solve > tooLong || ctx.Err() != nil {
					break
				}
			}
			return nil
		})
		if err != nil {
			return out, err
		}
		var without []string
		for i, v := range variants {
			for _, at := range points[i] {
				if at.Status == plan.Infeasible {
					without = append(without, fmt.Sprintf("%s for %d modules", v.Name, at.Modules))
				} else {
					at.addTo(&out, Set("cost_model", model, "modules", at.Modules), v.Name)
				}
			}
		}
		if len(without) > 0 {
			out.Note("No plan under cost model %s: %s.", model, strings.Join(without, ", "))
		}
	}
	out.Note("A policy is not tried on larger pipelines than the first that took it more than a second.")
	return out, nil
}

// addTo appends the solve time, and how far from proven the plan is.
func (p GrowthPoint) addTo(out *Result, at Setting, policy string) {
	out.Add(at, policy, "solve time", "ms", p.Solve)
	if p.Bound > 0 && p.Cost > p.Bound*(1+Tolerance) {
		out.Add(at, policy, "gap", "% of the cost", 100*(p.Cost-p.Bound)/p.Cost)
	}
}

// Sizes of the figure of regimes.
const (
	otherRegimes    = 47
	regimeWorkloads = 60 // of each
)

// others draws n regimes that differ from Published in what the papers leave open: rates,
// objectives, sets of batches, durations, how unlike modules are, and how fast the cheaper
// kind of hardware is.
func others(seed uint64, n int) []Regime {
	r := rand.New(rand.NewPCG(seed, 0))
	of := func(list ...float64) float64 { return list[r.IntN(len(list))] }
	all := make([]Regime, n)
	for i := range all {
		g := Published()
		g.Name = fmt.Sprintf("%s, other %d", g.Name, i)
		low := of(5, 10, 20, 30, 50, 100)
		g.Rate = [2]float64{low, low * of(2, 4, 8)}
		low = of(1.1, 1.3, 1.5, 2, 2.5)
		g.SLO = [2]float64{low, low * of(1.5, 2, 3)}
		g.Batches = [][][]int{g.Batches, {{1, 2, 4, 8, 16, 32}}, {{2, 4, 8}, {2, 8, 32}}}[r.IntN(3)]
		scale, each, unlike := of(0.1, 0.2, 0.4, 1), of(1, 1, 0.3, 0.1), of(1, 2, 4, 8)
		g.Start = [2]float64{g.Start[0] * scale / unlike, g.Start[1] * scale}
		g.Step = [2]float64{g.Step[0] * scale * each / unlike, g.Step[1] * scale * each}
		slow := of(0.3, 0.4, 0.5, 0.6)
		speed := [2]float64{slow, min(1, slow+of(0.1, 0.2, 0.3))}
		g.Devices = func(d drawer) []drawnDevice {
			list := testbed(d)
			list[1].speed = d.between(speed[0], speed[1])
			return list
		}
		all[i] = g
	}
	return all
}

// Describe reports what of the regime the papers leave open.
func (g Regime) Describe() string {
	return fmt.Sprintf("%g to %g requests per second, objectives of %.3g to %.3g times the fastest path, batches %v, %.3g to %.3g ms and %.3g to %.3g ms a request",
		g.Rate[0], g.Rate[1], g.SLO[0], g.SLO[1], g.Batches, g.Start[0], g.Start[1], g.Step[0], g.Step[1])
}

// regimes measures the variants of both papers in many regimes: which of the printed
// averages a choice of what is left open could explain, and whether one explains all.
func (s *planningStudy) regimes(ctx context.Context, e *Env) (Result, error) {
	var out Result
	list := append([]Regime{Published()}, others(DefaultSeed, otherRegimes)...)
	n := regimeWorkloads
	if e.Quick {
		list, n = list[:4], 5
	}
	for _, paper := range []string{"Harpagon", "Piccolo"} {
		tables := make([]Table, len(list))
		variants := Ablations(paper)
		err := e.Each(ctx, "Regimes, "+paper, len(list), func(i int) error {
			workloads, err := list[i].Workloads(DefaultSeed, n)
			outcomes := make([][]Outcome, len(workloads))
			for k, w := range workloads {
				if paper == "Piccolo" {
					w = w.WithConcurrency(DefaultSeed)
				}
				outcomes[k] = w.Measure(variants, e.Clock, timeLimit)
			}
			tables[i] = NewTable(paper, workloads, variants, outcomes)
			return err
		})
		if err != nil {
			return out, err
		}
		addRegimes(&out, list, tables)
	}
	out.Note("Other regimes differ in rates, objectives, batch sets, durations, how unlike the modules are and the speed of the cheaper hardware; an average counts where at least half of the workloads have a plan by both.")
	return out, nil
}

// addRegimes sums up one paper's variants over regimes, of which the first is Published.
func addRegimes(out *Result, list []Regime, tables []Table) {
	nearest := 0
	for i := range tables {
		if tables[i].distance() < tables[nearest].distance() {
			nearest = i
		}
	}
	for k, row := range tables[0].Rows[1:] {
		var means []float64
		for i := range tables {
			if r := &tables[i].Rows[k+1]; r.counts() {
				means = append(means, r.Mean)
			}
		}
		if len(means) == 0 {
			continue
		}
		slices.Sort(means)
		out.Add(nil, row.Name, "average cost", "", known(row.Mean))
		out.Add(nil, row.Name, "printed", "", row.Printed)
		out.Add(nil, row.Name, "least of all regimes", "", means[0])
		out.Add(nil, row.Name, "median", "", means[len(means)/2])
		out.Add(nil, row.Name, "highest", "", means[len(means)-1])
		out.Add(nil, row.Name, "in the nearest", "", known(tables[nearest].Rows[k+1].Mean))
	}
	out.Note("%s: averages are a factor of %.3f from the printed ones here (geometric mean), and of %.3f in the nearest of %d regimes: %s.",
		tables[0].Reference, math.Exp(tables[0].distance()), math.Exp(tables[nearest].distance()), len(list), list[nearest].Describe())
}

// counts reports whether the average is one of enough workloads.
func (r *PlanningRow) counts() bool { return 2*r.Compared >= r.Run && r.Compared > 0 }

// distance is how far the averages are from the printed ones: the mean of the absolute
// logarithms of their ratios. An average that does not count is as bad as the worst.
func (t *Table) distance() float64 {
	sum, missing, n := 0.0, 0, 0
	worst := 0.0
	for i := range t.Rows {
		r := &t.Rows[i]
		if r.Name == t.Reference || r.Printed == 0 {
			continue
		}
		if n++; !r.counts() {
			missing++
			continue
		}
		off := math.Abs(math.Log(r.Mean / r.Printed))
		sum += off
		worst = max(worst, off)
	}
	return (sum + float64(missing)*cmp.Or(worst, 1)) / float64(n)
}
