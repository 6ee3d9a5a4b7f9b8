package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler"
	"github.com/harpagon/harpagon/scheduler/cluster"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/pool"
	"github.com/harpagon/harpagon/scheduler/simulate"
)

// simulations is the JSON of the command: see the fields of
// simulate.PipelineResult. A pipeline without a plan has a reason. Models is there with
// --find-goodput: what became of each pipeline's requests at that rate.
type simulations struct {
	Simulations []any                   `json:"simulations"`
	Models      []simulate.Attained     `json:"models,omitempty"`
	Devices     []simulate.DeviceResult `json:"devices,omitempty"`
	Functions   []simulatedFunction     `json:"functions,omitempty"`
	Pools       []simulatedPool         `json:"pools,omitempty"`
	Variants    []simulatedVariants     `json:"variants,omitempty"`
	Scaled      []scaledCluster         `json:"scaled,omitempty"`
}

// simulatedVariants is who served a pipeline whose modules have variants.
type simulatedVariants struct {
	Pipeline string               `json:"pipeline"`
	Accuracy float64              `json:"accuracy"`
	Served   []plan.ServedVariant `json:"served"`
}

type unplanned struct {
	Pipeline string      `json:"pipeline"`
	Status   plan.Status `json:"status"`
	Reason   string      `json:"reason"`
}

func (f *simulateFlags) run(ctx context.Context, d *Deps, doc *pipelines.Document) error {
	loads, err := f.loads(d, doc)
	if err != nil {
		return err
	}
	shared, err := parseDevices(f.devices)
	if err != nil {
		return err
	}
	f.recording.wanted = f.record != ""
	stop, done := d.Searching(ctx, "simulating")
	defer done()
	f.options.Stop = stop
	if err := f.checkFunctions(doc); err != nil {
		return err
	}
	specs, found, err := f.plan(ctx, d, doc, len(shared) == 0)
	if err != nil {
		return stopped(err)
	}
	var plans []plan.Plan
	var without []unplanned
	all := loads
	if len(shared) == 0 {
		loads, plans, without = playable(loads, specs, found)
	}
	out := simulations{Simulations: []any{}}
	for _, p := range plans {
		if len(p.Variants) > 0 {
			out.Variants = append(out.Variants, simulatedVariants{Pipeline: p.Pipeline, Accuracy: p.Accuracy, Served: p.Variants})
		}
	}
	var result simulate.Result
	if len(loads) > 0 {
		play := func(loads []simulate.Load, o simulate.Options) (simulate.Result, error) {
			if len(shared) > 0 {
				return simulate.OnCluster(loads, shared, o)
			}
			return simulate.OnPlans(loads, plans, o)
		}
		if result, err = f.play(d, loads, play); err != nil {
			return withoutPackage(err)
		}
		out.Devices = result.Devices
	}
	if len(shared) == 0 {
		if err := f.playClusters(d, all, specs, found, &out, &result); err != nil {
			return withoutPackage(err)
		}
	}
	for i := range result.Pipelines {
		if f.arrivals != "" {
			result.Pipelines[i].Arrivals = f.arrivals
		}
		out.Simulations = append(out.Simulations, result.Pipelines[i])
		if g := result.Pipelines[i].Goodput; g != nil {
			out.Models = append(out.Models, g.Own(result.Pipelines[i].Pipeline))
		}
	}
	for _, u := range without {
		out.Simulations = append(out.Simulations, u)
	}
	if err := f.playOthers(doc, specs, found, &out); err != nil {
		return err
	}
	if err := f.recording.write(d, f.record); err != nil {
		return err
	}
	done()
	if err := f.write(d, out, result, without); err != nil {
		return err
	}
	if len(without) > 0 || slices.ContainsFunc(out.Functions, simulatedFunction.unplanned) || slices.ContainsFunc(out.Pools, simulatedPool.unplanned) {
		return ErrReported
	}
	return nil
}

