package cli

import (
	"fmt"
	"os"

	hclv2 "github.com/hashicorp/hcl/v2"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/arrivals"
	"github.com/harpagon/harpagon/pipelines/files"
	"github.com/harpagon/harpagon/pipelines/hcl"
	"github.com/harpagon/harpagon/scheduler/simulate"
)

// readArrivals reads what --arrivals says, and the file that it names. Findings
// in the file are shown at their places.
func readArrivals(d *Deps, text string) (arrivals.Process, error) {
	a, name, err := arrivals.Parse(text)
	if err != nil {
		return a, fmt.Errorf("--arrivals: %w", err)
	}
	if name == "" {
		return a, nil
	}
	src, err := os.ReadFile(name)
	if err != nil {
		return a, fmt.Errorf("--arrivals %s: %w", text, err)
	}
	var diags hclv2.Diagnostics
	if a.Kind == arrivals.Replay {
		a.Stamps, diags = files.ReadStamps(name, src)
	} else {
		var trace pipelines.Trace
		trace, diags = files.ReadTrace(name, src)
		a.Trace = &trace
	}
	return a, reportFile(d, name, src, diags)
}

// readTimes reads a time that may be random, as the flag of that name was given; its file
// of percentiles included.
func readTimes(d *Deps, flag, text string) (simulate.Times, error) {
	t, name, err := simulate.ParseTimes(text)
	if err != nil {
		return t, fmt.Errorf("--%s %s: %w", flag, text, err)
	}
	if name == "" {
		return t, nil
	}
	src, err := os.ReadFile(name)
	if err != nil {
		return t, fmt.Errorf("--%s %s: %w", flag, text, err)
	}
	percents, times, diags := files.ReadPercentiles(name, src)
	for i := range percents {
		t.Measured = append(t.Measured, simulate.Percentile{Percent: percents[i], Time: times[i]})
	}
	return t, reportFile(d, name, src, diags)
}

// reportFile writes what is wrong with a file that a flag names, with its lines.
func reportFile(d *Deps, name string, src []byte, diags hclv2.Diagnostics) error {
	if !diags.HasErrors() {
		return nil
	}
	config := &hcl.Config{Files: map[string]*hclv2.File{name: {Bytes: src}}}
	if err := hcl.WriteDiagnostics(d.Stderr, config, diags, d.Colours()); err != nil {
		return err
	}
	return ErrReported
}
