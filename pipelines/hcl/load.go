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
	decoded hcl.Diagnostics // what reading it found
	added   []string        // paths of the blocks that Add has joined
	meter   meter
}

// Load reads files, and all *.hcl files of folders, as one declaration. All
// that is wrong is in the diagnostics; what could be read is in the Config even
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

func sourcesIn(path string) ([]string, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s does not exist; name an HCL file or a folder that holds some, or run harpagon init", path)
	}
	if err != nil || !info.IsDir() {
		return []string{filepath.Clean(path)}, err
	}
	found, err := filepath.Glob(filepath.Join(path, "*.hcl"))
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
