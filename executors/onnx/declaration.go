package onnx

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/harpagon/harpagon/internal/osutil"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
)

// Declaration is what a model file says of its inputs and outputs, with
// whatever operators, operator set and data types. Dims include the batch
// dimension; nil means that the file gives no shape, and an empty one is that of
// a scalar.
type Declaration struct {
	Inputs  []ValueInfo // without those that initializers fill
	Outputs []ValueInfo
}

// ReadDeclaration reads it from a file and passes over everything else, so
// that it also takes models that Compile does not. Errors name the file.
func ReadDeclaration(path string) (Declaration, error) {
	raw, err := readFile(path)
	if err != nil {
		return Declaration{}, err
	}
	d, err := declared(raw)
	if err != nil {
		return d, fmt.Errorf("%s: %w", path, err)
	}
	return d, nil
}

// declared reads the declaration out of a model file's bytes.
func declared(raw []byte) (Declaration, error) {
	var d Declaration
	var filled []string
	nodes := 0
	err := fields(raw, func(f field) error {
		if f.num != 7 {
			return nil
		}
		return f.message("graph", func(b []byte) error {
			return fields(b, func(f field) error { return d.graph(f, &filled, &nodes) })
		})
	})
	if err != nil {
		return d, fmt.Errorf("onnx: damaged or not an ONNX file: %w", err)
	}
	if nodes == 0 || len(d.Outputs) == 0 {
		return d, errors.New("onnx: damaged or not an ONNX file: it holds no nodes or no outputs")
	}
	d.Inputs = slices.DeleteFunc(d.Inputs, func(v ValueInfo) bool { return slices.Contains(filled, v.Name) })
	return d, nil
}

// graph reads one field of the graph.
func (d *Declaration) graph(f field, filled *[]string, nodes *int) error {
	var v ValueInfo
	switch f.num {
	case 1:
		*nodes++
	case 5:
		return f.message("initializer", func(b []byte) error {
			return fields(b, func(f field) error {
				if f.num == 8 {
					*filled = append(*filled, string(f.bytes))
				}
				return nil
			})
		})
	case 11, 12:
		if err := f.message("input or output", func(b []byte) error { return decodeValueInfo(b, &v) }); err != nil {
			return err
		}
		if f.num == 11 {
			d.Inputs = append(d.Inputs, v)
		} else {
			d.Outputs = append(d.Outputs, v)
		}
	}
	return nil
}

// wire is the name of the type on the wire, empty where there is none.
func (d DataType) wire() string {
	names := [...]string{
		"", wire.FP32, wire.Uint8, wire.Int8, wire.Uint16, wire.Int16, wire.Int32, wire.Int64, wire.Bytes,
		wire.Bool, wire.FP16, wire.FP64, wire.Uint32, wire.Uint64, "", "", wire.BF16,
	}
	if d >= 0 && int(d) < len(names) {
		return names[d]
	}
	return ""
}

// Layout says how the tensors of single requests lie in those of the network.
type Layout struct {
	Signature pipelines.Signature // for one request, with the inputs that are constant
	In, Out   []int               // by input and output: the batch axis, or pipelines.NoBatchAxis
	Limit     int                 // the largest batch that the inputs take; 0 where it is open
}

// Layout is the declaration for one request of a module. The batch is the first
// dimension of every tensor, unless the module says otherwise. There is none in a
// scalar, and in a constant whose first dimension is fixed. An input needs a
// datatype of the wire and a shape; an output of which the file says less may be
// any tensor.
func (d Declaration) Layout(m pipelines.Module) (Layout, error) {
	var l Layout
	if len(d.Inputs) == 0 {
		return l, errors.New("onnx: the graph declares no inputs")
	}
	if err := d.names(m.BatchAxis); err != nil {
		return l, err
	}
	for _, v := range d.Inputs {
		if v.Type.wire() == "" || v.Dims == nil {
			return l, fmt.Errorf("onnx: input %q is no tensor with a shape (%s %v); export the model with one", v.Name, v.Type, v.Dims)
		}
		axis, err := v.axis(m, constant(m, v.Name))
		if err != nil {
			return l, err
		}
		l.Signature.Inputs, l.In = append(l.Signature.Inputs, v.port(axis)), append(l.In, axis)
		if axis >= 0 && v.Dims[axis] > 0 && (l.Limit == 0 || v.Dims[axis] < int64(l.Limit)) {
			l.Limit = int(v.Dims[axis])
		}
	}
	if m.Unbatched {
		l.Limit = 1
	}
	if most := largest(m); l.Limit > 0 && most > l.Limit {
		return l, fmt.Errorf("onnx: the batch dimension is fixed at %d, but queries of the pool have up to %d items; export the model with a dynamic batch dimension", l.Limit, most)
	}
	for _, v := range d.Outputs {
		axis, err := v.axis(m, false)
		if err != nil {
			return l, err
		}
		l.Signature.Outputs, l.Out = append(l.Signature.Outputs, v.port(axis)), append(l.Out, axis)
	}
	return l, nil
}

// largest is the size of the largest query that a pool's network is to take, and
// 0 for any other module, whose batches follow the network.
func largest(m pipelines.Module) int {
	if !m.Sized || len(m.Batches) == 0 {
		return 0
	}
	return slices.Max(m.Batches)
}

// names reports whether axes are given for tensors that there are.
func (d Declaration) names(axes map[string]int) error {
	var have []string
	for _, v := range slices.Concat(d.Inputs, d.Outputs) {
		have = append(have, v.Name)
	}
	for name := range axes {
		if !slices.Contains(have, name) {
			return fmt.Errorf("onnx: batch_axis names %q, but the network has only %s", name, strings.Join(have, ", "))
		}
	}
	return nil
}

func constant(m pipelines.Module, input string) bool {
	return slices.ContainsFunc(m.Inputs, func(b pipelines.Binding) bool { return b.Name == input && b.IsConstant() })
}

// axis is the dimension that is the batch.
func (v ValueInfo) axis(m pipelines.Module, constant bool) (int, error) {
	if axis, ok := m.BatchAxis[v.Name]; ok {
		if v.Dims != nil && axis >= len(v.Dims) {
			return 0, fmt.Errorf("onnx: batch_axis of %q is %d, but its shape %v has dimensions 0 to %d only", v.Name, axis, v.Dims, len(v.Dims)-1)
		}
		return axis, nil
	}
	switch {
	case m.Unbatched, constant && (len(v.Dims) == 0 || v.Dims[0] > 0):
		return pipelines.NoBatchAxis, nil
	case v.Dims != nil && len(v.Dims) == 0:
		return pipelines.NoBatchAxis, nil
	}
	return 0, nil
}

// port is the value for one request.
func (v ValueInfo) port(axis int) pipelines.Port {
	datatype := v.Type.wire()
	if datatype == "" || v.Dims == nil {
		return pipelines.Port{Name: v.Name}
	}
	shape := make([]int64, 0, len(v.Dims))
	for i, n := range v.Dims {
		if i == axis {
			continue
		}
		if n <= 0 {
			n = -1
		}
		shape = append(shape, n)
	}
	return pipelines.Port{Name: v.Name, Datatype: datatype, Shape: shape}
}

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
