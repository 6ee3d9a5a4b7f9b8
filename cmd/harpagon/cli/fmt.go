package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	hclv2 "github.com/hashicorp/hcl/v2"
	"github.com/pmezard/go-difflib/difflib"
	"github.com/spf13/cobra"

	"github.com/harpagon/harpagon/internal/osutil"
	"github.com/harpagon/harpagon/pipelines/hcl"
)

// stdinName stands for standard input where a path is expected.
const stdinName = "-"

// formatter is the command fmt.
type formatter struct {
	deps                                *Deps
	check, diff, list, write, recursive bool

	different int // files that are not in canonical form
	broken    int // files that could not be formatted
}

// newFmtCommand makes harpagon fmt.
func newFmtCommand(d *Deps) *cobra.Command {
	f := &formatter{deps: d}
	c := &cobra.Command{
		Use:   "fmt [PATH...]",
		Short: "Format HCL files",
		Long: `Rewrites HCL files, and all *.hcl files of folders, in canonical form: spacing,
indentation and aligned equals signs. Comments and values stay as they are. The
default is the current folder; - formats standard input to standard output.

It prints the names of the files that it changes. With --check nothing is
written, and it exits with 1 when a file is not in canonical form.`,
		Example: `  harpagon fmt
  harpagon fmt --check --diff --recursive .
  harpagon fmt - < pipeline.hcl`,
		RunE: func(c *cobra.Command, paths []string) error { return f.run(c, paths) },
	}
	flags := c.Flags()
	flags.BoolVar(&f.check, "check", false, "write nothing, and exit with 1 when a file is not in canonical form")
	flags.BoolVar(&f.diff, "diff", false, "print what changes")
	flags.BoolVar(&f.list, "list", true, "print the names of files that are not in canonical form")
	flags.BoolVar(&f.write, "write", true, "write the files")
	flags.BoolVarP(&f.recursive, "recursive", "r", false, "go into folders of folders, too")
	return c
}

func (f *formatter) run(c *cobra.Command, paths []string) error {
	if len(paths) == 0 {
		paths = []string{"."}
	}
	if len(paths) == 1 && paths[0] == stdinName {
		if err := f.stdin(); err != nil {
			return err
		}
		return f.result()
	}
	for _, path := range paths {
		if path == stdinName {
			return wrongUse(c, errors.New("- stands for standard input, and cannot be formatted together with files"))
		}
		files, err := f.files(path)
		if err != nil {
			return err
		}
		for _, name := range files {
			if err := f.file(name); err != nil {
				return err
			}
		}
	}
	return f.result()
}

func (f *formatter) result() error {
	if f.broken > 0 || f.check && f.different > 0 {
		return ErrReported
	}
	return nil
}

// files lists what a path stands for. Hidden folders are left alone.
func (f *formatter) files(path string) ([]string, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s does not exist; name an HCL file or a folder that holds some", path)
	}
	if err != nil || !info.IsDir() {
		return []string{path}, err
	}
	var all []string
	err = filepath.WalkDir(path, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case !entry.IsDir():
			if strings.HasSuffix(name, ".hcl") {
				all = append(all, name)
			}
		case name != path && (!f.recursive || strings.HasPrefix(entry.Name(), ".")):
			return fs.SkipDir
		}
		return nil
	})
	return all, err
}

func (f *formatter) stdin() error {
	src, err := io.ReadAll(f.deps.Stdin)
	if err != nil {
		return fmt.Errorf("cannot read standard input: %w", err)
	}
	formatted, ok, err := f.format("<stdin>", src)
	if err != nil || !ok {
		return err
	}
	if f.check || f.diff {
		return f.show("<stdin>", src, formatted)
	}
	_, err = f.deps.Stdout.Write(formatted)
	return err
}

func (f *formatter) file(name string) error {
	src, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	formatted, ok, err := f.format(name, src)
	if err != nil || !ok || bytes.Equal(src, formatted) {
		return err
	}
	if err := f.show(name, src, formatted); err != nil || f.check || !f.write {
		return err
	}
	return osutil.ReplaceFile(name, formatted, 0o644)
}

// format shows what is wrong with a file that cannot be parsed.
func (f *formatter) format(name string, src []byte) (formatted []byte, ok bool, err error) {
	formatted, diags := hcl.Format(name, src)
	if !diags.HasErrors() {
		return formatted, true, nil
	}
	f.broken++
	shown := &hcl.Config{Files: map[string]*hclv2.File{name: {Bytes: src}}}
	return nil, false, hcl.WriteDiagnostics(f.deps.Stderr, shown, diags, f.deps.Colours())
}

// show prints the name of a file that is not in canonical form, and the difference.
func (f *formatter) show(name string, src, formatted []byte) error {
	if bytes.Equal(src, formatted) {
		return nil
	}
	f.different++
	if f.list {
		fmt.Fprintln(f.deps.Stdout, name)
	}
	if !f.diff {
		return nil
	}
	return difflib.WriteUnifiedDiff(f.deps.Stdout, difflib.UnifiedDiff{
		A: difflib.SplitLines(string(src)), B: difflib.SplitLines(string(formatted)),
		FromFile: name, ToFile: name + " (canonical)", Context: 3,
	})
}
