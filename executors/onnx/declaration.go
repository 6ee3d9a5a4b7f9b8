package onnx

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/harpagon/harpagon/internal/osutil"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
)

// Declaration is what a model file declares of its inputs and outputs, with whatever operators,
// operator set and data types. Shapes include the batch dimension; a file may give none.
type Declaration struct {
	Inputs   []*ValueInfo // without those that initializers fill
	Defaults []*ValueInfo // inputs that initializers fill where nothing is fed
	Outputs  []*ValueInfo

	external []string // files in which tensors are kept
}

// overridable is the first version of the format in which what initializers fill may be
// fed instead.
const overridable = 4

// ReadDeclaration reads it from a file and passes over everything else, so
// that it also takes models that Compile does not. Errors name the file.
func ReadDeclaration(path string) (Declaration, error) {
	raw, err := ReadRaw(path)
	if err != nil {
		return Declaration{}, err
	}
	d, err := declared(raw)
	if err != nil {
		return d, fmt.Errorf("%s: %w", path, err)
	}
	return d, d.beside(path)
}

// beside reports whether all that is kept in other files is there.
func (d Declaration) beside(path string) error {
	if err := inFolder(path, d.external); err != nil {
		return err
	}
	for _, name := range d.external {
		file := filepath.Join(filepath.Dir(path), filepath.FromSlash(name))
		if _, err := os.Stat(file); err != nil {
			return fmt.Errorf("onnx: %s keeps tensors in %s, which cannot be read (%w); put it there, or save the model with its data inside", path, file, err)
		}
	}
	return nil
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
	filled := map[string]bool{}
	for _, t := range g.Initializers {
		filled[t.Name] = true
	}
	d := Declaration{Outputs: g.Outputs, external: g.external()}
	for _, v := range g.Inputs {
		switch {
		case !filled[v.Name]:
			d.Inputs = append(d.Inputs, v)
		case o.IrVersion >= overridable:
			d.Defaults = append(d.Defaults, v)
		}
	}
	return d, nil
}

