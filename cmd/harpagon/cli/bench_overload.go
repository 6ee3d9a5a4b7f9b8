package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/harpagon/harpagon/cmd/harpagon/chart"
	"github.com/harpagon/harpagon/experiments/overload"
	"github.com/harpagon/harpagon/experiments/planning"
	"github.com/harpagon/harpagon/scheduler/dispatch/factory"
	"github.com/harpagon/harpagon/scheduler/plan"
)

type benchOverloadFlags struct {
	workloads  int
	noise      float64
	policies   []string
	asJSON     bool
	asMarkdown bool
	plot       string
}

func newBenchOverloadCommand(d *Deps) *cobra.Command {
	var f benchOverloadFlags
	c := &cobra.Command{
		Use:   "overload",
		Short: "Measure goodput as more requests come than plans were made for",
		Long: `Plans workloads of the suite, simulates each at 0.3 to 10 times its planned rate, and
prints the goodput: requests answered in time, in planned rates, as means over the
workloads. Durations vary around the profile. Each policy is played with admission
control, as it serves, and tc without it, too.`,
		Example: `  harpagon bench overload
  harpagon bench overload --policy tc,adaptive --noise 0 --plot overload.svg`,
		Args: cobra.NoArgs,
	}
	flags := c.Flags()
	flags.IntVar(&f.workloads, "workloads", overload.DefaultWorkloads, "how many workloads of the suite")
	flags.Float64Var(&f.noise, "noise", overload.DefaultNoise, "coefficient of variation of durations")
	flags.StringSliceVar(&f.policies, "policy", []string{"tc", "adaptive", "eager"}, "dispatch policies to play")
	flags.BoolVar(&f.asJSON, "json", false, "print the curves as JSON")
	flags.BoolVar(&f.asMarkdown, "markdown", false, "add a heading that says how the tables were made")
	flags.StringVar(&f.plot, "plot", "", "draw the curves to a `file` that ends in .svg or .png")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := f.check(); err != nil {
			return wrongUse(c, err)
		}
		curves, err := f.run(c.Context(), d)
		if err != nil {
			return stopped(err)
		}
		return f.write(d, curves)
	}
	return c
}

func (f *benchOverloadFlags) check() error {
	for _, p := range f.policies {
		if err := factory.Suits(p); err != nil {
			return err
		}
	}
	switch {
	case f.workloads < 1 || f.workloads > maxWorkloads:
		return fmt.Errorf("--workloads %d makes no suite; take 1 to %d", f.workloads, maxWorkloads)
	case !(f.noise >= 0 && f.noise <= 10):
		return fmt.Errorf("--noise %v is no coefficient of variation; take 0 to 10", f.noise)
	case f.asJSON && f.asMarkdown:
		return errors.New("--json and --markdown exclude each other; take one of them")
	}
	return checkPicture(f.plot)
}

func (f *benchOverloadFlags) run(ctx context.Context, d *Deps) ([]overload.Curve, error) {
	workloads, err := planning.Workloads(planning.DefaultSeed, f.workloads)
	if err != nil {
		return nil, err
	}
	var curves []overload.Curve
	for _, arrivals := range []string{"poisson", "even"} {
		for _, model := range []string{plan.CostShared, plan.CostWhole} {
			for _, p := range f.policies {
				s := overload.Setting{CostModel: model, Arrivals: arrivals, Dispatch: p, Admission: true, Noise: f.noise}
				curves = append(curves, overload.Curve{Setting: s})
				if s.Admission = false; p == factory.Default {
					curves = append(curves, overload.Curve{Setting: s})
				}
			}
		}
	}
	failed := make([]error, len(curves))
	stop := func() bool { return ctx.Err() != nil }
	err = d.work(ctx, "Goodput over load", len(curves), func(i int) {
		curves[i], failed[i] = overload.Measure(curves[i].Setting, workloads, stop)
	})
	if err != nil {
		return nil, err
	}
	return curves, errors.Join(failed...)
}

func (f *benchOverloadFlags) write(d *Deps, curves []overload.Curve) error {
	if err := f.draw(d, curves); err != nil {
		return err
	}
	if f.asJSON {
		return writeJSON(d.Stdout, map[string]any{"curves": curves})
	}
	var parts []string
	for part := range slices.Chunk(curves, f.perTable()) {
		parts = append(parts, overload.Markdown(part))
	}
	text := strings.Join(parts, "\n")
	if f.asMarkdown {
		text = fmt.Sprintf("# Goodput beyond the planned rate\n\nMade by `%s` on %s, %d cores (%s/%s).\n\n", f.command(), runtime.Version(), runtime.GOMAXPROCS(0), runtime.GOOS, runtime.GOARCH) + text
	}
	_, err := io.WriteString(d.Stdout, text)
	return err
}

// perTable is the number of curves of one title.
func (f *benchOverloadFlags) perTable() int {
	n := len(f.policies)
	if slices.Contains(f.policies, factory.Default) {
		n++
	}
	return n
}

// command is the command line that prints the same.
func (f *benchOverloadFlags) command() string {
	return fmt.Sprintf("harpagon bench overload --workloads %d --noise %g --policy %s --markdown", f.workloads, f.noise, strings.Join(f.policies, ","))
}

func (f *benchOverloadFlags) draw(d *Deps, curves []overload.Curve) error {
	if f.plot == "" {
		return nil
	}
	var row []chart.Panel
	for part := range slices.Chunk(curves, f.perTable()) {
		panel := chart.Panel{Title: part[0].Title(), XLabel: "offered load, in planned rates", YLabel: "goodput, in planned rates", LogX: true}
		for i, c := range part {
			line := chart.Line{Name: c.Name(), Colour: i}
			for _, p := range c.Points {
				line.Points = append(line.Points, chart.Point{X: p.Load, Y: p.Goodput})
			}
			panel.Lines = append(panel.Lines, line)
		}
		row = append(row, panel)
	}
	var rows [][]chart.Panel
	for pair := range slices.Chunk(row, 2) {
		rows = append(rows, pair)
	}
	return writePicture(d, f.plot, chart.Picture{
		Title:  "Goodput beyond the planned rate",
		Footer: fmt.Sprintf("Simulated; the first %d workloads of the suite, durations with a coefficient of variation of %g.", f.workloads, f.noise),
		Rows:   rows,
	})
}
