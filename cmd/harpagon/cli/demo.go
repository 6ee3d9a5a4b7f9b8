package cli

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/harpagon/harpagon/examples/traffic"
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

func newDemoCommand(d *Deps) *cobra.Command {
	var f demoFlags
	c := &cobra.Command{
		Use:   "demo",
		Short: "Run the traffic example from declaration to report",
		Long: `Starts Temporal with its UI, measures the modules of the traffic example on this
machine, plans, starts executors and serves; sends the example's pictures through
the SDK at the declared rate; prints what was found in a few of them, how many
requests kept the objective, where their time went, and what it costs. Then it
stops, or stays up with --keep.`,
		Example: `  harpagon demo
  harpagon demo --keep
  harpagon demo --rate 20 --duration 1m`,
		Args: cobra.NoArgs,
	}
	flags := c.Flags()
	flags.StringVar(&f.options.StateDir, "state", filepath.Join(os.TempDir(), "harpagon-demo"), "state `folder`; a second run finds its profiles there")
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
		return errNoServer
	}
	frames, err := traffic.Frames()
	if err != nil {
		return err
	}
	if err := f.unpack(); err != nil {
		return err
	}
	begin := time.Now()
	f.options.Environ = d.Environ
	f.options.Progress = func(line string) { fmt.Fprintf(d.Stderr, "%6.1fs %s\n", time.Since(begin).Seconds(), line) }
	s, err := d.Start(ctx, f.options)
	if err != nil {
		return err
	}
	defer func() {
		fmt.Fprintln(d.Stderr, "stopping")
		if closed := s.Close(); err == nil {
			err = closed
		}
	}()
	status := s.Statuses[0]
	fmt.Fprintf(d.Stdout, "\n%s\n", status.Plan.Describe())
	if err := f.show(ctx, d, s.Client(), frames); err != nil {
		return err
	}
	report, err := f.offer(ctx, d, s.Client(), frames, status.Plan.SLO, status.Rate)
	if err != nil {
		return err
	}
	fmt.Fprintf(d.Stdout, "\n%s\n", report.Describe())
	fmt.Fprintf(d.Stdout, "cost         %.4f per hour\n", status.Cost)
	fmt.Fprintf(d.Stdout, "Temporal UI  %s\nendpoint     %s/v2/models/%s\n", s.UIURL, s.GatewayURL, status.Pipeline)
	if f.keep {
		fmt.Fprintf(d.Stdout, "\nIt stays up until you press Ctrl-C. In another terminal:\n  harpagon status --state %s\n  harpagon load traffic --state %s --rate 20 --input frame=%s\n",
			f.options.StateDir, f.options.StateDir, filepath.Join(f.options.StateDir, "example", "scenes"))
		<-ctx.Done()
	}
	return nil
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

// show asks for a few pictures one by one.
func (f *demoFlags) show(ctx context.Context, d *Deps, client *sdk.Client, frames []traffic.Frame) error {
	shownFrames := 0
	for _, frame := range frames {
		if len(frame.Truth) == 0 || shownFrames == demoPictures {
			continue
		}
		shownFrames++
		result, err := client.Infer(ctx, "traffic", sdk.Inputs{"frame": frame.Pixels})
		if err != nil {
			return err
		}
		outputs := map[string]wire.Tensor{}
		for _, o := range result.Response().Outputs {
			outputs[o.Name] = o.Tensor
		}
		fmt.Fprintf(d.Stdout, "%s  %.1f ms\n  found  %s\n  drawn  %s\n", frame.Name, milliseconds(result.Elapsed()), traffic.Describe(outputs), frame.Drawn())
	}
	return nil
}

func (f *demoFlags) offer(ctx context.Context, d *Deps, client *sdk.Client, frames []traffic.Frame, slo time.Duration, rate float64) (*load.Report, error) {
	fmt.Fprintf(d.Stderr, "\nsending %d pictures over and over at %.4g/s for %v\n", len(frames), rate, f.duration)
	return load.Run(ctx, load.Options{
		Pipeline: "traffic", SLO: slo, Rate: rate, Arrivals: load.Arrivals{Kind: "poisson"},
		Duration: f.duration, Warmup: 2 * time.Second, Seed: f.seed, Progress: loadProgress(d),
	}, func(ctx context.Context, n int) (*wire.InferResponse, error) {
		result, err := client.Infer(ctx, "traffic", sdk.Inputs{"frame": frames[n%len(frames)].Pixels})
		if err != nil {
			return nil, err
		}
		return result.Response(), nil
	})
}
