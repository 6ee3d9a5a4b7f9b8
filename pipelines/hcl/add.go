package hcl

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/files"
)

// NewConfig is a declaration without files; Add fills it.
func NewConfig() *Config {
	return &Config{Files: map[string]*hcl.File{}, ranges: places{}}
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

// inGo says whether a program declared what the path leads to.
func (c *Config) inGo(path string) bool {
	return slices.ContainsFunc(c.added, func(block string) bool { return path == block || strings.HasPrefix(path, block+".") })
}
