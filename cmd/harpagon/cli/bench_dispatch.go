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
	"github.com/harpagon/harpagon/experiments/dispatching"
	"github.com/harpagon/harpagon/scheduler/dispatch/shared"
	"github.com/harpagon/harpagon/scheduler/simulate"
)

// Parts of bench dispatch beside those of package settings.
const (
	partFrontends = "frontends"
	partSpeed     = "speed"
)

func dispatchParts() []string { return append(dispatching.Parts(), partFrontends, partSpeed) }

type benchDispatchFlags struct {
	policies   []string
	parts      []string
	quick      bool
	asJSON     bool
	asMarkdown bool
	plot       string
}

func newBenchDispatchCommand(d *Deps) *cobra.Command {
	var f benchDispatchFlags
	c := &cobra.Command{
		Use:   "dispatch",
		Short: "Measure the goodput of every pool policy in the settings of Symphony's evaluation",
		Long: `Simulates shared pools of devices, finds the highest rate at which each policy has
99 % of the requests in time, and prints a table for each part:

  table4     two networks on 8 devices, with the bound of devices that take turns,
             with network delays, and the physical limit: what no dispatcher can
             exceed, though it knew all arrivals
  networks   each network of the paper's tables 5 and 6, alone on 8 devices
  mixed      all of them together, equally popular or by Zipf's law
  bursts     from Poisson arrivals to gamma gaps of shape 0.05
  devices    1 to 1,000 devices
  models     1 to 256 models on the same devices
  frontends  how uneven independent frontends make the load of a device (table 2)
  speed      requests per second that one core decides, by models and devices

Every table says how adaptive, the default, stands to deferred, Symphony's own
policy, also at three times the goodput. The same requests are drawn everywhere,
so goodputs can be repeated to the digit; speed is this machine's. It takes ten
minutes or so; --quick takes a small part of that and is less exact.`,
		Example: `  harpagon bench dispatch
  harpagon bench dispatch --part table4,bursts --policy adaptive,deferred
  harpagon bench dispatch --quick
  harpagon bench dispatch --markdown --plot curves.svg > tables.md`,
		Args: cobra.NoArgs,
	}
	flags := c.Flags()
	flags.StringSliceVar(&f.policies, "policy", shared.Names(), "only these policies")
	flags.StringSliceVar(&f.parts, "part", dispatchParts(), "what to measure")
	flags.BoolVar(&f.quick, "quick", false, "short runs and every eighth setting of a part")
	flags.BoolVar(&f.asJSON, "json", false, "print the tables as JSON")
	flags.BoolVar(&f.asMarkdown, "markdown", false, "print the tables as Markdown")
	flags.StringVar(&f.plot, "plot", "", "draw bursts, devices and models to a `file` that ends in .svg or .png")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := f.check(); err != nil {
			return wrongUse(c, err)
		}
		result, err := f.run(c.Context(), d)
		if err != nil {
			return stopped(err)
		}
		return f.write(d, result)
	}
	return c
}

func (f *benchDispatchFlags) check() error {
	for _, p := range f.parts {
		if !slices.Contains(dispatchParts(), p) {
			return fmt.Errorf("there is no part %q; there is %s", p, strings.Join(dispatchParts(), ", "))
		}
	}
	for _, p := range f.policies {
		if !slices.Contains(shared.Names(), p) {
			return fmt.Errorf("there is no pool policy %q; there is %s", p, strings.Join(shared.Names(), ", "))
		}
	}
	if f.asJSON && f.asMarkdown {
		return errors.New("--json and --markdown exclude each other; take one of them")
	}
	if f.plot != "" && !slices.ContainsFunc(f.parts, drawnPart) {
		return fmt.Errorf("--plot draws the parts %s, %s and %s; add one of them", dispatching.PartBursts, dispatching.PartDevices, dispatching.PartModels)
	}
	return checkPicture(f.plot)
}

// dispatchResult is the JSON of the command.
type dispatchResult struct {
	Tables    []dispatching.Table  `json:"tables,omitempty"`
	Frontends []dispatching.Uneven `json:"frontends,omitempty"`
	Speed     dispatching.Paces    `json:"speed,omitempty"`

	measured map[string][]dispatching.Setting // by part, as the rows of its table
}

func (f *benchDispatchFlags) effort() dispatching.Effort {
	if f.quick {
		return dispatching.Quick()
	}
	return dispatching.Full()
}

func (f *benchDispatchFlags) run(ctx context.Context, d *Deps) (*dispatchResult, error) {
	r := &dispatchResult{measured: map[string][]dispatching.Setting{}}
	for _, part := range dispatchParts() {
		if !slices.Contains(f.parts, part) {
			continue
		}
		var err error
		switch part {
		case partFrontends:
			r.Frontends = dispatching.Frontends(1)
		case partSpeed:
			err = f.runSpeed(ctx, d, r)
		default:
			err = f.runPart(ctx, d, part, r)
		}
		if err != nil {
			return nil, err
		}
	}
	return r, nil
}

// runPart measures the settings of a part, each policy a piece of work.
func (f *benchDispatchFlags) runPart(ctx context.Context, d *Deps, part string, r *dispatchResult) error {
	list := dispatching.Of(part)
	if f.quick {
		list = every(list, 8)
	}
	table := dispatching.Table{Part: part, Title: dispatching.Title(part), Policies: f.policies, Rows: make([]dispatching.Row, len(list))}
	for i := range list {
		table.Rows[i] = list[i].Row(len(f.policies))
	}
	n := len(f.policies)
	failed := make([]error, len(list)*n)
	stop := func() bool { return ctx.Err() != nil }
	err := d.work(ctx, table.Title, len(list)*n, func(i int) {
		table.Rows[i/n].Policies[i%n], failed[i] = list[i/n].Measure(f.policies[i%n], f.effort(), stop)
	})
	if err == nil && part == dispatching.PartTable4 {
		limits := make([]error, len(list))
		err = d.work(ctx, "The physical limit", len(list), func(i int) { limits[i] = list[i].Limit(&table.Rows[i], f.effort()) })
		failed = append(failed, limits...)
	}
	for _, one := range failed {
		if err == nil && one != nil && !errors.Is(one, simulate.ErrStopped) {
			err = one
		}
	}
	r.Tables, r.measured[part] = append(r.Tables, table), list
	return err
}

