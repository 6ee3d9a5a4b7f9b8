package command

import (
	"fmt"
	"os"

	"github.com/hashicorp/hcl/v2"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/arrivals"
	"github.com/harpagon/harpagon/pipelines/files"
	"github.com/harpagon/harpagon/pipelines/language"
)

// ReadArrivals reads what --arrivals says, and the file that it names. Findings
// in the file are shown at their places.
func ReadArrivals(d *Deps, text string) (arrivals.Process, error) {
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
	var diags hcl.Diagnostics
	if a.Kind == arrivals.Replay {
		a.Stamps, diags = files.ReadStamps(name, src)
	} else {
		var trace pipelines.Trace
		trace, diags = files.ReadTrace(name, src)
		a.Trace = &trace
	}
	if diags.HasErrors() {
		config := &language.Config{Files: map[string]*hcl.File{name: {Bytes: src}}}
		if err := language.WriteDiagnostics(d.Stderr, config, diags, d.Colours()); err != nil {
			return a, err
		}
		return a, ErrReported
	}
	return a, nil
}
