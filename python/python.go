// Package python holds the Python package harpagon_engine, with which a class of a user's is a command of
// engine "process". It is in the program, so that a command finds it wherever the program runs,
// and in the version that the program speaks with.
package python

import (
	"embed"
	"path"
)

//go:embed harpagon_engine/*.py
var files embed.FS

// Files are those of the package, by their paths below a folder that is for PYTHONPATH.
func Files() map[string]string {
	const folder = "harpagon_engine"
	all := map[string]string{}
	entries, _ := files.ReadDir(folder)
	for _, e := range entries {
		text, _ := files.ReadFile(path.Join(folder, e.Name()))
		all[path.Join(folder, e.Name())] = string(text)
	}
	return all
}
