package cli

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/arrivals"
	"github.com/harpagon/harpagon/scheduler/dispatch/factory"
	"github.com/harpagon/harpagon/scheduler/simulate"
)

type simulateFlags struct {
	options  simulate.Options
	arrivals string
	rate     float64
	devices  []string
	lose     []string
	spread   string

	delayControl, delayData string

	goodput    bool
	attainment float64
	tolerance  float64
	seeds      int

	plot      string
	plotFrom  time.Duration
	plotSpan  time.Duration
	trace     string
	record    string
	recording stations
	asJSON    bool
	scale     time.Duration
	scales    bool // flags that were given
	hasRate   bool
	hasLength bool
	state     stateFlag
	planning  PlanningFlags
}

// newSimulateCommand makes harpagon simulate.
func newSimulateCommand(d *Deps) *cobra.Command {
	var f simulateFlags
	c := &cobra.Command{
		Use:   "simulate PATH...",
		Short: "Play random requests against the plan, on a virtual clock",
		Long: `Simulates requests to what would run, on a virtual clock, and prints what becomes
of them: how many are in time, late, dropped or refused, their latencies, the
batches and how busy the devices are. The dispatchers are the ones that the
gateway drives; the same seed gives the same result everywhere.

It plans the services as harpagon plan does, with the same flags, and runs that
plan, whatever rate is offered. With --devices all pipelines share devices of these
kinds instead, with one dispatcher and no plan.

Functions are planned and replayed on Poisson arrivals, through the dispatcher
that keeps a timeout for each application, and billed as their provider would.

Pools are planned, and queries of their sizes are played against the instances, at
the plan's goodput where no rate is given.

--rate is the total over all pipelines, in proportion to their declared rates.
Traces and replays come as they were recorded unless a rate is given.

--find-goodput looks for the highest total rate at which every pipeline reaches the
attainment (99 % of its requests within the SLO).`,
		Example: `  harpagon simulate pipeline.hcl --arrivals poisson --rate 120
  harpagon simulate . --arrivals gamma:0.1 --find-goodput --json
  harpagon simulate models.hcl --devices gpu=8 --dispatch deferred --arrivals poisson --find-goodput --seeds 5
  harpagon simulate . --arrivals trace:counts.csv --plot batches.svg --trace-events batches.json
  harpagon simulate . --lose 0@10s-20s --delay-control 100us --delay-data 50us --noise 0.05`,
		Args: somePaths,
	}
	x := newDeclaration(d, c)
	f.register(c)
	c.RunE = func(c *cobra.Command, paths []string) error {
		f.hasRate, f.hasLength, f.scales = c.Flags().Changed("rate"), c.Flags().Changed("duration"), c.Flags().Changed("scale")
		if c.Flags().Changed("pool") {
			fmt.Fprintln(d.Stderr, "harpagon: flag --pool is deprecated and goes with the next version; it is called --devices now")
		}
		if err := f.check(); err != nil {
			return wrongUse(c, err)
		}
		if err := f.readDelays(d); err != nil {
			return err
		}
		doc, err := plannable(x, &f.planning, &f.state, paths)
		if err != nil {
			return err
		}
		return f.run(c.Context(), d, doc)
	}
	return c
}

func (f *simulateFlags) register(c *cobra.Command) {
	flags := c.Flags()
	f.state.Register(c, keptUsage)
	f.planning.Register(c)
	flags.StringVar(&f.options.Dispatch, "dispatch", "", fmt.Sprintf("the dispatch policy: %s (default for plans: %s; for --devices and clusters: %s)",
		strings.Join(pipelines.Dispatches(pipelines.KindPipeline), ", "), factory.Default, pipelines.Dispatches(pipelines.KindCluster)[0]))
	flags.StringVar(&f.arrivals, "arrivals", "", "how requests come: even, poisson, gamma:SHAPE, trace:FILE (requests in each second) or replay:FILE (instants); as declared when left out")
	flags.Float64Var(&f.rate, "rate", 0, "requests per second, over all pipelines; as declared, or recorded, when left out")
	flags.DurationVar(&f.options.Duration, "duration", time.Minute, "how long requests come and are counted; all of a trace or replay when left out")
	flags.DurationVar(&f.options.Warmup, "warmup", 0, "how long requests come before --duration, not counted")
	flags.Uint64Var(&f.options.Seed, "seed", 1, "seed of all that is random")
	flags.StringSliceVar(&f.devices, "devices", nil, "share so many devices among all pipelines, without a plan: `hardware=N`; may be repeated")
	flags.StringSliceVar(&f.devices, "pool", nil, "`hardware=N`")
	_ = flags.MarkHidden("pool") // MarkDeprecated prints to standard output, where --json is read
	flags.BoolVar(&f.goodput, "find-goodput", false, "find the highest rate at which every pipeline keeps the attainment")
	flags.Float64Var(&f.attainment, "attainment", simulate.DefaultAttainment, "the share of each pipeline's requests to be in time, for --find-goodput")
	flags.Float64Var(&f.tolerance, "tolerance", simulate.DefaultTolerance, "how close to come to the goodput, as a part of it")
	flags.IntVar(&f.seeds, "seeds", 1, "how many seeds to average over at each rate of --find-goodput, from --seed up")
	flags.StringVar(&f.delayControl, "delay-control", "0s", "`time` that a batch takes to its device: a duration, uniform:LEAST,MOST, lognormal:MEAN,VARIATION or percentiles:FILE")
	flags.StringVar(&f.delayData, "delay-data", "0s", "`time` on top for each request of the batch, written the same way")
	flags.Float64Var(&f.options.Noise, "noise", 0, "coefficient of variation of the time of a batch around its profile")
	flags.StringVar(&f.spread, "fanout", string(simulate.SpreadPoisson), "how fan-out varies around a mean that is not whole: poisson or near")
	flags.StringArrayVar(&f.lose, "lose", nil, "lose a device and get it back: `DEVICE@FROM-TO`, such as 0@10s-20s; may be repeated; without TO it stays away")
	flags.DurationVar(&f.scale, "scale", 0, "let declared clusters change size with their load, between min and max devices; a new device serves this long after it was asked for")
	flags.BoolVar(&f.options.Admission, "admission", true, "refuse requests that could not be answered in time when they come, as gateways do; of plans")
	flags.BoolVar(&f.options.Eager, "eager", true, "let idle devices start early under policy tc where no promise is broken, as gateways do: shorter latencies where there is time to spare")
	flags.StringVar(&f.plot, "plot", "", "draw batches over time and device to a `file` that ends in .svg or .png")
	flags.DurationVar(&f.plotFrom, "plot-from", 0, "where the drawing begins; in the middle of the run when left out")
	flags.DurationVar(&f.plotSpan, "plot-span", 0, "the time that it shows; about thirty batches of a device when left out")
	flags.StringVar(&f.trace, "trace-events", "", "write all batches to a `file` that chrome://tracing and ui.perfetto.dev open")
	flags.StringVar(&f.record, "record", "", "write the events and decisions of dispatchers to a `file` for harpagon replay")
	flags.BoolVar(&f.asJSON, "json", false, "print the result as JSON")
}

