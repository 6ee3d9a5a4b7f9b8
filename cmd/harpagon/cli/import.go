package cli

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	hclv2 "github.com/hashicorp/hcl/v2"
	"github.com/spf13/cobra"

	"github.com/harpagon/harpagon/internal/osutil"
	"github.com/harpagon/harpagon/pipelines/hcl"
	"github.com/harpagon/harpagon/pipelines/quantity"
	"github.com/harpagon/harpagon/pipelines/triton"
)

// newImportCommand makes harpagon import.
func newImportCommand(d *Deps) *cobra.Command {
	c := &cobra.Command{
		Use:     "import",
		Short:   "Write a declaration of what another system serves",
		Example: `  harpagon import triton models --out served`,
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(newImportTritonCommand(d))
	return c
}

// declarationFile is what import writes into its folder.
const declarationFile = "pipelines.hcl"

func newImportTritonCommand(d *Deps) *cobra.Command {
	o := triton.Options{Signatures: d.Signatures}
	var asJSON bool
	c := &cobra.Command{
		Use:   "triton REPOSITORY",
		Short: "Write a declaration of a model repository of Triton Inference Server",
		Long: `Reads the config.pbtxt of every model of a repository and writes pipelines.hcl: a
pipeline of each ensemble, and of each model that is in none. It lists, with file and
line, what has no counterpart here, and what to do instead.

ONNX files are computed by the engines of this program, and models in Python by a
process of their own. What only Triton can compute stays at a Triton server, which
the pipeline calls. An objective and a rate, which repositories do not have, are
variables of the declaration. Existing files are never overwritten.`,
		Example: `  harpagon import triton models --out served
  harpagon import triton models --out served --slo 200ms --rate 50
  harpagon validate served`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 1 {
				return wrongUse(c, errors.New("name the folder that holds the folders of models"))
			}
			return nil
		},
	}
	f := c.Flags()
	f.StringVar(&o.Folder, "out", ".", "`folder` to write the declaration into")
	f.DurationVar(&o.SLO, "slo", time.Second, "default of the variable slo: the objective of every pipeline")
	f.Float64Var(&o.Rate, "rate", 10, "default of the variable rate: requests per second of every pipeline")
	f.StringVar(&o.Triton, "triton", "127.0.0.1:8001", "default of the variable triton: `HOST:PORT` (gRPC) of the Triton server that computes what only it can")
	f.BoolVar(&asJSON, "json", false, "print what was imported as JSON")
	c.RunE = func(c *cobra.Command, args []string) error {
		if o.SLO <= 0 || !(o.Rate > 0) || math.IsInf(o.Rate, 0) {
			return wrongUse(c, errors.New("--slo and --rate must be above zero, and finite"))
		}
		return importTriton(d, args[0], o, asJSON)
	}
	return c
}

func importTriton(d *Deps, folder string, o triton.Options, asJSON bool) error {
	repository, diags := triton.Read(folder)
	var out *triton.Imported
	if repository != nil && !diags.HasErrors() {
		var more hclv2.Diagnostics
		out, more = repository.Import(o)
		diags = append(diags, more...)
	}
	var file string
	if !diags.HasErrors() {
		files := maps.Clone(out.Files)
		files[declarationFile] = out.HCL()
		file = filepath.Join(o.Folder, declarationFile)
		if err := writeNew(o.Folder, files); err != nil {
			return err
		}
	}
	if asJSON {
		if err := writeJSON(d.Stdout, importedJSON(folder, file, out, diags)); err != nil {
			return err
		}
	} else if err := showImported(d, folder, file, out, diags); err != nil {
		return err
	}
	if diags.HasErrors() {
		return ErrReported
	}
	return nil
}

// writeNew writes all files into a folder, or none where one is there already.
func writeNew(folder string, files map[string][]byte) error {
	names := slices.Sorted(maps.Keys(files))
	if there := taken(folder, names); len(there) > 0 {
		return fmt.Errorf("%s is there already, and import overwrites nothing; name another folder by --out", there[0])
	}
	for _, name := range names {
		if err := writeFresh(filepath.Join(folder, name), files[name]); err != nil {
			return err
		}
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// importedResult is what import --json prints.
type importedResult struct {
	Repository string          `json:"repository"`
	File       string          `json:"file,omitempty"` // that was written; none where there are errors
	Modules    []triton.Served `json:"modules"`
	LeftOut    []string        `json:"left_out"`
	Findings   []hcl.Finding   `json:"findings"`
}

func importedJSON(folder, file string, out *triton.Imported, diags hclv2.Diagnostics) importedResult {
	r := importedResult{Repository: folder, File: file, Modules: []triton.Served{}, LeftOut: []string{}, Findings: hcl.Findings(diags)}
	if out != nil && file != "" {
		r.Modules, r.LeftOut = append(r.Modules, out.Served...), append(r.LeftOut, out.LeftOut...)
	}
	return r
}

// mostShown bounds a file, in bytes, of which the lines of errors are shown.
const mostShown = 1 << 20

// showImported prints findings, one a line and errors with their place, and what was made.
func showImported(d *Deps, folder, file string, out *triton.Imported, diags hclv2.Diagnostics) error {
	var errs hclv2.Diagnostics
	for i, one := range hcl.Findings(diags) {
		if diags[i].Severity == hclv2.DiagError {
			errs = append(errs, diags[i])
			continue
		}
		where := ""
		if one.File != "" {
			where = fmt.Sprintf("%s:%d:%d: ", one.File, one.Line, one.Column)
		}
		fmt.Fprintf(d.Stdout, "%s%s: %s\n", where, one.Summary, one.Detail)
	}
	if len(errs) > 0 {
		shown := hcl.NewConfig()
		for _, e := range errs {
			if e.Subject != nil {
				if src, err := osutil.ReadFile(e.Subject.Filename, mostShown); err == nil {
					shown.Files[e.Subject.Filename] = &hclv2.File{Bytes: src}
				}
			}
		}
		if err := hcl.WriteDiagnostics(d.Stderr, shown, errs, d.Colours()); err != nil {
			return err
		}
		_, err := fmt.Fprintf(d.Stderr, "Nothing was written: %s in %s.\n", quantity.Count(len(errs), "error"), folder)
		return err
	}
	return writeServed(d.Stdout, file, out)
}

func writeServed(w io.Writer, file string, out *triton.Imported) error {
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "pipeline\tmodule\tmodel\tversion\tbackend\tcomputed by")
	for _, s := range out.Served {
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%s\t%s\n", s.Pipeline, s.Module, s.Model, s.Version, s.Backend, s.By)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if len(out.LeftOut) > 0 {
		fmt.Fprintf(w, "Left out: %s.\n", strings.Join(out.LeftOut, ", "))
	}
	_, err := fmt.Fprintf(w, "\nwrote %s with %s. Next:\n\n  harpagon validate %s\n", file, quantity.Count(len(out.Document.Pipelines), "pipeline"), filepath.Dir(file))
	return err
}
