package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/spf13/cobra"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/language"
)

// declaration is what commands that read HCL files have in common: values for
// variables, and findings that are shown with their place.
type declaration struct {
	deps  *Deps
	vars  []string
	files []string
}

func newDeclaration(d *Deps, c *cobra.Command) *declaration {
	x := &declaration{deps: d}
	c.Flags().StringArrayVar(&x.vars, "var", nil, "set a variable: `name=value`; may be repeated, and goes before --var-file and HARPAGON_VAR_name")
	c.Flags().StringArrayVar(&x.files, "var-file", nil, "a `file` of name = value lines that set variables; may be repeated")
	return x
}

// load reads the files and finds everything that is wrong with them.
func (x *declaration) load(paths []string) (*language.Config, hcl.Diagnostics, error) {
	opts := language.LoadOptions{Env: x.deps.Environ, VarFiles: x.files, Vars: map[string]string{}}
	for _, v := range x.vars {
		name, value, ok := strings.Cut(v, "=")
		if !ok || name == "" {
			return nil, nil, fmt.Errorf("--var %s sets nothing; write --var name=value", v)
		}
		opts.Vars[name] = value
	}
	config, diags := language.Load(opts, paths...)
	if !diags.HasErrors() || readable(config) {
		diags = append(diags, config.Validate(x.deps.Signatures)...)
	}
	return config, diags, nil
}

// readable says whether anything could be read that can be validated in spite
// of errors: where files could not be parsed, what seems to be missing may just
// not have been read.
func readable(c *language.Config) bool {
	return len(c.Document.Pipelines)+len(c.Document.Hardware)+len(c.Document.Providers)+len(c.Document.Functions) > 0
}

// document gives what the files declare, or shows what is wrong with them.
// Findings with the given summaries are left out.
func (x *declaration) document(paths []string, except ...string) (*pipelines.Document, error) {
	config, diags, err := x.load(paths)
	if err != nil {
		return nil, err
	}
	diags = slices.DeleteFunc(diags, func(d *hcl.Diagnostic) bool { return slices.Contains(except, d.Summary) })
	if err := x.show(config, diags); err != nil {
		return nil, err
	}
	if diags.HasErrors() {
		return nil, errReported
	}
	return &config.Document, nil
}

func (x *declaration) show(c *language.Config, diags hcl.Diagnostics) error {
	return language.WriteDiagnostics(x.deps.Stderr, c, diags, x.deps.colours())
}

// colours are for people who want them: https://no-color.org.
func (d *Deps) colours() bool {
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

// counted is a number with its noun, such as "1 file" and "2 files".
func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
