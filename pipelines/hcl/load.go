// Package hcl reads and prints declarations in HCL.
//
// Load reads files and folders into a Config: the document, and where each of its
// values was written. Config.Validate finds what is wrong, at its place; HCL
// prints a document in its canonical form, which reads back as the same document;
// Format does that for a file as it stands, comments kept.
package hcl

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/harpagon/harpagon/internal/osutil"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/files"
)

// maxSource bounds one file of a declaration.
const maxSource = 4 << 20

// LoadOptions gives values to the variables of a declaration, in rising order
// of precedence: Env, VarFiles, Vars.
type LoadOptions struct {
	Env      []string          // as os.Environ gives it; HARPAGON_VAR_name=value counts
	VarFiles []string          // files of name = value lines
	Vars     map[string]string // from the command line
}

// Config is a declaration that has been read, with the places in its files
// that its values came from.
type Config struct {
	Document pipelines.Document
	Files    map[string]*hcl.File // by the name that diagnostics use

	ranges  places
	decoded hcl.Diagnostics    // what reading it found
	added   []string           // paths of the blocks that Add has joined
	unknown map[hcl.Range]bool // values made of what could not be read, which was reported
	meter   meter
}

// Load reads files, and all *.hcl and *.hcl.json files of folders, as one declaration.
// Files *.auto.hclvars of folders set variables, before LoadOptions.VarFiles do. All that is wrong is in the diagnostics; what could be read is in the Config even
// then. Paths within a file are relative to its folder and become absolute.
func Load(opts LoadOptions, paths ...string) (*Config, hcl.Diagnostics) {
	c := NewConfig()
	names, diags := sources(paths)
	var bodies []hcl.Body
	for _, name := range names {
		body, more := c.parseFile(name)
		diags = append(diags, more...)
		if body != nil {
			bodies = append(bodies, body)
		}
	}
	if diags.HasErrors() {
		return c, diags
	}
	opts.VarFiles = slices.Concat(autoVars(paths), opts.VarFiles)
	return c, append(diags, c.decode(hcl.MergeBodies(bodies), opts)...)
}

// Parse reads one declaration from memory. Relative paths in it are left
// relative to the folder of filename, and no variables are set.
func Parse(filename string, src []byte) (*Config, hcl.Diagnostics) {
	c := NewConfig()
	body, diags := c.parse(filename, src)
	if diags.HasErrors() {
		return c, diags
	}
	return c, append(diags, c.decode(body, LoadOptions{})...)
}

