package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/harpagon/harpagon/activities"
	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/executors/devices"
	"github.com/harpagon/harpagon/internal/osutil"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/sdk/local/system"
	"github.com/harpagon/harpagon/workflows/control"
)

type profileFlags struct {
	module string
	out    string
	asJSON bool
	state  stateFlag
	again  bool
	levels []int   // of concurrency; as plans may use where empty
	calls  string  // file of measured calls to fit
	whole  float64 // GB of the whole GPU that they were measured on

	function string // to be called and fitted
	each     int    // calls of every size and batch
	save     string // file for the calls
}

// profiled is the JSON of one module.
type profiled struct {
	Pipeline string            `json:"pipeline"`
	Module   string            `json:"module"`
	Points   []pipelines.Point `json:"points"`
}

// newProfileCommand makes harpagon profile.
func newProfileCommand(d *Deps) *cobra.Command {
	var f profileFlags
	c := &cobra.Command{
		Use:   "profile PATH...",
		Short: "Measure modules on a core of this machine",
		Long: `Runs every module by itself, all batch sizes in turns, and prints how long a
batch takes: the lower quartile of the runs, and how much longer one run in 20
takes (spread_ms). It says so when other programs used the processor meanwhile
(others_cores): durations may then be too long.

It measures one batch at a time, and, where the plan block may use several on one
device, 2 and 4 at a time as well; --concurrency says otherwise.

With --out it writes a CSV file for each module, to be named by profile = "..." in
the declaration. harpagon up measures by itself what has no profile, and keeps it
in its state folder; what is kept there is printed and not measured again, unless
--again is given. A system that runs on the folder then measures its pipelines
itself, in turns with what it serves, and plans with what comes out.

With --function it calls a function of the declaration at its provider, in several
sizes and batches, --calls times each, and fits the coefficients as below; its
profile need not exist yet. These calls cost money by the provider's terms: it says
how much. A provider with manage = true creates the functions for it and deletes
them after. What calls take besides the model (way_s) and cold starts take
(cold_start_s), 99 of 100 at most, goes into the profile, too, and into plans.

With --fit it runs nothing: from a file of measured calls of a model as a
serverless function (platform,size,batch,latency_ms; platform cpu with vCPUs, or
gpu with GB of its memory) it finds the coefficients that function blocks name as
their profile, by least squares, prints them or writes them to --out, and says
how far they are off the measurements.`,
		Example: `  harpagon profile examples/traffic
  harpagon profile examples/traffic --module detect --out profiles
  harpagon profile examples/traffic --again
  harpagon profile examples/functions --function vgg19 --out vgg19.json
  harpagon profile --fit calls.csv --out vgg19.json`,
		Args: func(c *cobra.Command, args []string) error {
			if f.calls != "" {
				return cobra.NoArgs(c, args)
			}
			return somePaths(c, args)
		},
	}
	x := newDeclaration(d, c)
	c.Flags().StringVar(&f.module, "module", "", "measure only the module of this `name`")
	f.state.Register(c, "state `folder` that keeps profiles, if there is one")
	c.Flags().BoolVar(&f.again, "again", false, "measure what the state folder keeps, too")
	c.Flags().IntSliceVar(&f.levels, "concurrency", nil, "how many batches at a time to measure: a list such as 1,2,4 (default what the plan block may use)")
	c.Flags().StringVar(&f.out, "out", "", "`folder` for files PIPELINE-MODULE.csv; with --fit or --function, the file to write")
	c.Flags().StringVar(&f.function, "function", "", "call the function of this `name` at its provider, and fit its model")
	c.Flags().IntVar(&f.each, "calls", 10, "with --function: calls of every size and batch")
	c.Flags().StringVar(&f.save, "save-calls", "", "with --function: a `file` for the measured calls, as --fit reads it")
	c.Flags().BoolVar(&f.asJSON, "json", false, "print JSON")
	c.Flags().StringVar(&f.calls, "fit", "", "find the coefficients of a function from a `file` of measured calls")
	c.Flags().Float64Var(&f.whole, "whole-gb", 0, "with --fit or --function: memory of the whole GPU; the largest function measured unless given")
	c.RunE = func(c *cobra.Command, paths []string) error {
		if f.calls != "" {
			return f.fit(d)
		}
		if f.function != "" {
			return f.survey(c, d, x, paths)
		}
		for _, n := range f.levels {
			if n < 1 || n > pipelines.MaxConcurrency {
				return wrongUse(c, fmt.Errorf("--concurrency %d: take numbers from 1 to %d", n, pipelines.MaxConcurrency))
			}
		}
		doc, err := x.Document(paths)
		if err != nil {
			return err
		}
		return f.run(c.Context(), d, *doc)
	}
	return c
}

