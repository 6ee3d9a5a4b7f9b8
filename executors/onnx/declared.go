package onnx

import (
	"errors"
	"fmt"
	"slices"

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
