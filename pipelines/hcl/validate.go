package hcl

import (
	"github.com/hashicorp/hcl/v2"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/files"
)

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
			return len(c.ranges) > 0 && (!declared || unreadable[place])
		},
		Declared: func(path string) bool {
			_, declared := c.ranges[path]
			return declared
		},
		Broken: func(file string) bool { return broken[file] },
	}
}