// inputs are those of a module: all that must be fed, and of the others those that it feeds.
func (d Declaration) inputs(m pipelines.Module) []*ValueInfo {
	all := slices.Clone(d.Inputs)
	for _, v := range d.Defaults {
		if slices.ContainsFunc(m.Inputs, func(b pipelines.Binding) bool { return b.Name == v.Name }) {
			all = append(all, v)
		}
	}
	return all
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

// Layout states how the tensors of single requests lie in those of the network.
type Layout struct {
	Signature pipelines.Signature // for one request, with the inputs that are constant
	In, Out   []int               // by input and output: the batch axis, or pipelines.NoBatchAxis
	Limit     int                 // the largest batch that the inputs take; 0 where it is open
	Whole     bool                // all outputs of the network are among those of the signature
}

// Layout is the declaration for one request of a module. The batch is the first
// dimension of every tensor, unless the module declares another. There is none in a scalar, and
// in a constant or an input with a default whose first dimension is fixed. An input needs a
// datatype of the wire and a shape; an output of which the file states less may be any tensor,
// and one that is none is not among those of the signature.
func (d Declaration) Layout(m pipelines.Module) (Layout, error) {
	var l Layout
	inputs := d.inputs(m)
	if len(inputs) == 0 {
		return l, errors.New("onnx: the graph declares no inputs")
	}
	if err := d.names(m.BatchAxis); err != nil {
		return l, err
	}
	symbols, loops, looped := map[string]bool{}, d.loops(m), map[string]int{}
	for i, v := range inputs {
		dims := v.dims()
		if v.element().wire() == "" || dims == nil {
			return l, fmt.Errorf("onnx: input %q is no tensor with a shape and a datatype of the Open Inference Protocol (it is %s %v); export the model with one, or without the input", v.Name, v.Type.words(), dims)
		}
		axis, port, err := v.fed(m, constant(m, v.Name) || i >= len(d.Inputs), loops[v.Name])
		if err != nil {
			return l, err
		}
		if port.Loop != "" {
			looped[port.Loop] = axis
		}
		if axis >= 0 {
			symbols[v.symbol(axis)] = true
		}
		l.Signature.Inputs, l.In = append(l.Signature.Inputs, port), append(l.In, axis)
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
		if why := v.unusable(); why != "" {
			note(&l.Signature.Unusable, v.Name, why)
			continue
		}
		_, said := m.BatchAxis[v.Name]
		if at, goesBack := looped[v.Name]; goesBack && !said {
			axis, said = at, true
		}
		if !said && axis >= 0 {
			if why := v.doubt(axis, l.Limit, symbols); why != "" {
				note(&l.Signature.Doubts, v.Name, why)
			}
		}
		l.Signature.Outputs, l.Out = append(l.Signature.Outputs, v.port(axis)), append(l.Out, axis)
	}
	l.Whole = len(l.Out) == len(d.Outputs)
	return l, nil
}

func note(to *map[string]string, name, text string) {
	if *to == nil {
		*to = map[string]string{}
	}
	(*to)[name] = text
}

// Only is the layout with these outputs alone and those that go back to inputs, so that nothing else
// is computed; with all where none is named.
func (l Layout) Only(outputs []string) (Layout, error) {
	if len(outputs) == 0 {
		if len(l.Out) == 0 {
			return l, errors.New("onnx: no output of the network is a tensor")
		}
		return l, nil
	}
	all, axes := l.Signature.Outputs, l.Out
	outputs = slices.Concat(outputs, l.Signature.Loops())
	l.Signature.Outputs, l.Out = nil, nil
	for i, p := range all {
		if slices.Contains(outputs, p.Name) {
			l.Signature.Outputs, l.Out = append(l.Signature.Outputs, p), append(l.Out, axes[i])
		}
	}
	l.Whole = l.Whole && len(l.Out) == len(all)
	for _, name := range outputs {
		if why := l.Signature.Unusable[name]; why != "" {
			return l, fmt.Errorf("onnx: output %q %s", name, why)
		}
		if !slices.ContainsFunc(all, func(p pipelines.Port) bool { return p.Name == name }) {
			return l, fmt.Errorf("onnx: the network has no output %q", name)
		}
	}
	return l, nil
}

// unusable reports why an output cannot be used; empty where it can, or nothing is known of it.
func (v *ValueInfo) unusable() string {
	switch {
	case v.Type == nil || v.element().wire() != "" || v.Type.GetTensor() != nil && v.element() == 0:
		return ""
	case v.Type.GetTensor() != nil:
		return fmt.Sprintf("is %s, which the Open Inference Protocol has no datatype for; cast it in the network", v.Type.words())
	case v.Type.GetSequence().GetElement().GetMap() != nil:
		return fmt.Sprintf("is %s, and no tensor; export the model with options={\"zipmap\": False} (skl2onnx), so that it is one", v.Type.words())
	}
	return fmt.Sprintf("is %s, and no tensor; export the model with a tensor in its place", v.Type.words())
}

// words are the type as ONNX writes it.
func (t *Type) words() string {
	switch {
	case t.GetTensor() != nil:
		return fmt.Sprintf("tensor(%s)", t.Tensor.Element)
	case t.GetSequence() != nil:
		return fmt.Sprintf("sequence(%s)", t.Sequence.Element.words())
	case t.GetMap() != nil:
		return fmt.Sprintf("map(%s, %s)", t.Map.Key, t.Map.Value.words())
	case t.GetOptional() != nil:
		return fmt.Sprintf("optional(%s)", t.Optional.Element.words())
	case t.GetSparse() != nil:
		return fmt.Sprintf("sparse_tensor(%s)", t.Sparse.Element)
	}
	return "of an unknown type"
}

// doubt reports why an output may not have the batch in the axis; empty where it seems to. A
// file may declare less than the network does, so that only a run can decide.
func (v *ValueInfo) doubt(axis, limit int, inputs map[string]bool) string {
	dims := v.dims()
	if len(dims) == 0 {
		return ""
	}
	symbol := v.symbol(axis)
	switch size := dims[axis]; {
	case size > 0 && size != int64(limit) && limit > 0:
		return fmt.Sprintf("has %d rows as the network declares it, and its inputs a batch of %d", size, limit)
	case size > 0 && limit == 0:
		return fmt.Sprintf("has %d rows whatever the batch, as the network declares it", size)
	case size <= 0 && symbol != "" && !generated(symbol) && !inputs[symbol] && !inputs[""] && len(inputs) > 0:
		return fmt.Sprintf("has %q rows as the network declares it, which is another dimension than the batch of its inputs", symbol)
	}
	return ""
}

// generated reports whether an exporter numbered a dimension that it had no name for, as
// in unk__7, Concatoutput_dim_0 or p2o.DynamicDimension.3, which means nothing then.
func generated(symbol string) bool {
	last := symbol[len(symbol)-1]
	return '0' <= last && last <= '9'
}

// symbol is the name of a dimension; empty where it has none.
func (v *ValueInfo) symbol(axis int) string {
	dims := v.GetType().GetTensor().GetShape().GetDims()
	if axis >= len(dims) {
		return ""
	}
	return dims[axis].GetSymbol()
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
	for _, v := range slices.Concat(d.Inputs, d.Defaults, d.Outputs) {
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
// relative to its folder, sorted; none where everything is inside. A file that is no ONNX model
// names none: loading it reports that. The error is that of reading the file, or of a name that
// leads out of the folder.
func ExternalData(path string) ([]string, error) {
	info, err := osutil.StatFile(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxFile {
		return nil, nil // a model of that size holds its tensors itself, or is unreadable
	}
	raw, err := osutil.ReadFile(path, maxFile)
	if err != nil {
		return nil, err
	}
	var o Outline
	if read(raw, &o) != nil {
		return nil, nil
	}
	names := o.GetGraph().external()
	if err := inFolder(path, names); err != nil {
		return nil, err
	}
	return names, nil
}

func inFolder(path string, names []string) error {
	for _, name := range names {
		if !filepath.IsLocal(filepath.FromSlash(name)) {
			return fmt.Errorf("onnx: %s keeps tensors in %q, which is not in its own folder; save the model with its data inside, or beside it", path, name)
		}
	}
	return nil
}

// external are the files in which tensors are kept, sorted.
func (g *OutlineGraph) external() (names []string) {
	for _, t := range g.tensors() {
		for _, e := range t.GetExternal() {
			if e.Key == "location" && e.Value != "" {
				names = append(names, e.Value)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
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
