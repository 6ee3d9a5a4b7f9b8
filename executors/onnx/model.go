package onnx

import (
	"fmt"

	"github.com/harpagon/harpagon/internal/osutil"
)

// maxFile bounds a model file; larger networks belong to another engine.
const maxFile = 1 << 30

// Model is a network as the file holds it.
type Model struct {
	IRVersion int64
	Producer  string
	Opset     int64 // of the default operator set
	Graph     Graph
}

// Graph is a list of nodes in topological order with the tensors they use.
type Graph struct {
	Name         string
	Nodes        []Node
	Initializers []Tensor
	Inputs       []ValueInfo
	Outputs      []ValueInfo
}

// Node applies one operator.
type Node struct {
	Name       string
	Op         string
	Domain     string
	Inputs     []string // an empty name is an optional input left out
	Outputs    []string
	Attributes []Attribute
}

// Attribute is a constant argument of a node; Kind says which field holds it.
type Attribute struct {
	Name   string
	Kind   AttributeKind
	Float  float32
	Int    int64
	Text   string
	Floats []float32
	Ints   []int64
	Tensor *Tensor
}

// AttributeKind is the type of an attribute, numbered as in the schema.
type AttributeKind int32

// The kinds of attributes that are read; others are kept by number only.
const (
	KindFloat  AttributeKind = 1
	KindInt    AttributeKind = 2
	KindString AttributeKind = 3
	KindTensor AttributeKind = 4
	KindFloats AttributeKind = 6
	KindInts   AttributeKind = 7
)

// DataType of tensor elements, numbered as in the schema.
type DataType int32

// The data types that programs name. Elements are read of Float and Int64 only.
const (
	Float    DataType = 1
	Int64    DataType = 7
	String   DataType = 8
	Bool     DataType = 9
	Float16  DataType = 10
	Double   DataType = 11
	BFloat16 DataType = 16
)

var dataTypeNames = [...]string{
	"undefined", "float", "uint8", "int8", "uint16", "int16", "int32", "int64", "string",
	"bool", "float16", "double", "uint32", "uint64", "complex64", "complex128", "bfloat16",
}

// String is the schema's name of the type.
func (d DataType) String() string {
	if d >= 0 && int(d) < len(dataTypeNames) {
		return dataTypeNames[d]
	}
	return fmt.Sprintf("data type %d", int32(d))
}

// Tensor is a constant. Floats or Ints holds its elements in row-major order,
// by Type.
type Tensor struct {
	Name   string
	Type   DataType
	Dims   []int64
	Floats []float32
	Ints   []int64
}

// ValueInfo declares an input or output. A dimension of -1 is symbolic.
type ValueInfo struct {
	Name string
	Type DataType
	Dims []int64
}

// ReadFile reads a model from a file. Errors name the file.
func ReadFile(path string) (*Model, error) {
	raw, err := readFile(path)
	if err != nil {
		return nil, err
	}
	m, err := decode(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}

func readFile(path string) ([]byte, error) {
	raw, err := osutil.ReadFile(path, maxFile)
	if err != nil {
		return nil, fmt.Errorf("onnx: %w; check the module's model attribute", err)
	}
	return raw, nil
}

// elements is the product of the dimensions, or an error when one is negative
// or the product does not fit.
func elements(dims []int64) (int, error) {
	n := int64(1)
	for _, d := range dims {
		if d < 0 {
			return 0, fmt.Errorf("a dimension of %d", d)
		}
		if d != 0 && n > maxFile/d {
			return 0, fmt.Errorf("dimensions %v are too large", dims)
		}
		n *= d
	}
	return int(n), nil
}
