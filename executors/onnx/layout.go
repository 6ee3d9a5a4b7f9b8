package onnx

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/harpagon/harpagon/pipelines"
)

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

// names says whether axes are given for tensors that there are.
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
