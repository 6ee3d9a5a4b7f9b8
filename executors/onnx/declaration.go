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
// whatever operators, operator set and data types. Shapes include the batch
// dimension; a file may give none.
type Declaration struct {
	Inputs  []*ValueInfo // without those that initializers fill
	Outputs []*ValueInfo
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
	var o Outline
	if err := read(raw, &o); err != nil {
		return Declaration{}, err
	}
	g := o.GetGraph()
	if len(g.GetNodes()) == 0 || len(g.GetOutputs()) == 0 {
		return Declaration{}, damaged(errors.New("it holds no nodes or no outputs"))
	}
	filled := func(v *ValueInfo) bool {
		return slices.ContainsFunc(g.Initializers, func(t *OutlineTensor) bool { return t.Name == v.Name })
	}
	return Declaration{Inputs: slices.DeleteFunc(g.Inputs, filled), Outputs: g.Outputs}, nil
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
		dims := v.dims()
		if v.element().wire() == "" || dims == nil {
			return l, fmt.Errorf("onnx: input %q is no tensor with a shape (%s %v); export the model with one", v.Name, v.element(), dims)
		}
		axis, err := v.axis(m, constant(m, v.Name))
		if err != nil {
			return l, err
		}
		l.Signature.Inputs, l.In = append(l.Signature.Inputs, v.port(axis)), append(l.In, axis)
		if axis >= 0 && dims[axis] > 0 && (l.Limit == 0 || dims[axis] < int64(l.Limit)) {
			l.Limit = int(dims[axis])
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
func (v *ValueInfo) axis(m pipelines.Module, constant bool) (int, error) {
	dims := v.dims()
	if axis, ok := m.BatchAxis[v.Name]; ok {
		if dims != nil && axis >= len(dims) {
			return 0, fmt.Errorf("onnx: batch_axis of %q is %d, but its shape %v has dimensions 0 to %d only", v.Name, axis, dims, len(dims)-1)
		}
		return axis, nil
	}
	switch {
	case m.Unbatched, constant && (len(dims) == 0 || dims[0] > 0):
		return pipelines.NoBatchAxis, nil
	case dims != nil && len(dims) == 0:
		return pipelines.NoBatchAxis, nil
	}
	return 0, nil
}

// port is the value for one request.
func (v *ValueInfo) port(axis int) pipelines.Port {
	datatype, dims := v.element().wire(), v.dims()
	if datatype == "" || dims == nil {
		return pipelines.Port{Name: v.Name}
	}
	shape := make([]int64, 0, len(dims))
	for i, n := range dims {
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
	var o Outline
	if read(raw, &o) != nil {
		return nil, nil
	}
	var names []string
	for _, t := range o.GetGraph().tensors() {
		for _, e := range t.GetExternal() {
			if e.Key == "location" && e.Value != "" {
				names = append(names, e.Value)
			}
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	for _, name := range names {
		if !filepath.IsLocal(filepath.FromSlash(name)) {
			return nil, fmt.Errorf("onnx: %s keeps tensors in %q, which is not in its own folder; save the model with its data inside, or beside it", path, name)
		}
	}
	return names, nil
}

// tensors are those of a graph, and of the graphs that its nodes hold.
func (g *OutlineGraph) tensors() []*OutlineTensor {
	all := g.GetInitializers()
	for _, s := range g.GetSparse() {
		all = append(all, s.GetValues(), s.GetIndices())
	}
	for _, n := range g.GetNodes() {
		for _, a := range n.GetAttributes() {
			all = append(append(all, a.GetTensor()), a.GetTensors()...)
			for _, within := range append(a.GetGraphs(), a.GetGraph()) {
				all = append(all, within.tensors()...)
			}
		}
	}
	return all
}
