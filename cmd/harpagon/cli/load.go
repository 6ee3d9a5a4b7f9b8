package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/histogram"
	"github.com/harpagon/harpagon/sdk"
	"github.com/harpagon/harpagon/sdk/load"
	"github.com/harpagon/harpagon/wire"
)

// requestsKept is how many different requests a load of random inputs or of a
// folder goes through before it repeats them.
const requestsKept = 64

type loadFlags struct {
	inputs   []string
	sizes    string
	arrivals string
	slo      time.Duration
	options  load.Options
	callers  []int
	below    float64
	cores    int
	asJSON   bool
}

// newLoadCommand makes harpagon load.
func newLoadCommand(d *Deps) *cobra.Command {
	var f loadFlags
	c := &cobra.Command{
		Use:   "load NAME",
		Short: "Send requests at a rate to a running service, and measure latencies",
		Long: `Sends requests to a running pipeline at given instants, whether or not earlier
ones have been answered, and reports how many kept the objective, and where the
time went.

With --callers N, each of N callers sends its next request when it has the answer to
the last. Several numbers, as in --callers 1,2,4,8, make one run each, and a table
compares them.

Latency counts from the instant at which a request was meant to be sent. The
warm-up is sent but not counted. A request that was refused, dropped or failed, or
that the generator could not send in time, counts against the attainment, unless it
was invalid: that is the caller's mistake. With --fail-below 0.99 a lower attainment
is an error, for scripts.

A function is loaded by all its applications at once, at the rates that are
planned for, or in proportion to them where --rate is given; FUNCTION/APPLICATION
loads one of them.

A cluster is loaded by all its pipelines at once in the same way; an input of one of
them is given as PIPELINE/NAME=PATH.

With --gateway and --slo it loads a model of any server of the Open Inference
Protocol over HTTP that takes tensors as binary data. Dimensions that such a
server leaves open, as of the batch, are 1 in random inputs.`,
		Example: `  harpagon load traffic --rate 10 --arrivals poisson --duration 20s --input frame=examples/traffic/scenes
  harpagon load emulated --rate 40 --duration 30s --json
  harpagon load objects --fail-below 0.99
  harpagon load emulated --callers 1,2,4,8 --duration 5s
  harpagon load vgg19 --duration 1m
  harpagon load vision --rate 60 --input traffic/frame=examples/traffic/scenes
  harpagon load ranking --rate 500 --sizes examples/pool
  harpagon load emulated --arrivals trace:counts.txt --duration 10m
  harpagon load resnet --gateway 10.0.0.7:8000 --slo 100ms --rate 50`,
		Args: cobra.ExactArgs(1),
	}
	at := newGatewayAt(c)
	flags := c.Flags()
	flags.Float64Var(&f.options.Rate, "rate", 0, "mean requests per second; 0 is what is planned for, or with a trace its own")
	flags.IntSliceVar(&f.callers, "callers", nil, "send from so many callers, one request after the other from each, instead of at a rate; a list such as 1,2,4,8 compares them")
	flags.Float64Var(&f.below, "fail-below", 0, "exit with an error where the attainment is below this share, such as 0.99")
	flags.IntVar(&f.cores, "cores", 0, "how many cores the generator takes; 0 means as many as it needs, so that it leaves the others to a server on the same machine")
	flags.StringVar(&f.arrivals, "arrivals", "poisson", "how requests come: even, poisson, gamma:SHAPE, trace:FILE (requests in each second) or replay:FILE (instants)")
	flags.DurationVar(&f.options.Duration, "duration", 20*time.Second, "how long to send requests that are counted")
	flags.DurationVar(&f.options.Warmup, "warmup", 2*time.Second, "how long to send before --duration, not counted")
	flags.Uint64Var(&f.options.Seed, "seed", 1, "seed of arrivals and random inputs")
	flags.DurationVar(&f.options.Timeout, "timeout", 0, "after which an unanswered request is given up; 0 is ten times the objective")
	flags.DurationVar(&f.slo, "slo", 0, "objective to count against, in place of the one that the server reports")
	flags.StringArrayVar(&f.inputs, "input", nil, "`name=path` of an input: a file as for infer, or a folder of them to go through; random elements otherwise")
	flags.StringVar(&f.sizes, "sizes", "", "`file` of a pool's query sizes (size,weight), or the declaration that names it")
	flags.BoolVar(&f.asJSON, "json", false, "print JSON")
	c.RunE = func(c *cobra.Command, args []string) error {
		client, err := at.Dial(c.Context())
		if err != nil {
			return err
		}
		defer client.Close()
		switch {
		case f.cores > 0:
			runtime.GOMAXPROCS(f.cores)
		case d.TuneProcessors != nil: // it leaves more to what it measures on the same machine
			d.TuneProcessors(c.Context())
		}
		return f.run(c.Context(), d, client, args[0])
	}
	return c
}