// withoutPackage takes the name of the package from an error.
func withoutPackage(err error) error {
	if errors.Is(err, simulate.ErrStopped) {
		return stopped(context.Canceled)
	}
	return errors.New(strings.TrimPrefix(err.Error(), "simulate: "))
}

// plan plans the services, pipelines only where they run by plans. Pools are
// planned for the arrivals that are played.
func (f *simulateFlags) plan(ctx context.Context, d *Deps, doc *pipelines.Document, byPlans bool) ([]scheduler.Spec, []scheduler.Plan, error) {
	for i := range doc.Pools {
		doc.Pools[i].Arrivals = cmp.Or(f.arrivals, doc.Pools[i].Arrivals)
	}
	specs := scheduler.Specs(doc)
	if !byPlans {
		specs = slices.DeleteFunc(specs, func(s scheduler.Spec) bool { return s.Kind() == scheduler.KindPipeline })
	}
	fleet, _, err := f.state.Fleet(ctx, d, specs)
	if err != nil {
		return nil, nil, err
	}
	found, err := d.Solve(ctx, specs, fleet, scheduler.DefaultTimeLimit)
	return specs, found, err
}

// playable are the plans of pipelines that are played, with their loads; those
// that have none are left out, and so are those in clusters.
func playable(loads []simulate.Load, specs []scheduler.Spec, found []scheduler.Plan) (able []simulate.Load, plans []plan.Plan, without []unplanned) {
	for i, s := range specs {
		if c := found[i].Cluster; c != nil && c.Status == cluster.Infeasible {
			for _, p := range s.Members {
				without = append(without, unplanned{Pipeline: p.Name, Status: plan.Infeasible, Reason: c.Reason})
			}
		}
		p := found[i].Pipeline
		switch {
		case p == nil:
		case p.Status == plan.Infeasible:
			without = append(without, unplanned{Pipeline: p.Pipeline, Status: p.Status, Reason: p.Reason})
		default:
			load := loadOf(loads, p.Pipeline)
			load.Pipeline = plan.AsServed(load.Pipeline, p.Variants)
			able, plans = append(able, load), append(plans, *p)
		}
	}
	return able, plans, without
}

func loadOf(loads []simulate.Load, pipeline string) simulate.Load {
	return loads[slices.IndexFunc(loads, func(l simulate.Load) bool { return l.Pipeline.Name == pipeline })]
}

// playClusters plays what is planned in clusters, each sub-cluster by itself.
func (f *simulateFlags) playClusters(d *Deps, loads []simulate.Load, specs []scheduler.Spec, found []scheduler.Plan, out *simulations, to *simulate.Result) error {
	for i, s := range specs {
		c := found[i].Cluster
		if s.Kind() != scheduler.KindCluster || c.Status == cluster.Infeasible {
			continue
		}
		scaling, err := f.scaling(&s, c)
		if err != nil {
			return err
		}
		for _, part := range c.SubClusters {
			var members []simulate.Load
			for _, name := range part.Pipelines {
				l := loadOf(loads, name)
				l.Budgets = c.BudgetsOf(name)
				members = append(members, l)
			}
			devices := []simulate.Devices{{Hardware: c.Hardware, Count: part.Devices}}
			result, err := f.play(d, members, func(loads []simulate.Load, o simulate.Options) (simulate.Result, error) {
				o.Dispatch, o.Scaling = cmp.Or(o.Dispatch, c.Dispatch), scaling
				return simulate.OnCluster(loads, devices, o)
			})
			if err != nil {
				return err
			}
			out.Devices, to.Devices = append(out.Devices, result.Devices...), append(to.Devices, result.Devices...)
			to.Pipelines = append(to.Pipelines, result.Pipelines...)
			if scaling != nil {
				out.Scaled = append(out.Scaled, scaledAs(c.Cluster, result.Sizes))
			}
		}
	}
	return nil
}