func (f *profileFlags) run(ctx context.Context, d *Deps, doc pipelines.Document) error {
	engines := system.Engines(nil, nil, nil)
	found, err := devices.Local(devices.Config{Host: "local", Cores: 1})
	if err != nil {
		return err
	}
	for _, h := range doc.Hardware {
		if h.Cores > 0 { // an instance that this machine can be part of
			found = append(found, devices.Instance("local", h.Name, 0, h.Cores, h.Memory))
		}
	}
	host := &executors.Host{Name: "local", Devices: found, Engines: engines}
	kept, err := f.state.Kept(engines)
	if err != nil {
		return err
	}
	all := []profiled{}
	var failures []error // of each module, nil for none; the others are measured all the same
	services := slices.Clone(doc.Pipelines)
	for i := range doc.Pools {
		services = append(services, doc.Pools[i].Served())
	}
	for _, p := range services {
		asked, err := f.ask(ctx, d, p)
		if err != nil {
			return err
		}
		for _, m := range p.Modules {
			if f.module != "" && m.Name != f.module || executors.EngineName(m) == executors.EngineEmulated || ctx.Err() != nil {
				continue // emulated modules are their profile
			}
			one := profiled{Pipeline: p.Name, Module: m.Name}
			for _, on := range devices.Measuring(m, found) {
				task := executors.NewMeasureTask(p, m.Name, on.Hardware, on.Name, executors.Signatures(engines...))
				task.Cores = on.Cores
				if len(f.levels) > 0 {
					task.Concurrency = f.levels
				}
				points, err := f.measure(ctx, d, host, kept, asked, p.Name, task)
				one.Points = append(one.Points, points...)
				failures = append(failures, err)
			}
			if len(one.Points) > 0 {
				all = append(all, one)
			}
		}
	}
	if len(failures) == 0 {
		return fmt.Errorf("there is nothing to measure: no module with a model or a function%s", ofName(f.module))
	}
	return errors.Join(append(failures, f.write(d, all))...)
}

// ask lets the system on the state folder measure a pipeline anew that it
// serves; false where there is none, or it does not serve the pipeline.
func (f *profileFlags) ask(ctx context.Context, d *Deps, p pipelines.Pipeline) (asked bool, err error) {
	folder, ok, err := f.state.Folder()
	if !f.again || !ok || !folder.Running() {
		return false, err
	}
	err = f.state.With(ctx, func(commands *control.Control) error {
		reply, err := commands.Profile(ctx, p.Name, "profiles are measured anew: harpagon profile --again")
		if errors.Is(err, control.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		_, err = commands.WaitServing(ctx, p.Name, reply.Generation, func(s control.Status) {
			fmt.Fprintf(d.Stderr, "%s %s: %s\n", s.Kind, s.Name, s.Phase)
		})
		asked = true
		return err
	})
	return asked, err
}

// measure takes what is kept and measures the rest, or everything again that the
// system was not asked to. What it has measured before an error is kept, and returned.
func (f *profileFlags) measure(ctx context.Context, d *Deps, host *executors.Host, kept activities.Profiles, asked bool, pipeline string, task executors.MeasureTask) ([]pipelines.Point, error) {
	if engine, err := host.EngineFor(task.Module); err == nil { // else measuring says it
		task = task.Fit(engine)
	}
	var known []pipelines.Point
	if !f.again || asked {
		var err error
		if known, err = kept.Load(task); err != nil {
			return nil, err
		}
	}
	name := pipeline + "." + task.Module.Name
	missing := task.Missing(known)
	points, failed := host.Measure(ctx, task, executors.Measured{Points: known}, nil)
	for _, q := range points {
		from := ""
		switch {
		case asked:
			from = ", as the running system measured now"
		case !slices.Contains(missing, executors.SettingOf(q)):
			from = ", as kept in " + f.state.Dir
		}
		fmt.Fprintf(d.Stderr, "%s on %s: %s%s\n", name, q.Hardware, q.Describe(), from)
	}
	if warning := pipelines.Disturbed(pipelines.Module{Name: name, Profile: pipelines.Profile{Points: points}}); warning != "" {
		fmt.Fprintf(d.Stderr, "warning: %s\n", warning)
	}
	if len(missing) == 0 {
		return points, failed
	}
	return points, errors.Join(failed, kept.Save(task, points))
}

func ofName(module string) string {
	if module == "" {
		return ""
	}
	return fmt.Sprintf(" is called %q", module)
}

func (f *profileFlags) write(d *Deps, all []profiled) error {
	if f.asJSON {
		if err := writeJSON(d.Stdout, map[string]any{"profiles": all}); err != nil {
			return err
		}
	}
	if f.out != "" {
		if err := os.MkdirAll(f.out, 0o755); err != nil {
			return err
		}
	}
	for _, one := range all {
		csv := pipelines.Profile{Points: one.Points}.CSV()
		if f.out == "" {
			if !f.asJSON {
				fmt.Fprintf(d.Stdout, "# %s.%s\n%s\n", one.Pipeline, one.Module, csv)
			}
			continue
		}
		path := filepath.Join(f.out, one.Pipeline+"-"+one.Module+".csv")
		if err := osutil.ReplaceFile(path, csv, 0o644); err != nil {
			return err
		}
		fmt.Fprintf(d.Stderr, "wrote %s\n", path)
	}
	return nil
}