func (f *loadFlags) run(ctx context.Context, d *Deps, client *sdk.Client, pipeline string) error {
	m, err := client.Metadata(ctx, pipeline)
	if err != nil {
		return err
	}
	if f.options.Arrivals, err = readArrivals(d, f.arrivals); err != nil {
		return err
	}
	if f.callers = slices.DeleteFunc(f.callers, func(n int) bool { return n == 0 }); len(f.callers) > 0 {
		f.options.Callers = f.callers[0]
	}
	switch {
	case slices.ContainsFunc(f.callers, func(n int) bool { return n < 0 }):
		return fmt.Errorf("--callers %v: at least one, or 0 for a rate", f.callers)
	case f.below < 0 || f.below > 1:
		return fmt.Errorf("--fail-below %v: it is a share between 0 and 1, such as 0.99", f.below)
	case f.options.Callers > 0 && f.options.Rate != 0:
		return errors.New("--callers and --rate exclude each other; give one of them")
	case f.options.Callers > 0 && len(m.Members)+len(m.Applications) > 0:
		return fmt.Errorf("--callers: %s is loaded by several at once, whose rates differ; name one of them", pipeline)
	}
	if len(m.Members) > 0 {
		return f.members(ctx, d, client, m)
	}
	requests, err := f.requests(m.Inputs)
	if f.sizes != "" {
		requests, err = f.queries(d, pipeline, m.Inputs)
	}
	if err != nil {
		return err
	}
	if len(m.Applications) > 0 {
		return f.applications(ctx, d, client, m, requests)
	}
	f.options.Pipeline = pipeline
	if recorded, _ := f.options.Arrivals.Recorded(); f.options.Rate == 0 && f.options.Callers == 0 && recorded == 0 {
		if f.options.Rate = m.Rate; m.Rate <= 0 {
			return fmt.Errorf("server reports no rate that %s is planned for; pass --rate, as in --rate 10", pipeline)
		}
	}
	if f.options.SLO, err = f.objective(pipeline, m.SLO); err != nil {
		return err
	}
	f.options.Progress = loadProgress(d)
	var all []*load.Report
	for i := range max(len(f.callers), 1) {
		if len(f.callers) > 0 {
			f.options.Callers = f.callers[i]
		}
		report, err := load.Run(ctx, f.options, func(ctx context.Context, n int) (*wire.InferResponse, error) {
			result, err := client.Infer(ctx, pipeline, requests[n%len(requests)])
			if err != nil {
				return nil, err
			}
			return result.Response(), nil
		})
		if err != nil {
			return err
		}
		if all = append(all, report); ctx.Err() != nil {
			break
		}
	}
	switch {
	case f.asJSON && len(all) > 1:
		err = writeLoads(d.Stdout, map[string]any{"pipeline": pipeline, "sweep": all}, all)
	case f.asJSON:
		err = writeLoads(d.Stdout, all[0], all)
	case len(all) > 1:
		_, err = fmt.Fprintf(d.Stdout, "%s, objective %v\n\n%s", pipeline, f.options.SLO, load.Sweep(all))
	default:
		_, err = fmt.Fprint(d.Stdout, all[0].Describe())
	}
	return errors.Join(err, f.enough(all))
}

// enough is an error where less was in time than --fail-below requires.
func (f *loadFlags) enough(all []*load.Report) error {
	for _, r := range all {
		if r.Attainment < f.below {
			return fmt.Errorf("attainment of %s is %.4f, below the %v of --fail-below", r.Pipeline, r.Attainment, f.below)
		}
	}
	return nil
}

// objective is the objective that requests are counted against: --slo, else told, that of
// the server; 0 for a server without objectives.
func (f *loadFlags) objective(name string, told time.Duration) (time.Duration, error) {
	switch {
	case f.slo < 0:
		return 0, fmt.Errorf("--slo %v: an objective is longer than nothing", f.slo)
	case f.slo > 0:
		return f.slo, nil
	case told > 0:
		return told, nil
	}
	return 0, fmt.Errorf("server reports no latency objective for %s; pass --slo, as in --slo 300ms", name)
}

