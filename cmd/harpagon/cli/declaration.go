package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	hclv2 "github.com/hashicorp/hcl/v2"
	"github.com/spf13/cobra"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/hcl"
)

// Declaration is what commands that read HCL files have in common: values for
// variables, and findings that are shown with their place.
type Declaration struct {
	Deps  *Deps
	Vars  []string
	Files []string
}

// newDeclaration adds the flags that set variables.
func newDeclaration(d *Deps, c *cobra.Command) *Declaration {
	x := &Declaration{Deps: d}
	c.Flags().StringArrayVar(&x.Vars, "var", nil, "set a variable: `name=value`; may be repeated, and goes before --var-file and HARPAGON_VAR_name")
	c.Flags().StringArrayVar(&x.Files, "var-file", nil, "a `file` of name = value lines that set variables; may be repeated")
	return x
}

// Load reads the files and finds everything that is wrong with them.
func (x *Declaration) Load(paths []string) (*hcl.Config, hclv2.Diagnostics, error) {
	opts := hcl.LoadOptions{Env: x.Deps.Environ, VarFiles: x.Files, Vars: map[string]string{}}
	for _, v := range x.Vars {
		name, value, ok := strings.Cut(v, "=")
		if !ok || name == "" {
			return nil, nil, fmt.Errorf("--var %s sets nothing; write --var name=value", v)
		}
		opts.Vars[name] = value
	}
	config, diags := hcl.Load(opts, paths...)
	if !diags.HasErrors() || readable(config) {
		diags = append(diags, config.Validate(x.Deps.Signatures)...)
	}
	return config, diags, nil
}

// readable says whether anything could be read that can be validated in spite
// of errors: where files could not be parsed, what seems to be missing may just
// not have been read.
func readable(c *hcl.Config) bool {
	return len(c.Document.Pipelines)+len(c.Document.Hardware)+len(c.Document.Providers)+len(c.Document.Functions) > 0
}

// Document gives what the files declare, or shows what is wrong with them.
// Findings with the given summaries are left out.
func (x *Declaration) Document(paths []string, except ...string) (*pipelines.Document, error) {
	config, diags, err := x.Load(paths)
	if err != nil {
		return nil, err
	}
	diags = slices.DeleteFunc(diags, func(d *hclv2.Diagnostic) bool { return slices.Contains(except, d.Summary) })
	if err := x.Show(config, diags); err != nil {
		return nil, err
	}
	if diags.HasErrors() {
		return nil, ErrReported
	}
	return &config.Document, nil
}

// Show writes findings with their places to standard error.
func (x *Declaration) Show(c *hcl.Config, diags hclv2.Diagnostics) error {
	return hcl.WriteDiagnostics(x.Deps.Stderr, c, diags, x.Deps.Colours())
}

// Colours are for people who want them: https://no-color.org.
func (d *Deps) Colours() bool {
	unwanted := func(entry string) bool { return strings.HasPrefix(entry, "NO_COLOR=") && entry != "NO_COLOR=" }
	return d.Terminal && !slices.ContainsFunc(d.Environ, unwanted)
}

// writeJSON prints a result for programs.
func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// somePaths asks for at least one file or folder.
func somePaths(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return wrongUse(c, fmt.Errorf("name an HCL file or a folder that holds some (the current one is .)"))
	}
	return nil
}
