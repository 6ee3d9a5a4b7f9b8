package library

import (
	"embed"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	hclv2 "github.com/hashicorp/hcl/v2"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/files"
	"github.com/harpagon/harpagon/pipelines/hcl"
)

// embedded is the folder as it was when the program was built. Nothing can change
// it.
//
//go:embed *.hcl profiles/*.csv
var embedded embed.FS

// home stands for the folder in the names of files: there is none of this name
// on a disk, so nothing but files is read.
const home = "(library)"

// unread is the finding of hcl.Parse about profiles, which it looks for on
// disk.
const unread = "Missing profile"

// Document is what all files of the library declare together, profiles
// included. Pipelines come in the order of their files' names. Paths of
// profiles are relative to the library. An error means that the library itself
// is broken.
func Document() (pipelines.Document, error) {
	var all pipelines.Document
	entries, err := embedded.ReadDir(".")
	if err != nil {
		return all, err
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".hcl") {
			continue
		}
		doc, err := parse(e.Name())
		if err != nil {
			return pipelines.Document{}, fmt.Errorf("library: %s: %w", e.Name(), err)
		}
		all.Hardware = append(all.Hardware, doc.Hardware...)
		all.Pipelines = append(all.Pipelines, doc.Pipelines...)
	}
	return all, nil
}

// Application is one pipeline of the library with the hardware that it may run
// on. An error names those that there are.
func Application(name string) (pipelines.Pipeline, []pipelines.Hardware, error) {
	all, err := Document()
	if err != nil {
		return pipelines.Pipeline{}, nil, err
	}
	var names []string
	for _, p := range all.Pipelines {
		if p.Name == name {
			return p, all.Hardware, nil
		}
		names = append(names, p.Name)
	}
	return pipelines.Pipeline{}, nil, fmt.Errorf("library: there is no application %q; there is %s", name, strings.Join(names, ", "))
}

func parse(name string) (pipelines.Document, error) {
	src, err := embedded.ReadFile(name)
	if err != nil {
		return pipelines.Document{}, err
	}
	config, diags := hcl.Parse(home+"/"+name, src)
	diags = slices.DeleteFunc(diags, func(d *hclv2.Diagnostic) bool { return d.Summary == unread })
	if diags.HasErrors() {
		return pipelines.Document{}, diags
	}
	doc := config.Document
	for i := range doc.Pipelines {
		for k := range doc.Pipelines[i].Modules {
			if err := profile(&doc.Pipelines[i].Modules[k]); err != nil {
				return pipelines.Document{}, err
			}
		}
	}
	return doc, nil
}

func profile(m *pipelines.Module) error {
	full := filepath.ToSlash(m.ProfileFile) // hcl.Parse makes paths absolute
	m.ProfileFile = full[strings.LastIndex(full, home+"/")+len(home)+1:]
	src, err := embedded.ReadFile(m.ProfileFile)
	if err != nil {
		return err
	}
	points, diags := files.ReadProfile(m.ProfileFile, src)
	if len(diags) > 0 {
		return diags
	}
	m.Profile.Points = points
	return nil
}
