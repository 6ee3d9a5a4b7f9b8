package experiments

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

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

// Describe says what of the regime the papers leave open.
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
		explain(&out, paper)
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
		out.AddPrinted(nil, row.Name, "average cost", "", known(row.Mean), row.Printed)
		out.Add(nil, row.Name, "least of all regimes", "", means[0])
		out.Add(nil, row.Name, "median", "", means[len(means)/2])
		out.Add(nil, row.Name, "highest", "", means[len(means)-1])
		out.Add(nil, row.Name, "in the nearest", "", known(tables[nearest].Rows[k+1].Mean))
	}
	out.Note("%s: averages are a factor of %.3f from the printed ones here (geometric mean), and of %.3f in the nearest of %d regimes: %s.",
		tables[0].Reference, math.Exp(tables[0].distance()), math.Exp(tables[nearest].distance()), len(list), list[nearest].Describe())
}

// counts says whether the average is one of enough workloads.
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
