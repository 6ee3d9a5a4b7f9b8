package onnx

import (
	"fmt"
	"path/filepath"
	"slices"

	"github.com/harpagon/harpagon/internal/osutil"
)

// maxDepth bounds graphs within graphs.
const maxDepth = 32

// ExternalData names the files in which a model keeps tensors outside of its own,
// relative to its folder, sorted; none where everything is inside. A file that is
// no ONNX model names none: that is for whoever loads it to say. The error is that
// of reading the file, or of a name that leads out of the folder.
func ExternalData(path string) ([]string, error) {
	info, err := osutil.StatFile(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxFile {
		return nil, nil // a model of that size holds its tensors itself, or nobody can read it
	}
	raw, err := osutil.ReadFile(path, maxFile)
	if err != nil {
		return nil, err
	}
	var e external
	if fields(raw, func(f field) error {
		if f.num != 7 {
			return nil
		}
		return f.message("graph", func(b []byte) error { return e.graph(b, 0) })
	}) != nil {
		return nil, nil
	}
	slices.Sort(e.names)
	e.names = slices.Compact(e.names)
	for _, name := range e.names {
		if !filepath.IsLocal(filepath.FromSlash(name)) {
			return nil, fmt.Errorf("onnx: %s keeps tensors in %q, which is not in its own folder; save the model with its data inside, or beside it", path, name)
		}
	}
	return e.names, nil
}

// external gathers the names of files.
type external struct{ names []string }

// graph looks through initializers and the attributes of nodes, which may hold
// tensors and graphs of their own.
func (e *external) graph(raw []byte, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("graphs within graphs, deeper than %d", maxDepth)
	}
	return fields(raw, func(f field) error {
		switch f.num {
		case 1:
			return f.message("node", func(b []byte) error {
				return fields(b, func(f field) error {
					if f.num != 5 {
						return nil
					}
					return f.message("attribute", func(b []byte) error { return e.attribute(b, depth) })
				})
			})
		case 5:
			return f.message("initializer", e.tensor)
		case 15:
			return f.message("sparse initializer", func(b []byte) error {
				return fields(b, func(f field) error {
					if f.num != 1 && f.num != 2 {
						return nil
					}
					return f.message("tensor", e.tensor)
				})
			})
		}
		return nil
	})
}

func (e *external) attribute(raw []byte, depth int) error {
	return fields(raw, func(f field) error {
		switch f.num {
		case 5, 10:
			return f.message("tensor", e.tensor)
		case 6, 11:
			return f.message("graph", func(b []byte) error { return e.graph(b, depth+1) })
		}
		return nil
	})
}

func (e *external) tensor(raw []byte) error {
	return fields(raw, func(f field) error {
		if f.num != 13 {
			return nil
		}
		return f.message("external data", func(b []byte) error {
			key, value := "", ""
			err := fields(b, func(f field) error {
				switch f.num {
				case 1:
					key = string(f.bytes)
				case 2:
					value = string(f.bytes)
				}
				return nil
			})
			if key == "location" && value != "" {
				e.names = append(e.names, value)
			}
			return err
		})
	})
}
