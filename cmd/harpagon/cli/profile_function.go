package cli

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/harpagon/harpagon/executors/serverless"
	"github.com/harpagon/harpagon/internal/osutil"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/quantity"
	"github.com/harpagon/harpagon/scheduler/functions"
)

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
	if about.GPU == nil { // else the profile that there was says it
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
			return p, fmt.Errorf("provider %q has no url, so function %q cannot be called; say where with url = \"...\"", p.Provider.Name, function.Name)
		}
		return p, nil
	}
	return functions.Problem{}, fmt.Errorf("no function is called %q", f.function)
}

// told says what was measured besides the model.
func (f *profileFlags) told(d *Deps, got serverless.SurveyResult) pipelines.CallTimes {
	var calls pipelines.CallTimes
	fmt.Fprintf(d.Stderr, "the calls cost %s by the declared terms\n", quantity.Money(got.Cost))
	if got.Estimated {
		fmt.Fprintln(d.Stderr, "warning: the provider does not say how long functions run (header Server-Timing): the way there is counted as theirs")
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