// playOthers plays functions and pools.
func (f *simulateFlags) playOthers(doc *pipelines.Document, specs []scheduler.Spec, found []scheduler.Plan, out *simulations) error {
	for i, s := range specs {
		switch s.Kind() {
		case scheduler.KindFunction:
			one, err := f.function(s.FunctionProblem(), *found[i].Function, f.functionRate(doc, s.Function))
			if err != nil {
				return err
			}
			out.Functions = append(out.Functions, one)
		case scheduler.KindPool:
			one, err := f.playPool(pool.Problem{Pool: *s.Pool, Hardware: s.Hardware}, *found[i].Pool, len(doc.Pipelines) > 0)
			if err != nil {
				return err
			}
			out.Pools = append(out.Pools, one)
		}
	}
	return nil
}

// play simulates at the rate offered, and looks for the goodput.
func (f *simulateFlags) play(d *Deps, loads []simulate.Load, play func([]simulate.Load, simulate.Options) (simulate.Result, error)) (simulate.Result, error) {
	o := f.options
	rec := f.recorder()
	o.Observer = rec.observer()
	o.Record = f.recording.of("")
	result, err := play(loads, o)
	if err != nil {
		return result, err
	}
	if err := rec.write(d, f, result); err != nil {
		return result, err
	}
	if f.goodput {
		return result, f.search(d, loads, play, &result)
	}
	return result, nil
}

// search finds the goodput and divides it among the pipelines.
func (f *simulateFlags) search(d *Deps, loads []simulate.Load, play func([]simulate.Load, simulate.Options) (simulate.Result, error), result *simulate.Result) error {
	total := 0.0
	for _, p := range result.Pipelines {
		total += p.Rate
	}
	at := func(rate float64) []simulate.Load {
		scaled := make([]simulate.Load, len(loads))
		for i, l := range loads {
			l.Rate = rate * Share(result.Pipelines[i].Rate, total, len(loads))
			scaled[i] = l
		}
		return scaled
	}
	run := func(rate float64, seed uint64) (simulate.Result, error) {
		if d.Terminal {
			fmt.Fprintf(d.Stderr, "\rseed %d at %.5g requests per second   ", seed, rate)
		}
		o := f.options
		o.Seed = seed
		o.GiveUp = int64(giveUpAt*(1-f.attainment)*rate*o.Duration.Seconds()) + 1000
		return play(at(rate), o)
	}
	search := simulate.Search{Attainment: f.attainment, Tolerance: f.tolerance, Seeds: f.seeds, Seed: f.options.Seed, Start: total}
	g, err := simulate.FindGoodput(run, search)
	if d.Terminal {
		fmt.Fprint(d.Stderr, "\r\x1b[K")
	}
	if err != nil {
		return err
	}
	for i := range result.Pipelines {
		own := g
		part := Share(result.Pipelines[i].Rate, total, len(loads))
		own.Rate, own.At.Rate, own.Above.Rate = part*g.Rate, part*g.At.Rate, part*g.Above.Rate
		result.Pipelines[i].Goodput = &own
	}
	return nil
}

// giveUpAt is how many times the misses that are allowed end a run of a search.
const giveUpAt = 4

func (f *simulateFlags) write(d *Deps, out simulations, result simulate.Result, without []unplanned) error {
	if f.asJSON {
		return writeJSON(d.Stdout, out)
	}
	if len(result.Pipelines) > 0 {
		if _, err := io.WriteString(d.Stdout, result.Describe()); err != nil {
			return err
		}
	}
	for _, c := range out.Scaled {
		fmt.Fprint(d.Stdout, c.Describe())
	}
	for _, v := range out.Variants {
		fmt.Fprintf(d.Stdout, "%s: %s", v.Pipeline, plan.DescribeVariants(v.Accuracy, v.Served))
	}
	for _, u := range without {
		fmt.Fprintf(d.Stdout, "%s: infeasible: %s\n", u.Pipeline, u.Reason)
	}
	for _, one := range out.Functions {
		fmt.Fprint(d.Stdout, one.Describe())
	}
	for _, one := range out.Pools {
		fmt.Fprint(d.Stdout, one.Describe())
	}
	return nil
}