// sources lists the files to read, without repetition.
func sources(paths []string) ([]string, hcl.Diagnostics) {
	if len(paths) == 0 {
		paths = []string{"."}
	}
	var names []string
	var diags hcl.Diagnostics
	for _, path := range paths {
		found, err := sourcesIn(path)
		if err != nil {
			diags = append(diags, files.Problem("Cannot read the declaration", err.Error(), nil))
		}
		for _, name := range found {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names, diags
}

// autoVars are the files of folders that set variables by themselves.
func autoVars(paths []string) (all []string) {
	if len(paths) == 0 {
		paths = []string{"."}
	}
	for _, path := range paths {
		for _, pattern := range []string{"*.auto.hclvars", "*.auto.hclvars.json"} {
			found, _ := filepath.Glob(filepath.Join(path, pattern)) // none of a file
			all = append(all, found...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func sourcesIn(path string) ([]string, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s does not exist; name an HCL file or a folder that holds some, or run harpagon init", path)
	}
	if err != nil || !info.IsDir() {
		return []string{filepath.Clean(path)}, err
	}
	found, err := filepath.Glob(filepath.Join(path, "*.hcl"))
	inJSON, _ := filepath.Glob(filepath.Join(path, "*.hcl.json"))
	found = append(found, inJSON...)
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("%s holds no *.hcl files; name a folder that does, or run harpagon init", path)
	}
	return found, err
}

func (c *Config) parseFile(name string) (hcl.Body, hcl.Diagnostics) {
	src, err := osutil.ReadGivenFile(name, maxSource)
	if err != nil {
		return nil, hcl.Diagnostics{files.Problem("Cannot read the declaration", err.Error(), nil)}
	}
	return c.parse(name, src)
}

func (c *Config) parse(name string, src []byte) (hcl.Body, hcl.Diagnostics) {
	if isJSON(name) {
		file, diags := parseJSON(src, name)
		if file == nil {
			return nil, diags
		}
		c.Files[name] = file
		return file.Body, diags
	}
	if diags := checkNesting(src, name); diags.HasErrors() {
		return nil, diags
	}
	file, diags := hclsyntax.ParseConfig(src, name, hcl.InitialPos)
	if file == nil {
		return nil, diags
	}
	if body, ok := file.Body.(*hclsyntax.Body); ok {
		c.meter.watch(body)
	}
	c.Files[name] = file
	return file.Body, diags
}

// places remembers where values were declared, by a path such as
// "pipeline.traffic.module.detect.profile".
type places map[string]hcl.Range

func (p places) at(path string) *hcl.Range {
	for {
		if r, ok := p[path]; ok {
			return &r
		}
		cut := strings.LastIndexByte(path, '.')
		if cut < 0 {
			return nil
		}
		path = path[:cut]
	}
}

// NewConfig is a declaration without files; Add fills it.
func NewConfig() *Config {
	return &Config{Files: map[string]*hcl.File{}, ranges: places{}, unknown: map[hcl.Range]bool{}}
}

// Add joins what a program declares to what was read of files: each may refer to
// hardware and providers of the other. A name that both declare is a finding.
// Models of relative paths are looked for in the working folder.
func (c *Config) Add(d pipelines.Document) hcl.Diagnostics {
	var diags hcl.Diagnostics
	fresh := func(kind, name string) bool {
		path := kind + "." + name
		place, inFile := c.ranges[path]
		if !inFile && !slices.Contains(c.added, path) {
			c.added = append(c.added, path)
			return true
		}
		where := "by the program"
		if inFile {
			where = "at " + place.String()
		}
		diags = append(diags, files.Problem("Declared twice", fmt.Sprintf("The program declares the %s %q, which is declared already %s.", kind, name, where), nil))
		return false
	}
	join(&c.Document.Hardware, d.Hardware, func(h pipelines.Hardware) bool { return fresh("hardware", h.Name) })
	join(&c.Document.Pipelines, located(d.Pipelines), func(p pipelines.Pipeline) bool { return fresh("pipeline", p.Name) })
	join(&c.Document.Providers, d.Providers, func(p pipelines.Provider) bool { return fresh("provider", p.Name) })
	join(&c.Document.Functions, d.Functions, func(f pipelines.Function) bool { return fresh("function", f.Name) })
	join(&c.Document.Pools, d.Pools, func(p pipelines.Pool) bool { return fresh("pool", p.Name) })
	join(&c.Document.Clusters, d.Clusters, func(k pipelines.Cluster) bool { return fresh("cluster", k.Name) })
	return diags
}

func join[T any](to *[]T, all []T, fresh func(T) bool) {
	for _, one := range all {
		if fresh(one) {
			*to = append(*to, one)
		}
	}
}

// located makes the paths of models absolute.
func located(all []pipelines.Pipeline) []pipelines.Pipeline {
	all = slices.Clone(all)
	for i := range all {
		all[i].Modules = slices.Clone(all[i].Modules)
		for j := range all[i].Modules {
			if m := &all[i].Modules[j]; !strings.Contains(m.Model, "://") {
				m.Model = absolute(m.Model, "")
			}
		}
	}
	return all
}

// inGo reports whether a program declared what the path leads to.
func (c *Config) inGo(path string) bool {
	return slices.ContainsFunc(c.added, func(block string) bool { return path == block || strings.HasPrefix(path, block+".") })
}

// Validate finds everything that is wrong with a declaration that Load could
// read, in one pass. sig may be nil; models are then not opened and shapes not
// compared.
func (c *Config) Validate(sig pipelines.SignatureFunc) hcl.Diagnostics {
	var diags hcl.Diagnostics
	for _, p := range pipelines.CheckAll(&c.Document, c.source(), sig) {
		of := files.Problem
		if p.Warning {
			of = files.Warning
		}
		diags = append(diags, of(p.Summary, p.Detail, c.ranges.at(p.Path)))
	}
	return diags
}

// source is what reading the files has found.
func (c *Config) source() pipelines.Sources {
	unreadable := map[hcl.Range]bool{}
	broken := map[string]bool{}
	for _, d := range c.decoded {
		if d.Subject != nil {
			unreadable[*d.Subject] = true
			if d.Severity == hcl.DiagError {
				broken[d.Subject.Filename] = true
			}
		}
	}
	return pipelines.Sources{
		Missing: func(path string) bool {
			if c.inGo(path) {
				return false
			}
			place, declared := c.ranges[path]
			return len(c.ranges) > 0 && (!declared || unreadable[place] || c.unknown[place])
		},
		Declared: func(path string) bool {
			_, declared := c.ranges[path]
			return declared
		},
		Broken: func(file string) bool { return broken[file] },
	}
}