// every takes each n-th of a list, from the first.
func every[T any](list []T, n int) []T {
	var some []T
	for i := 0; i < len(list); i += n {
		some = append(some, list[i])
	}
	return some
}

// Requests of a run that measures speed: enough for a steady state.
const (
	speedRequests      = 1_000_000
	speedRequestsQuick = 20_000
)

func (f *benchDispatchFlags) runSpeed(ctx context.Context, d *Deps, r *dispatchResult) error {
	requests, models, devices := float64(speedRequests), dispatching.PaceModels(), dispatching.PaceDevices()
	if f.quick {
		requests, models = speedRequestsQuick, every(models, 3)
	}
	for _, policy := range []string{"adaptive", "deferred"} {
		if !slices.Contains(f.policies, policy) {
			continue
		}
		for _, m := range models {
			for _, n := range devices {
				r.Speed = append(r.Speed, dispatching.Pace{Policy: policy, Models: m, Devices: n})
			}
		}
	}
	failed := make([]error, len(r.Speed))
	err := d.work(ctx, "Requests per second of one core", len(r.Speed), func(i int) {
		p := &r.Speed[i]
		*p, failed[i] = dispatching.Speed(p.Policy, p.Models, p.Devices, requests, d.benchClock())
	})
	return errors.Join(append(failed, err)...)
}

func (f *benchDispatchFlags) write(d *Deps, r *dispatchResult) error {
	if err := f.draw(d, r); err != nil {
		return err
	}
	if f.asJSON {
		return writeJSON(d.Stdout, r)
	}
	var parts []string
	for i := range r.Tables {
		if f.asMarkdown {
			parts = append(parts, r.Tables[i].Markdown())
		} else {
			parts = append(parts, r.Tables[i].Describe())
		}
	}
	if len(r.Frontends) > 0 {
		parts = append(parts, "### What independent frontends do to the load of a device (Symphony, table 2)\n\n"+dispatching.DescribeFrontends(r.Frontends))
	}
	if len(r.Speed) > 0 {
		parts = append(parts, r.Speed.Markdown())
	}
	text := strings.Join(parts, "\n")
	if f.asMarkdown {
		text = fmt.Sprintf("# The policies of a shared pool\n\nMade by `%s` on %s, %d cores (%s/%s).\n\n", f.command(), runtime.Version(), runtime.GOMAXPROCS(0), runtime.GOOS, runtime.GOARCH) + text
	}
	_, err := io.WriteString(d.Stdout, text)
	return err
}

// command is the command line that prints the same.
func (f *benchDispatchFlags) command() string {
	line := "harpagon bench dispatch"
	if !slices.Equal(f.parts, dispatchParts()) {
		line += " --part " + strings.Join(f.parts, ",")
	}
	if !slices.Equal(f.policies, shared.Names()) {
		line += " --policy " + strings.Join(f.policies, ",")
	}
	if f.quick {
		line += " --quick"
	}
	return line + " --markdown"
}

func drawnPart(part string) bool {
	return part == dispatching.PartBursts || part == dispatching.PartDevices || part == dispatching.PartModels
}

// draw writes the pictures: a panel for each group of settings, goodput as a
// share of that of deferred.
func (f *benchDispatchFlags) draw(d *Deps, r *dispatchResult) error {
	if f.plot == "" {
		return nil
	}
	var panels []chart.Panel
	for i := range r.Tables {
		if drawnPart(r.Tables[i].Part) {
			panels = append(panels, f.panels(&r.Tables[i], r.measured[r.Tables[i].Part])...)
		}
	}
	const across = 4
	var rows [][]chart.Panel
	for len(panels) >= across {
		rows, panels = append(rows, panels[:across]), panels[across:]
	}
	if len(panels) > 0 && len(rows) == 0 {
		rows = append(rows, panels)
	}
	return writePicture(d, f.plot, chart.Picture{
		Title:  "Goodput over that of deferred, Symphony's policy",
		Footer: "Simulated pools; 99 % of the requests in time. Above 1: more requests from the same devices.",
		Rows:   rows,
	})
}

// panels are one for each group of the part.
func (f *benchDispatchFlags) panels(t *dispatching.Table, list []dispatching.Setting) []chart.Panel {
	label := map[string]string{dispatching.PartBursts: "shape of gamma gaps", dispatching.PartDevices: "devices", dispatching.PartModels: "models"}[t.Part]
	var panels []chart.Panel
	for i := range list {
		if n := len(panels); n == 0 || panels[n-1].Title != list[i].Group {
			p := chart.Panel{Title: list[i].Group, XLabel: label, YLabel: "goodput over deferred's", LogX: true}
			for k, policy := range f.policies {
				p.Lines = append(p.Lines, chart.Line{Name: policy, Colour: k})
			}
			panels = append(panels, p)
		}
		lines := panels[len(panels)-1].Lines
		for k, policy := range f.policies {
			over := t.Rows[i].Over(policy, "deferred")
			lines[k].Points = append(lines[k].Points, chart.Point{X: list[i].X, Y: over, Gap: over == 0})
		}
	}
	return panels
}
