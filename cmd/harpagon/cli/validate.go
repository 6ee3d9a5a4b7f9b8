package cli

import (
	"fmt"
	"strings"

	hclv2 "github.com/hashicorp/hcl/v2"
	"github.com/spf13/cobra"

	"github.com/harpagon/harpagon/pipelines/hcl"
	"github.com/harpagon/harpagon/pipelines/quantity"
)

// newValidateCommand makes harpagon validate.
func newValidateCommand(d *Deps) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "validate PATH...",
		Short: "Find every mistake in a declaration, offline",
		Long: `Reads HCL files, and all *.hcl files of folders, as one declaration, and shows
everything that is wrong with it at file, line and column: syntax, units,
references, cycles, shapes between modules, models and profiles, and objectives
that no hardware can meet. It asks no server and needs no device.`,
		Example: `  harpagon validate examples/traffic
  harpagon validate pipeline.hcl hardware.hcl --var rate=200
  harpagon validate . --json`,
		Args: somePaths,
	}
	x := newDeclaration(d, c)
	c.Flags().BoolVar(&asJSON, "json", false, "print the findings as JSON")
	c.RunE = func(_ *cobra.Command, paths []string) error {
		config, diags, err := x.Load(paths)
		if err != nil {
			return err
		}
		if err := declared(x, config, diags, asJSON); err != nil {
			return err
		}
		if diags.HasErrors() {
			return ErrReported
		}
		return nil
	}
	return c
}

// declared is what validate prints.
func declared(x *Declaration, c *hcl.Config, diags hclv2.Diagnostics, asJSON bool) error {
	if asJSON {
		return writeJSON(x.Deps.Stdout, struct {
			Valid    bool          `json:"valid"`
			Findings []hcl.Finding `json:"findings"`
		}{Valid: !diags.HasErrors(), Findings: hcl.Findings(diags)})
	}
	if err := x.Show(c, diags); err != nil {
		return err
	}
	if errors, warnings := severities(diags); errors > 0 {
		_, err := fmt.Fprintf(x.Deps.Stderr, "Not valid: %s, %s.\n", quantity.Count(errors, "error"), quantity.Count(warnings, "warning"))
		return err
	}
	text := checked(x, c)
	if len(diags) > 0 {
		text += ", with " + quantity.Count(len(diags), "warning")
	}
	_, err := fmt.Fprintf(x.Deps.Stdout, "Valid: %s.\n", text)
	return err
}

func severities(diags hclv2.Diagnostics) (errors, warnings int) {
	for _, d := range diags {
		if d.Severity == hclv2.DiagError {
			errors++
		} else {
			warnings++
		}
	}
	return errors, warnings
}

// checked reports what has been looked at.
func checked(x *Declaration, c *hcl.Config) string {
	files, modules, points := 0, 0, 0
	for name := range c.Files {
		if strings.HasSuffix(name, ".hcl") || strings.HasSuffix(name, ".hcl.json") {
			files++
		}
	}
	for _, p := range c.Document.Pipelines {
		modules += len(p.Modules)
		for _, m := range p.Modules {
			points += len(m.Profile.Points)
		}
	}
	for _, p := range c.Document.Pools {
		points += len(p.Profile.Points)
	}
	shapes := "; shapes between modules compared"
	if x.Deps.Signatures == nil {
		shapes = "; shapes between modules not compared"
	}
	parts := []string{quantity.Count(files, "file"), quantity.Count(len(c.Document.Pipelines), "pipeline"), quantity.Count(modules, "module")}
	if n := len(c.Document.Pools); n > 0 {
		parts = append(parts, quantity.Count(n, "pool"))
	}
	if n := len(c.Document.Clusters); n > 0 {
		parts = append(parts, quantity.Count(n, "cluster"))
	}
	if n := len(c.Document.Functions); n > 0 {
		parts = append(parts, quantity.Count(n, "function"))
	}
	parts = append(parts, quantity.Count(len(c.Document.Hardware), "kind")+" of hardware", quantity.Count(points, "profile point"))
	return strings.Join(parts, ", ") + shapes
}
