package cli

import (
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/spf13/cobra"

	"github.com/harpagon/harpagon/pipelines/language"
)

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
		config, diags, err := x.load(paths)
		if err != nil {
			return err
		}
		if err := x.verdict(config, diags, asJSON); err != nil {
			return err
		}
		if diags.HasErrors() {
			return errReported
		}
		return nil
	}
	return c
}

// somePaths asks for at least one file or folder.
func somePaths(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return wrongUse(c, fmt.Errorf("name an HCL file or a folder that holds some (the current one is .)"))
	}
	return nil
}

// verdict is what validate prints.
func (x *declaration) verdict(c *language.Config, diags hcl.Diagnostics, asJSON bool) error {
	if asJSON {
		return writeJSON(x.deps.Stdout, struct {
			Valid    bool               `json:"valid"`
			Findings []language.Finding `json:"findings"`
		}{!diags.HasErrors(), language.Findings(diags)})
	}
	if err := x.show(c, diags); err != nil {
		return err
	}
	if errors, warnings := severities(diags); errors > 0 {
		_, err := fmt.Fprintf(x.deps.Stderr, "Not valid: %s, %s.\n", counted(errors, "error"), counted(warnings, "warning"))
		return err
	}
	text := x.checked(c)
	if len(diags) > 0 {
		text += ", with " + counted(len(diags), "warning")
	}
	_, err := fmt.Fprintf(x.deps.Stdout, "Valid: %s.\n", text)
	return err
}

func severities(diags hcl.Diagnostics) (errors, warnings int) {
	for _, d := range diags {
		if d.Severity == hcl.DiagError {
			errors++
		} else {
			warnings++
		}
	}
	return errors, warnings
}

// checked says what has been looked at.
func (x *declaration) checked(c *language.Config) string {
	files, modules, points := 0, 0, 0
	for name := range c.Files {
		if strings.HasSuffix(name, ".hcl") {
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
	if x.deps.Signatures == nil {
		shapes = "; shapes between modules not compared"
	}
	parts := []string{counted(files, "file"), counted(len(c.Document.Pipelines), "pipeline"), counted(modules, "module")}
	if n := len(c.Document.Pools); n > 0 {
		parts = append(parts, counted(n, "pool"))
	}
	if n := len(c.Document.Functions); n > 0 {
		parts = append(parts, counted(n, "function"))
	}
	parts = append(parts, counted(len(c.Document.Hardware), "kind")+" of hardware", counted(points, "profile point"))
	return strings.Join(parts, ", ") + shapes
}
