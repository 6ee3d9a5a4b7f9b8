package cli

import (
	"context"
	"fmt"
	"slices"

	"github.com/harpagon/harpagon/cmd/harpagon/chart"
	"github.com/harpagon/harpagon/experiments/planning"
	"github.com/harpagon/harpagon/scheduler/plan"
)

// tooLong, in milliseconds, is how long a policy may need for one size of the
// curve and still be tried on the next.
const tooLong = 1000

func (f *benchFlags) run(ctx context.Context, d *Deps) (*benchResult, error) {
	f.known = map[string][]planning.Outcome{}
	r := &benchResult{Workloads: f.workloads, Seed: f.seed}
	workloads, err := planning.Workloads(f.seed, f.workloads)
	if err != nil {
		return nil, err
	}
	if f.concurrency {
		workloads = beside(workloads, f.seed)
	}
	for _, part := range benchParts() {
		if !slices.Contains(f.parts, part) {
			continue
		}
		var err error
		switch part {
		case "policies":
			err = f.runPolicies(ctx, d, workloads, r)
		case "ablations":
			err = f.runAblations(ctx, d, workloads, r)
		case "probe":
			err = f.runProbes(ctx, d, r)
		case "curve":
			err = f.runCurve(ctx, d, r)
		}
		if err != nil {
			return nil, err
		}
	}
	return r, nil
}

func (f *benchFlags) runPolicies(ctx context.Context, d *Deps, workloads []planning.Workload, r *benchResult) error {
	for _, model := range f.models {
		title := fmt.Sprintf("Policies, cost model %s, %s", model, counted(len(workloads), "workload"))
		if err := f.table(ctx, d, workloads, r, title, plan.PolicyExact, f.chosen(model)); err != nil {
			return err
		}
	}
	return nil
}

// chosen are the policies to run: those asked for, and exact, which the others
// are judged by.
func (f *benchFlags) chosen(model string) []planning.Variant {
	return slices.DeleteFunc(planning.Policies(model), func(v planning.Variant) bool {
		return len(f.policies) > 0 && !slices.Contains(f.policies, v.Name) && v.Name != plan.PolicyExact
	})
}

// runAblations prints a table for each of the two papers, of those whose policy
// was asked for.
func (f *benchFlags) runAblations(ctx context.Context, d *Deps, workloads []planning.Workload, r *benchResult) error {
	if !f.leftOut(plan.PolicyHarpagon) {
		if err := f.runHarpagon(ctx, d, workloads, r); err != nil {
			return err
		}
	}
	if f.leftOut(plan.PolicyPiccolo) {
		return nil
	}
	// Piccolo is about several batches at a time, so its workloads have profiles
	// for that.
	if !f.concurrency {
		f.known = map[string][]planning.Outcome{} // what comes now are other workloads
		workloads = beside(workloads, f.seed)
	}
	title := fmt.Sprintf("Policy piccolo, one step less each, cost model %s, profiles at concurrency 1, 2 and 4, %s", plan.CostProportional, counted(len(workloads), "workload"))
	return f.table(ctx, d, workloads, r, title, "", planning.Ablations("Piccolo"))
}

func (f *benchFlags) runHarpagon(ctx context.Context, d *Deps, workloads []planning.Workload, r *benchResult) error {
	variants := slices.DeleteFunc(planning.OverHarpagon(), func(v planning.Variant) bool {
		return v.Options.Policy != plan.PolicyHarpagon && f.leftOut(v.Name)
	})
	title := fmt.Sprintf("Policy harpagon, one step less each, and the others, cost model %s, %s", plan.CostProportional, counted(len(workloads), "workload"))
	return f.table(ctx, d, workloads, r, title, "", variants)
}

// leftOut says whether other policies were asked for.
func (f *benchFlags) leftOut(policy string) bool {
	return len(f.policies) > 0 && !slices.Contains(f.policies, policy)
}

// beside gives the workloads profiles with several batches at a time.
func beside(workloads []planning.Workload, seed uint64) []planning.Workload {
	list := make([]planning.Workload, len(workloads))
	for i, w := range workloads {
		list[i] = w.WithConcurrency(seed)
	}
	return list
}

