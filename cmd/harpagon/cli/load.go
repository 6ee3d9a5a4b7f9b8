package cli

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/harpagon/harpagon/pipelines"
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
	asJSON   bool
}

// newLoadCommand makes harpagon load.
func newLoadCommand(d *Deps) *cobra.Command {
	var f loadFlags
	c := &cobra.Command{
		Use:   "load NAME --rate R",
		Short: "Offer a load to a running pipeline or function and read the latencies",
		Long: `Sends requests to a running pipeline at given instants, whether or not earlier
ones have been answered, and reports how many kept the objective, and where the
time went.

With --callers that many callers each send their next request when they have the
answer to the last, as fast as that goes.

Latency counts from the instant at which a request was meant to be sent. The
warm-up is sent but not counted. A request that was refused, dropped or failed
counts against the attainment, unless it was invalid: that is the caller's
mistake.

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
  harpagon load vgg19 --duration 1m
  harpagon load vision --rate 60 --input traffic/frame=examples/traffic/scenes
  harpagon load ranking --rate 500 --sizes examples/pool
  harpagon load emulated --arrivals trace:counts.txt --duration 10m
  harpagon load resnet --gateway 10.0.0.7:8000 --slo 100ms --rate 50`,
		Args: cobra.ExactArgs(1),
	}
	at := newGatewayAt(c)
	flags := c.Flags()
	flags.Float64Var(&f.options.Rate, "rate", 0, "mean requests per second; with a trace, 0 keeps its own, and for a function the planned rates")
	flags.IntVar(&f.options.Callers, "callers", 0, "send from so many callers, one request after the other from each, instead of at a rate")
	flags.StringVar(&f.arrivals, "arrivals", "poisson", "how requests come: even, poisson, gamma:SHAPE, trace:FILE (requests in each second) or replay:FILE (instants)")
	flags.DurationVar(&f.options.Duration, "duration", 20*time.Second, "how long to count")
	flags.DurationVar(&f.options.Warmup, "warmup", 2*time.Second, "how long to send before that")
	flags.Uint64Var(&f.options.Seed, "seed", 1, "of the arrivals and of random inputs")
	flags.DurationVar(&f.options.Timeout, "timeout", 0, "after which an unanswered request is given up; 0 is ten times the objective")
	flags.DurationVar(&f.slo, "slo", 0, "objective to count against, in place of the one that the server tells")
	flags.StringArrayVar(&f.inputs, "input", nil, "`name=path` of an input: a file as for infer, or a folder of them to go through; random elements otherwise")
	flags.StringVar(&f.sizes, "sizes", "", "`file` of a pool's query sizes (size,weight), or the declaration that names it")
	flags.BoolVar(&f.asJSON, "json", false, "print JSON")
	c.RunE = func(c *cobra.Command, args []string) error {
		client, err := at.Dial(c.Context())
		if err != nil {
			return err
		}
		defer client.Close()
		if d.Follow != nil { // it leaves more to what it measures on the same machine
			d.Follow(c.Context())
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
	switch {
	case f.options.Callers < 0:
		return fmt.Errorf("--callers %d: at least one, or 0 for a rate", f.options.Callers)
	case f.options.Callers > 0 && f.options.Rate != 0:
		return errors.New("--callers and --rate: say one of them")
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
	if f.options.SLO, err = f.objective(pipeline, m.SLO); err != nil {
		return err
	}
	f.options.Progress = loadProgress(d)
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
	if f.asJSON {
		return writeLoads(d.Stdout, report, []*load.Report{report})
	}
	fmt.Fprint(d.Stdout, report.Describe())
	return nil
}

// objective is what the requests are counted against; told is what the server
// says, 0 for a server that has no objectives.
func (f *loadFlags) objective(name string, told time.Duration) (time.Duration, error) {
	switch {
	case f.slo < 0:
		return 0, fmt.Errorf("--slo %v: an objective is longer than nothing", f.slo)
	case f.slo > 0:
		return f.slo, nil
	case told > 0:
		return told, nil
	}
	return 0, fmt.Errorf("the server tells no objective of %s: say one, as in --slo 300ms", name)
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