// requests makes what the load goes through.
func (f *loadFlags) requests(ports []pipelines.Port) ([]sdk.Inputs, error) {
	tensors := map[string][]sdk.Tensor{}
	for _, text := range f.inputs {
		name, path, ok := strings.Cut(text, "=")
		i := slices.IndexFunc(ports, func(p pipelines.Port) bool { return p.Name == name })
		if !ok || i < 0 {
			return nil, fmt.Errorf("--input %s: write NAME=PATH with an input of the pipeline", text)
		}
		all, err := readInputs(ports[i], path)
		if err != nil {
			return nil, fmt.Errorf("--input %s: %w", text, err)
		}
		tensors[name] = all
	}
	rng := rand.New(rand.NewPCG(f.options.Seed, 1))
	requests := make([]sdk.Inputs, requestsKept)
	for i := range requests {
		requests[i] = sdk.Inputs{}
		for _, p := range ports {
			if all := tensors[p.Name]; len(all) > 0 {
				requests[i][p.Name] = all[i%len(all)]
			} else {
				requests[i][p.Name] = randomInput(p, rng)
			}
		}
	}
	return requests, nil
}

// readInputs reads a file, or the pictures, JSON and raw files of a folder.
func readInputs(port pipelines.Port, path string) ([]sdk.Tensor, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	files := []string{path}
	if info.IsDir() {
		files = nil
		for _, pattern := range []string{"*.png", "*.jpg", "*.jpeg", "*.bin"} {
			found, err := filepath.Glob(filepath.Join(path, pattern))
			if err != nil {
				return nil, err
			}
			files = append(files, found...)
		}
		if len(files) == 0 {
			return nil, fmt.Errorf("%s holds no PNG, JPEG or .bin files", path)
		}
	}
	var all []sdk.Tensor
	for _, file := range files {
		t, err := readInput(port, file)
		if err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	return all, nil
}

// loadProgress draws a line that is written over on a terminal, and writes one
// every five seconds elsewhere.
func loadProgress(d *Deps) func(load.Progress) {
	ticks := 0
	return func(p load.Progress) {
		line := fmt.Sprintf("%3.0f of %.0f s: %d sent, %d answered, %d late, %d failed",
			p.Elapsed.Seconds(), p.Total.Seconds(), p.Sent, p.Completed, p.Late, p.Failed)
		switch ticks++; {
		case d.Terminal:
			fmt.Fprintf(d.Stderr, "\r%s\033[K", line)
			if p.Elapsed >= p.Total-time.Second {
				fmt.Fprint(d.Stderr, "\r\033[K")
			}
		case ticks%5 == 0:
			fmt.Fprintln(d.Stderr, line)
		}
	}
}

// applications loads a function by all its applications at once.
func (f *loadFlags) applications(ctx context.Context, d *Deps, client *sdk.Client, m *sdk.Metadata, requests []sdk.Inputs) error {
	var all []target
	for _, a := range m.Applications {
		all = append(all, target{m.Pipeline + "/" + a.Name, a, requests})
	}
	done, err := f.loadAll(ctx, d, client, all)
	if err != nil {
		return err
	}
	return f.report(d, "function", m.Pipeline, "applications", done)
}

// members loads a cluster by all its pipelines at once.
func (f *loadFlags) members(ctx context.Context, d *Deps, client *sdk.Client, m *sdk.Metadata) error {
	given := f.inputs
	var all []target
	for _, a := range m.Members {
		of, err := client.Metadata(ctx, a.Name)
		if err != nil {
			return err
		}
		f.inputs = nil
		for _, text := range given {
			if input, ok := strings.CutPrefix(text, a.Name+"/"); ok {
				f.inputs = append(f.inputs, input)
			}
		}
		requests, err := f.requests(of.Inputs)
		if err != nil {
			return err
		}
		all = append(all, target{a.Name, a, requests})
	}
	done, err := f.loadAll(ctx, d, client, all)
	if err != nil {
		return err
	}
	return f.report(d, "cluster", m.Pipeline, "pipelines", done)
}

// target is one of several services that are loaded at once.
type target struct {
	name     string
	planned  pipelines.Application
	requests []sdk.Inputs
}

// loadAll loads several services at once, at the rates that are planned for or in
// proportion to them. Those at a rate of 0 have no report.
func (f *loadFlags) loadAll(ctx context.Context, d *Deps, client *sdk.Client, all []target) (done []*load.Report, _ error) {
	total := 0.0
	for _, a := range all {
		total += a.planned.Rate
	}
	merged := mergedProgress(len(all), loadProgress(d))
	reports := make([]*load.Report, len(all))
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	for i, a := range all {
		o := f.options
		o.Pipeline, o.Seed, o.Progress = a.name, f.options.Seed+uint64(i), merged(i)
		var err error
		if o.SLO, err = f.objective(o.Pipeline, a.planned.SLO); err != nil {
			return nil, err
		}
		if o.Rate = a.planned.Rate; f.options.Rate > 0 {
			o.Rate = f.options.Rate * Share(a.planned.Rate, total, len(all))
		}
		if o.Rate == 0 {
			continue // it gets no requests
		}
		wg.Go(func() {
			reports[i], errs[i] = load.Run(ctx, o, func(ctx context.Context, n int) (*wire.InferResponse, error) {
				result, err := client.Infer(ctx, o.Pipeline, a.requests[n%len(a.requests)])
				if err != nil {
					return nil, err
				}
				return result.Response(), nil
			})
		})
	}
	wg.Wait()
	done = slices.DeleteFunc(reports, func(r *load.Report) bool { return r == nil })
	return done, errors.Join(errs...)
}

// report prints what came of several.
func (f *loadFlags) report(d *Deps, kind, name, parts string, done []*load.Report) error {
	if f.asJSON {
		return errors.Join(writeLoads(d.Stdout, map[string]any{kind: name, parts: done}, done), f.enough(done))
	}
	for i, r := range done {
		if i > 0 {
			fmt.Fprintln(d.Stdout)
		}
		fmt.Fprint(d.Stdout, r.Describe())
	}
	return f.enough(done)
}

// mergedProgress adds up the progress of several runs and reports the sum when
// the first of them has news.
func mergedProgress(n int, tell func(load.Progress)) func(i int) func(load.Progress) {
	var mu sync.Mutex
	each := make([]load.Progress, n)
	return func(i int) func(load.Progress) {
		return func(p load.Progress) {
			mu.Lock()
			defer mu.Unlock()
			each[i] = p
			if i > 0 {
				return
			}
			p.Sent, p.Completed, p.Late, p.Failed = 0, 0, 0, 0
			for _, one := range each {
				p.Sent += one.Sent
				p.Completed += one.Completed
				p.Late += one.Late
				p.Failed += one.Failed
			}
			tell(p)
		}
	}
}

// loadRow is what came of the requests to one service. Sent is the sum of the
// outcomes.
type loadRow struct {
	Service    string            `json:"service"`
	Offered    float64           `json:"offered"` // requests per second
	Sent       int               `json:"sent"`
	Unsent     int               `json:"unsent"`    // left out, because the generator was behind its schedule
	Completed  int               `json:"completed"` // in time
	Late       int               `json:"late"`
	Dropped    int               `json:"dropped"`    // given up, since the deadline could no longer be met
	Refused    int               `json:"refused"`    // at once, by a bounded queue
	Failed     int               `json:"failed"`     // for any other reason
	Unanswered int               `json:"unanswered"` // when the generator stopped waiting
	Wrong      int               `json:"wrong"`      // answers that differ from what was to be expected, where that is known
	Attainment float64           `json:"attainment"`
	Reasons    map[string]string `json:"reasons,omitempty"` // text of the first error of each code
	LatencyMS  histogram.MS      `json:"latency_ms"`
}

func newLoadRow(r *load.Report) loadRow {
	row := loadRow{
		Service: r.Pipeline, Offered: r.Offered, Sent: r.Requests, Unsent: r.Unsent, Completed: r.Completed, Late: r.Late, Reasons: r.Reasons, Attainment: r.Attainment,
		LatencyMS: r.Latency.MS(),
	}
	for code, n := range r.Errors {
		switch wire.Code(code) {
		case wire.CodeDeadline:
			row.Dropped += n
		case wire.CodeOverloaded:
			row.Refused += n
		default:
			row.Failed += n
		}
	}
	row.Unanswered = row.Sent - row.Completed - row.Late - row.Dropped - row.Refused - row.Failed
	return row
}

// writeLoads prints the loads beside the fields of whole, which has more of them.
func writeLoads(to io.Writer, whole any, reports []*load.Report) error {
	raw, err := json.Marshal(whole)
	if err != nil {
		return err
	}
	all := map[string]any{}
	if err := json.Unmarshal(raw, &all); err != nil {
		return err
	}
	rows := make([]loadRow, len(reports))
	for i, r := range reports {
		rows[i] = newLoadRow(r)
	}
	all["loads"] = rows
	return writeJSON(to, all)
}