// table measures all workloads with all variants. The reference is the first
// variant where none is named.
func (f *benchFlags) table(ctx context.Context, d *Deps, workloads []planning.Workload, r *benchResult, title, reference string, variants []planning.Variant) error {
	if len(variants) == 0 {
		return nil
	}
	if reference == "" {
		reference = variants[0].Name
	}
	outcomes, err := f.measure(ctx, d, workloads, title, variants)
	if err == nil {
		r.Tables = append(r.Tables, planning.NewTable(title, reference, workloads, variants, outcomes))
	}
	return err
}

// measure plans all workloads with all variants. What an earlier table has
// measured is not measured again.
func (f *benchFlags) measure(ctx context.Context, d *Deps, workloads []planning.Workload, title string, variants []planning.Variant) ([][]planning.Outcome, error) {
	known := func(v planning.Variant) []planning.Outcome { return f.known[fmt.Sprintf("%+v", v.Options)] }
	missing := slices.DeleteFunc(slices.Clone(variants), func(v planning.Variant) bool { return known(v) != nil })
	fresh := make([][]planning.Outcome, len(workloads))
	err := d.work(ctx, title, len(workloads), func(i int) {
		fresh[i] = workloads[i].Measure(missing, d.benchClock(), f.limit)
	})
	if err != nil {
		return nil, err
	}
	for k, v := range missing {
		column := make([]planning.Outcome, len(workloads))
		for i := range workloads {
			column[i] = fresh[i][k]
		}
		f.known[fmt.Sprintf("%+v", v.Options)] = column
	}
	all := make([][]planning.Outcome, len(workloads))
	for i := range workloads {
		for _, v := range variants {
			all[i] = append(all[i], known(v)[i])
		}
	}
	return all, nil
}

func (f *benchFlags) runProbes(ctx context.Context, d *Deps, r *benchResult) error {
	n := min(planning.DefaultModules, max(1, planning.DefaultModules*f.workloads/planning.DefaultWorkloads))
	for _, v := range planning.ProbeVariants() {
		samples := make([]planning.Sample, n)
		err := d.work(ctx, "Probe, "+v.Name, n, func(i int) { samples[i] = v.Sample(planning.Module(f.seed, i)) })
		if err != nil {
			return err
		}
		r.Probes = append(r.Probes, planning.NewProbe(v, samples))
	}
	return nil
}

const curveTitle = "Solve time over the number of modules, 10 kinds of hardware, 16 batch sizes"

func (f *benchFlags) runCurve(ctx context.Context, d *Deps, r *benchResult) error {
	for _, model := range f.models {
		variants := f.chosen(model)
		points := make([][]planning.GrowthPoint, len(variants))
		// One policy after the other on all cores would blur the times of the
		// largest sizes, so each policy has one core.
		err := d.work(ctx, "Curve, cost model "+model, len(variants), func(i int) {
			for _, n := range planning.Sizes() {
				at := variants[i].Grow(planning.Growth(f.seed, n), d.benchClock(), f.limit)
				points[i] = append(points[i], at)
				if at.Solve > tooLong || ctx.Err() != nil {
					return
				}
			}
		})
		if err != nil {
			return err
		}
		r.Curves = append(r.Curves, planning.Curve{Title: curveTitle + ", cost model " + model, CostModel: model, Points: slices.Concat(points...)})
	}
	return nil
}

// draw writes the picture of the curve, one panel a cost model.
func (f *benchFlags) draw(d *Deps, r *benchResult) error {
	if f.plot == "" {
		return nil
	}
	row := []chart.Panel{}
	for _, curve := range r.Curves {
		panel := chart.Panel{Title: "cost model " + curve.CostModel, XLabel: "modules", YLabel: "solve time in ms", LogX: true, LogY: true}
		for _, v := range f.chosen(curve.CostModel) {
			line := chart.Line{Name: v.Name, Colour: colourOf(v.Name)}
			for _, at := range curve.Points {
				if at.Policy == v.Name {
					line.Points = append(line.Points, chart.Point{X: float64(at.Modules), Y: max(at.Solve, leastShown), Gap: at.Status == plan.Infeasible})
				}
			}
			panel.Lines = append(panel.Lines, line)
		}
		row = append(row, panel)
	}
	return writePicture(d, f.plot, chart.Picture{
		Title:  curveTitle,
		Footer: "A line ends where a policy needed more than a second, or found no plan.",
		Rows:   [][]chart.Panel{row},
	})
}

// leastShown, in milliseconds, is the least time on a logarithmic axis.
const leastShown = 0.001
