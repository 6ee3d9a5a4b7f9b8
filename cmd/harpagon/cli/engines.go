package cli

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/executors/onnxruntime"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/sdk/local/system"
)

// engineReport is what a user learns of one engine.
type engineReport struct {
	Name    string `json:"name"`
	Ready   bool   `json:"ready"`
	Auto    bool   `json:"auto"` // takes networks that leave the engine open
	Version string `json:"version,omitempty"`
	Runs    string `json:"runs"`
	Library string `json:"library,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Install string `json:"install,omitempty"`

	from string // how the library was found
}

// newEnginesCommand makes harpagon engines.
func newEnginesCommand(d *Deps) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "engines",
		Short: "List what this machine can run models with",
		Long: `Lists the engines, with their versions, and how to get those that are missing. A
module names its engine with engine = "..." in the declaration; one that names none
is run by the engine marked auto. Profiles are kept per engine and
version.`,
		Example: `  harpagon engines
  harpagon engines --json`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			all := reportEngines(system.Engines(system.EngineOptions{}))
			if asJSON {
				return writeJSON(d.Stdout, map[string]any{"engines": all})
			}
			return describeEngines(d.Stdout, all)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func reportEngines(engines []executors.Engine) []engineReport {
	all := make([]engineReport, 0, len(engines))
	for _, e := range engines {
		known, _ := pipelines.EngineNamed(e.Name())
		r := engineReport{Name: e.Name(), Ready: true, Version: e.Version(), Runs: known.Help}
		if c, ok := e.(executors.Checker); ok {
			if err := c.Available(); err != nil {
				r.Ready, r.Version, r.Reason = false, "", err.Error()
			}
		}
		if p, ok := onnxruntime.ProviderOf(r.Name); ok {
			r.ofRuntime(p)
		}
		all = append(all, r)
	}
	chosen := executors.EngineNetwork
	for _, r := range all {
		if r.Name == executors.EngineFast && r.Ready {
			chosen = r.Name
		}
	}
	for i := range all {
		all[i].Auto = all[i].Name == chosen
	}
	return all
}

// ofRuntime adds where the library is, or how to get it.
func (r *engineReport) ofRuntime(p onnxruntime.Provider) {
	if lib, err := onnxruntime.Find(onnxruntime.Options{Provider: p}); err == nil {
		r.Library, r.from = lib.Path, lib.From
	}
	switch {
	case r.Ready:
	case p == onnxruntime.CPU:
		r.Install = onnxruntime.Install
	default:
		r.Install = onnxruntime.InstallGPU
	}
}

func describeEngines(to io.Writer, all []engineReport) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "engine\tstate\tversion\truns")
	var notes []string
	for _, r := range all {
		state := "ready"
		switch {
		case !r.Ready:
			state = "missing"
			notes = append(notes, fmt.Sprintf("%s is missing: %s", r.Name, strings.TrimPrefix(r.Reason, "onnxruntime: ")))
			if !strings.Contains(r.Reason, r.Install) {
				notes = append(notes, "  to get it: "+r.Install)
			}
		case r.Auto:
			state = "ready, auto"
		}
		if r.Ready && r.Library != "" {
			notes = append(notes, fmt.Sprintf("%s uses %s (from %s)", r.Name, r.Library, r.from))
		}
		version := r.Version
		if version == "" {
			version = "-"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", r.Name, state, version, r.Runs)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if len(notes) > 0 {
		fmt.Fprintf(to, "\n%s\n", strings.Join(notes, "\n"))
	}
	return nil
}
