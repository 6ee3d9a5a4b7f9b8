package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/simulate"
	"github.com/harpagon/harpagon/scheduler/sizing"
)

// simulations is the JSON of the command: see the fields of
// simulate.PipelineResult. A pipeline without a plan says why.
type simulations struct {
	Simulations []any                   `json:"simulations"`
	Devices     []simulate.DeviceResult `json:"devices,omitempty"`
	Functions   []simulatedFunction     `json:"functions,omitempty"`
	Pools       []simulatedPool         `json:"pools,omitempty"`
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
	pool, err := parsePool(f.pool)
	if err != nil {
		return err
	}
	f.options.Stop = func() bool { return ctx.Err() != nil }
	var plans []plan.Plan
	var without []unplanned
	if len(pool) == 0 {
		loads, plans, without = f.plan(d, doc, loads)
	}
	out := simulations{Simulations: []any{}}
	var result simulate.Result
	if len(loads) > 0 {
		play := func(loads []simulate.Load, o simulate.Options) (simulate.Result, error) {
			if len(pool) > 0 {
				return simulate.OnCluster(loads, pool, o)
			}
			return simulate.OnPlans(loads, plans, o)
		}
		if result, err = f.play(d, loads, play); err != nil {
			return tidied(err)
		}
		out.Devices = result.Devices
	}
	for i := range result.Pipelines {
		if f.arrivals != "" {
			result.Pipelines[i].Arrivals = f.arrivals
		}
		out.Simulations = append(out.Simulations, result.Pipelines[i])
	}
	for _, u := range without {
		out.Simulations = append(out.Simulations, u)
	}
	if out.Functions, err = f.functions(doc); err != nil {
		return err
	}
	if out.Pools, err = f.pools(doc); err != nil {
		return err
	}
	if err := f.write(d, out, result, without); err != nil {
		return err
	}
	if len(without) > 0 || slices.ContainsFunc(out.Functions, simulatedFunction.unplanned) || slices.ContainsFunc(out.Pools, simulatedPool.unplanned) {
		return errReported
	}
	return nil
}

// tidied takes the name of the package from an error.
func tidied(err error) error {
	if errors.Is(err, simulate.ErrStopped) {
		return stopped(context.Canceled)
	}
	return errors.New(strings.TrimPrefix(err.Error(), "simulate: "))
}

// plan makes the plans that are played, and leaves out pipelines without one.
func (f *simulateFlags) plan(d *Deps, doc *pipelines.Document, loads []simulate.Load) (able []simulate.Load, plans []plan.Plan, without []unplanned) {
	var problems []plan.Problem
	for _, p := range doc.Pipelines {
		problems = append(problems, plan.Problem{Pipeline: p, Hardware: doc.Hardware})
	}
	for i, p := range sizing.SolveAll(problems, plan.Options{Clock: d.Clock, TimeLimit: planLimit, Stop: f.options.Stop}) {
		if p.Status == plan.Infeasible {
			without = append(without, unplanned{p.Pipeline, p.Status, p.Reason})
			continue
		}
		able, plans = append(able, loads[i]), append(plans, p)
	}
	return able, plans, without
}

// play simulates at the rate offered, and looks for the goodput.
func (f *simulateFlags) play(d *Deps, loads []simulate.Load, play func([]simulate.Load, simulate.Options) (simulate.Result, error)) (simulate.Result, error) {
	o := f.options
	rec := f.recorder()
	o.Observer = rec.observer()
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
			l.Rate = rate * share(result.Pipelines[i].Rate, total, len(loads))
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
		part := share(result.Pipelines[i].Rate, total, len(loads))
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
