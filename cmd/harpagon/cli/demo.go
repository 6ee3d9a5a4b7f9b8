package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/harpagon/harpagon/examples/traffic"
	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/arrivals"
	"github.com/harpagon/harpagon/pipelines/quantity"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/sdk"
	"github.com/harpagon/harpagon/sdk/load"
	"github.com/harpagon/harpagon/sdk/local/system"
	"github.com/harpagon/harpagon/wire"
)

// demoPictures is how many answers the demonstration shows.
const demoPictures = 4

type demoFlags struct {
	options  system.Options
	duration time.Duration
	rate     float64
	seed     uint64
	keep     bool
}

// newDemoCommand makes harpagon demo.
func newDemoCommand(d *Deps) *cobra.Command {
	var f demoFlags
	c := &cobra.Command{
		Use:   "demo",
		Short: "Run the traffic example from declaration to report",
		Long: `Starts Temporal with its UI, measures the modules of the traffic example on this
machine, plans, starts executors and serves; sends the example's pictures through
the SDK at the declared rate; prints what was found in a few of them, how many
requests kept the objective, where their time went, and what it costs. Then it
stops and removes its state folder, or stays up with --keep.

It exits with 1 when answers are wrong, when requests are lost or fail for other
reasons than time, or when fewer were in time than the objective asks for by more
than chance, and what others used of the machine, can explain.`,
		Example: `  harpagon demo
  harpagon demo --keep
  harpagon demo --rate 20 --duration 1m`,
		Args: cobra.NoArgs,
	}
	flags := c.Flags()
	flags.StringVar(&f.options.StateDir, "state", "", "state `folder` to use and to leave; a fresh temporary one when empty")
	flags.StringVar(&f.options.HTTPAddr, "http", "", "`address` for requests; a free port of 127.0.0.1 when empty")
	flags.StringVar(&f.options.UIAddr, "ui", "", "`address` for Temporal's UI; a free port of 127.0.0.1 when empty")
	flags.DurationVar(&f.duration, "duration", 20*time.Second, "how long to send")
	flags.Float64Var(&f.rate, "rate", 0, "frames per second to declare and to send; 0 leaves what is declared")
	flags.Uint64Var(&f.seed, "seed", 1, "of the arrivals")
	flags.BoolVar(&f.keep, "keep", false, "stay up until interrupted")
	c.RunE = func(c *cobra.Command, _ []string) error { return f.run(c.Context(), d) }
	return c
}

func (f *demoFlags) run(ctx context.Context, d *Deps) (err error) {
	if d.Start == nil {
		return ErrNoServer
	}
	d.Settle(ctx)
	frames, err := traffic.Frames()
	if err != nil {
		return err
	}
	remove, err := f.folder()
	if err != nil {
		return err
	}
	defer remove()
	if err := f.unpack(); err != nil {
		return err
	}
	f.options.Environ = d.Environ
	s, err := start(ctx, d, f.options)
	if err != nil {
		return err
	}
	defer stopSystem(d, s, &err)
	status := s.Services[0]
	fmt.Fprintf(d.Stdout, "\n%s\n", status.Plan.Describe())
	run := newDemoRun(status.Plan.Pipeline.SLO, f.duration)
	f.show(ctx, d, s.Client(), frames, run)
	before, _ := executors.ReadProcessors() // where it is not known, the verdict does without
	report, err := f.offer(ctx, d, s.Client(), frames, status.Rate, run)
	if err != nil {
		return err
	}
	after, _ := executors.ReadProcessors()
	fmt.Fprintf(d.Stdout, "\n%s\n", report.Describe())
	fmt.Fprintf(d.Stdout, "cost         %.4f per hour\n", status.Cost)
	fmt.Fprintf(d.Stdout, "Temporal UI  %s\nendpoint     %s/v2/models/%s\n", s.UIURL, s.GatewayURL, status.Name)
	if ctx.Err() != nil {
		return errors.New("stopped before the end, so there is no verdict")
	}
	text, failed := verdict(run.findings(report, promised(status.Plan.Pipeline), after.Since(before)))
	fmt.Fprintf(d.Stdout, "\n%s", text)
	if run.first != nil {
		fmt.Fprintf(d.Stdout, "        first error: %v\n", run.first)
	}
	if f.keep {
		fmt.Fprintf(d.Stdout, "\nIt stays up until you press Ctrl-C. In another terminal:\n  harpagon status --state %s\n  harpagon load traffic --state %s --rate 20 \\\n    --input frame=%s\n",
			f.options.StateDir, f.options.StateDir, filepath.Join(f.options.StateDir, "example", "scenes"))
		<-ctx.Done()
	}
	if failed {
		return ErrReported
	}
	return nil
}