// readDelays reads how slow the network is.
func (f *simulateFlags) readDelays(d *Deps) (err error) {
	delay := &f.options.Delay
	if delay.Message, err = readTimes(d, "delay-control", f.delayControl); err != nil {
		return err
	}
	delay.Request, err = readTimes(d, "delay-data", f.delayData)
	return err
}

func (f *simulateFlags) check() error {
	if err := checkPicture(f.plot); err != nil {
		return err
	}
	f.options.Spread = simulate.Spread(f.spread)
	if name := f.planning.First(); name != "" && len(f.devices) > 0 {
		return fmt.Errorf("--devices runs pipelines without a plan, and --%s sets how to plan; leave one of them out", name)
	}
	switch {
	case f.seeds < 1:
		return fmt.Errorf("--seeds %d: take at least one seed", f.seeds)
	case f.hasRate && !(f.rate >= 0):
		return fmt.Errorf("--rate %v: a rate is a number of requests per second, zero or more", f.rate)
	case f.options.Duration <= 0:
		return fmt.Errorf("--duration %v: take a time above zero, such as 60s", f.options.Duration)
	}
	for _, text := range f.lose {
		o, err := parseOutage(text)
		if err != nil {
			return err
		}
		f.options.Outages = append(f.options.Outages, o)
	}
	return nil
}

// loads are the pipelines with how their requests come.
func (f *simulateFlags) loads(d *Deps, doc *pipelines.Document) ([]simulate.Load, error) {
	given := arrivals.Process{}
	if f.arrivals != "" {
		var err error
		if given, err = readArrivals(d, f.arrivals); err != nil {
			return nil, err
		}
	}
	total := 0.0
	for _, p := range doc.Pipelines {
		total += p.Rate
	}
	var loads []simulate.Load
	for _, p := range doc.Pipelines {
		l := simulate.Load{Pipeline: p, Rate: p.Rate, Arrivals: given}
		recorded, span := given.Recorded()
		if f.arrivals == "" {
			var err error
			if l.Arrivals, err = arrivals.Declared(&p); err != nil {
				return nil, err
			}
			_, span = l.Arrivals.Recorded()
		} else if recorded > 0 {
			l.Rate = 0 // as it was
		}
		if f.hasRate {
			l.Rate = f.rate * Share(p.Rate, total, len(doc.Pipelines))
			if f.rate == 0 {
				l.Arrivals = arrivals.Process{} // no request comes, whatever was recorded
			}
		}
		if span > 0 && !f.hasLength {
			f.options.Duration = max(span, time.Millisecond)
		}
		loads = append(loads, l)
	}
	return loads, nil
}

// parseDevices reads hardware=N.
func parseDevices(list []string) ([]simulate.Devices, error) {
	var all []simulate.Devices
	for _, text := range list {
		name, count, ok := strings.Cut(text, "=")
		n, err := strconv.Atoi(count)
		if !ok || err != nil || name == "" || n < 1 {
			return nil, fmt.Errorf("--devices %s: write HARDWARE=N with at least one device, such as gpu=8", text)
		}
		if n > simulate.MaxDevices {
			return nil, fmt.Errorf("--devices %s: memory is kept for %d devices; simulate a part of them at a part of the rate", text, simulate.MaxDevices)
		}
		all = append(all, simulate.Devices{Hardware: name, Count: n})
	}
	return all, nil
}

// parseOutage reads DEVICE@FROM-TO.
func parseOutage(text string) (simulate.Outage, error) {
	var o simulate.Outage
	device, span, ok := strings.Cut(text, "@")
	from, to, ends := strings.Cut(span, "-")
	var err error
	if o.Device, err = strconv.Atoi(device); err == nil {
		o.From, err = time.ParseDuration(from)
	}
	if ends && err == nil {
		o.To, err = time.ParseDuration(to)
	}
	if !ok || err != nil {
		return o, fmt.Errorf("--lose %s: write DEVICE@FROM-TO, such as 0@10s-20s", text)
	}
	return o, nil
}
