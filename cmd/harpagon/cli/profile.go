package cli

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/harpagon/harpagon/activities"
	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/executors/devices"
	"github.com/harpagon/harpagon/executors/serverless"
	"github.com/harpagon/harpagon/internal/osutil"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/quantity"
	"github.com/harpagon/harpagon/scheduler/functions"
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
takes (spread_ms). It reports when other programs used the processor meanwhile
(others_cores): durations may then be too long.

It measures one batch at a time. Where the plan block has concurrency = true, it also
measures 2 and 4 batches at a time on one device. --concurrency chooses other numbers.

With --out it writes a CSV file for each module, to be named by profile = "..." in
the declaration. Results are kept in the state folder, where plan, simulate and up
find them. What is kept there is printed and not measured again, unless --again is
given. harpagon up measures modules without a profile by itself. If a system runs on
the state folder, that system measures, in turns with what it serves, and plans with
the result.

With --function it calls a function of the declaration at its provider, in several
sizes and batches, --calls times each, and fits the coefficients as below; its
profile need not exist yet. These calls cost money: the price by the provider's terms
is printed. A provider with manage = true creates the functions for it and deletes
them afterwards. The profile also gets the 99th percentile of what calls take besides
the model (way_s) and of cold starts (cold_start_s).

With --fit it runs nothing. It reads a file of measured calls of a serverless function
(platform,size,batch,latency_ms; platform cpu with vCPUs, or gpu with GB of memory),
fits the coefficients that a function block names as its profile by least squares,
prints them or writes them to --out, and reports how far they are off.`,
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
	f.state.Register(c, "state `folder` that keeps profiles; made where there is none")
	c.Flags().BoolVar(&f.again, "again", false, "measure again what the state folder already has")
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
	engines := system.Engines(system.EngineOptions{})
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
	kept := f.state.Kept(engines)
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

// ask has the system on the state folder measure a pipeline again that it serves; false
// where there is none, or it does not serve the pipeline.
func (f *profileFlags) ask(ctx context.Context, d *Deps, p pipelines.Pipeline) (asked bool, err error) {
	if !f.again || !system.Folder(f.state.Dir).Running() {
		return false, nil
	}
	err = f.state.With(ctx, func(commands *control.Control) error {
		reply, err := commands.Profile(ctx, p.Name, "profiles are measured again: harpagon profile --again")
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

// measure takes what is kept and measures the rest, or with --again everything that the
// system has not measured again. What it has measured before an error is kept, and
// returned.
func (f *profileFlags) measure(ctx context.Context, d *Deps, host *executors.Host, kept activities.Profiles, asked bool, pipeline string, task executors.MeasureTask) ([]pipelines.Point, error) {
	if engine, err := host.EngineFor(task.Module); err == nil { // else measuring returns the error
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
	if err := f.state.Keep(); err != nil {
		return points, errors.Join(failed, err)
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

// callColumns are those that a file of measured calls has, in any order.
var callColumns = []string{"platform", "size", "batch", "latency_ms"}

// fit finds the coefficients of a function from measured calls.
func (f *profileFlags) fit(d *Deps) error {
	file, err := os.Open(f.calls)
	if err != nil {
		return fmt.Errorf("the measured calls cannot be read: %w", err)
	}
	defer file.Close()
	samples, err := readCalls(f.calls, file)
	if err != nil {
		return err
	}
	return f.fitted(d, samples, pipelines.FunctionProfile{})
}

// fitted fits a model to calls and writes it; about is what is known besides.
func (f *profileFlags) fitted(d *Deps, samples []functions.Sample, about pipelines.FunctionProfile) error {
	profile, report, err := functions.Fit(samples, f.whole)
	if err != nil {
		return err
	}
	profile.Memory, profile.Calls = about.Memory, about.Calls
	if profile.GPU != nil && about.GPU != nil {
		profile.GPU.Thresholds, profile.GPU.MaxBatch = about.GPU.Thresholds, about.GPU.MaxBatch
	}
	text, err := profile.JSON()
	if err != nil {
		return err
	}
	if _, err := io.WriteString(d.Stderr, report.Describe()); err != nil {
		return err
	}
	if f.out == "" {
		_, err = d.Stdout.Write(text)
		return err
	}
	if err := osutil.ReplaceFile(f.out, text, 0o644); err != nil {
		return err
	}
	fmt.Fprintf(d.Stderr, "wrote %s\n", f.out)
	return nil
}

// readCalls reads one measured call a line.
func readCalls(name string, r io.Reader) ([]functions.Sample, error) {
	rows := csv.NewReader(r)
	rows.Comment = '#'
	rows.TrimLeadingSpace = true
	header, err := rows.Read()
	if err != nil {
		return nil, fmt.Errorf("%s: %w; a file of measured calls begins with the columns %s", name, err, strings.Join(callColumns, ","))
	}
	at := map[string]int{}
	for _, column := range callColumns {
		i := slices.IndexFunc(header, func(s string) bool { return strings.EqualFold(strings.TrimSpace(s), column) })
		if i < 0 {
			return nil, fmt.Errorf("%s:1: column %s is missing; a file of measured calls has the columns %s", name, column, strings.Join(callColumns, ","))
		}
		at[column] = i
	}
	var all []functions.Sample
	for {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		number := func(column string) float64 {
			x, bad := strconv.ParseFloat(strings.TrimSpace(row[at[column]]), 64)
			if bad != nil && err == nil {
				line, place := rows.FieldPos(at[column])
				err = fmt.Errorf("%s:%d:%d: %q in column %s is not a number", name, line, place, row[at[column]], column)
			}
			return x
		}
		s := functions.Sample{
			Platform: functions.Platform(strings.ToLower(strings.TrimSpace(row[at["platform"]]))),
			Size:     number("size"), Batch: int(number("batch")), Seconds: number("latency_ms") / 1e3,
		}
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
}

// survey calls a function of the declaration and fits its model.
func (f *profileFlags) survey(c *cobra.Command, d *Deps, x *Declaration, paths []string) error {
	if f.each < 1 {
		return wrongUse(c, fmt.Errorf("--calls %d: take 1 or more", f.each))
	}
	doc, err := x.Document(paths, "Missing profile") // it is about to be written
	if err != nil {
		return err
	}
	problem, err := f.problem(doc)
	if err != nil {
		return err
	}
	o := serverless.SurveyOptions{Calls: f.each, Report: func(line string) { fmt.Fprintln(d.Stderr, line) }}
	if problem.Provider.Manage {
		if o.Provisioner, err = serverless.NewHook(&problem.Provider, serverless.HookOptions{}); err != nil {
			return err
		}
	}
	i := serverless.NewInvoker(serverless.InvokerOptions{})
	defer i.Close()
	got, err := serverless.Survey(c.Context(), i, problem, o)
	if kept := f.saveCalls(d, got.Samples); err == nil {
		err = kept
	}
	if err != nil {
		return err
	}
	about := problem.Function.Profile
	about.Calls = f.told(d, got)
	if about.GPU == nil { // else the earlier profile has it
		thresholds, most := got.Holds()
		about.GPU = &pipelines.GPULine{Thresholds: thresholds, MaxBatch: most}
	}
	return f.fitted(d, got.Samples, about)
}

func (f *profileFlags) problem(doc *pipelines.Document) (functions.Problem, error) {
	for _, function := range doc.Functions {
		if function.Name != f.function {
			continue
		}
		p := functions.Problem{Function: function, Provider: *doc.Provider(function.Provider)}
		if p.Provider.URL == "" {
			return p, fmt.Errorf("provider %q has no url, so function %q cannot be called; give its address with url = \"...\"", p.Provider.Name, function.Name)
		}
		return p, nil
	}
	return functions.Problem{}, fmt.Errorf("no function is called %q", f.function)
}

// told prints and returns what was measured besides the model.
func (f *profileFlags) told(d *Deps, got serverless.SurveyResult) pipelines.CallTimes {
	var calls pipelines.CallTimes
	fmt.Fprintf(d.Stderr, "the calls cost %s by the declared terms\n", quantity.Money(got.Cost))
	if got.Estimated {
		fmt.Fprintln(d.Stderr, "warning: the provider does not report how long functions run (header Server-Timing): the time on the way is counted as theirs")
	}
	for _, of := range []struct {
		what  string
		times []time.Duration
		to    *float64
	}{{"the way to the provider and back", got.Way, &calls.Way}, {"a cold start", got.Starts, &calls.ColdStart}} {
		if len(of.times) == 0 {
			continue
		}
		slices.Sort(of.times)
		most := of.times[int(math.Ceil(0.99*float64(len(of.times))))-1]
		*of.to = most.Seconds()
		fmt.Fprintf(d.Stderr, "%s takes %s (median of %d), %s for 99 of 100\n", of.what, quantity.Duration(of.times[len(of.times)/2]), len(of.times), quantity.Duration(most))
	}
	return calls
}

// saveCalls writes measured calls as readCalls reads them.
func (f *profileFlags) saveCalls(d *Deps, samples []functions.Sample) error {
	if f.save == "" {
		return nil
	}
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	rows := [][]string{callColumns}
	for _, s := range samples {
		rows = append(rows, []string{string(s.Platform), strconv.FormatFloat(s.Size, 'g', -1, 64), strconv.Itoa(s.Batch), strconv.FormatFloat(1e3*s.Seconds, 'g', -1, 64)})
	}
	if err := w.WriteAll(rows); err != nil {
		return err
	}
	if err := osutil.ReplaceFile(f.save, b.Bytes(), 0o644); err != nil {
		return err
	}
	fmt.Fprintf(d.Stderr, "wrote %s\n", f.save)
	return nil
}
