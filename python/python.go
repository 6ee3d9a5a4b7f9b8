// Package python holds the Python package harpagon_engine, with which a class of a user's is a command of
// engine "process". It is in the program, so that a command finds it wherever the program runs,
// and in the version that the program speaks with.
package python

import (
	"embed"
	"os"
)

//go:embed harpagon_engine/*.py
var files embed.FS

// Write writes the package into a folder, which is then for PYTHONPATH.
func Write(folder string) error { return os.CopyFS(folder, files) }