// promised is the attainment that the demonstration holds its run to: what the
// plan expects, where that is less than what is asked for.
func promised(p *plan.Plan) float64 {
	if p.Expected == nil {
		return demoTarget
	}
	return min(demoTarget, p.Expected.Low)
}

// folder makes a fresh state folder where none is named. remove takes it away
// again, unless it was asked to be kept.
func (f *demoFlags) folder() (remove func(), err error) {
	if f.options.StateDir != "" {
		return func() {}, nil
	}
	f.options.StateDir, err = os.MkdirTemp("", "harpagon-demo-")
	if err != nil {
		return nil, fmt.Errorf("no folder for the state: %w; name one with --state", err)
	}
	return func() {
		if !f.keep {
			_ = os.RemoveAll(f.options.StateDir) // what is left of a temporary folder harms nobody
		}
	}, nil
}

// unpack writes the example beside the state, so that the command works from
// any folder.
func (f *demoFlags) unpack() error {
	folder := filepath.Join(f.options.StateDir, "example")
	err := fs.WalkDir(traffic.Files(), ".", func(path string, entry fs.DirEntry, err error) error {
		to := filepath.Join(folder, filepath.FromSlash(path))
		if err != nil || entry.IsDir() {
			return firstError(err, os.MkdirAll(to, 0o755))
		}
		raw, err := fs.ReadFile(traffic.Files(), path)
		if err != nil {
			return err
		}
		return os.WriteFile(to, raw, 0o644)
	})
	f.options.Files = []string{folder}
	if f.rate > 0 {
		f.options.Vars = map[string]string{"rate": fmt.Sprint(f.rate)}
	}
	return err
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// show asks for a few pictures one by one. One that is not answered is told, and
// the next one tried: a busy machine may miss one objective.
func (f *demoFlags) show(ctx context.Context, d *Deps, client *sdk.Client, frames []traffic.Frame, run *demoRun) {
	shownFrames := 0
	for _, frame := range frames {
		if len(frame.Truth) == 0 || shownFrames == demoPictures || ctx.Err() != nil {
			continue
		}
		shownFrames++
		result, err := client.Infer(ctx, "traffic", sdk.Inputs{"frame": frame.Pixels})
		if err != nil {
			run.add(frame, -1, 0, nil, err)
			fmt.Fprintf(d.Stdout, "%s  not answered: %v\n", frame.Name, err)
			continue
		}
		outputs := outputsOf(result.Response())
		run.add(frame, -1, result.Elapsed(), outputs, nil)
		fmt.Fprintf(d.Stdout, "%s  %.1f ms\n  found  %s\n  drawn  %s\n", frame.Name, quantity.Millis(result.Elapsed()),
			wrapped(traffic.Describe(outputs), lineWidth-9, "         "), wrapped(frame.Drawn(), lineWidth-9, "         "))
	}
}

func outputsOf(response *wire.InferResponse) map[string]wire.Tensor {
	outputs := map[string]wire.Tensor{}
	for _, o := range response.Outputs {
		outputs[o.Name] = o.Tensor
	}
	return outputs
}

// demoWarmup is sent before what is counted.
const demoWarmup = 2 * time.Second

func (f *demoFlags) offer(ctx context.Context, d *Deps, client *sdk.Client, frames []traffic.Frame, rate float64, run *demoRun) (*load.Report, error) {
	fmt.Fprintf(d.Stderr, "\nsending %d pictures over and over at %.4g/s for %v\n", len(frames), rate, f.duration)
	begin := time.Now().Add(demoWarmup)
	return load.Run(ctx, load.Options{
		Pipeline: "traffic", SLO: run.slo, Rate: rate, Arrivals: arrivals.Process{Kind: pipelines.ArrivalsPoisson},
		Duration: f.duration, Warmup: demoWarmup, Seed: f.seed, Progress: loadProgress(d),
	}, func(ctx context.Context, n int) (*wire.InferResponse, error) {
		frame, sent := frames[n%len(frames)], time.Now()
		result, err := client.Infer(ctx, "traffic", sdk.Inputs{"frame": frame.Pixels})
		if err != nil {
			run.add(frame, sent.Sub(begin), 0, nil, err)
			return nil, err
		}
		run.add(frame, sent.Sub(begin), time.Since(sent), outputsOf(result.Response()), nil)
		return result.Response(), nil
	})
}
