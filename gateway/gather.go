package gateway

import (
	"errors"
	"strings"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
)

// maxRows bounds the items of one fan-out: more is a mistake of the module
// above, and would fill every queue.
const maxRows = 1 << 16

// collect is the value of a node's port with respect to a frame: as it is when
// the frame is of the node's scope, otherwise the rows of all its items below
// the frame, in order, stacked along a new first axis.
func collect(n *node, port int, f *frame) (wire.Tensor, *wire.Error) {
	if n.scope == f.level {
		return f.cells[n.index].values[port], nil
	}
	rows := appendRows(nil, n, port, f)
	if len(rows) == 0 {
		return noRows(n, port), nil
	}
	return stack(n, port, rows)
}

func appendRows(rows []wire.Tensor, n *node, port int, f *frame) []wire.Tensor {
	if n.scope == f.level {
		return append(rows, f.cells[n.index].values[port])
	}
	next := n.scope
	for next.parent != f.level {
		next = next.parent
	}
	kids := f.cells[next.node.index].kids
	for i := range kids {
		rows = appendRows(rows, n, port, &kids[i])
	}
	return rows
}

func stack(n *node, port int, rows []wire.Tensor) (wire.Tensor, *wire.Error) {
	t, err := wire.Stack(rows)
	if err != nil {
		return wire.Tensor{}, wire.Errorf(wire.CodeInternal, n.name, "output %q cannot be gathered: %s",
			n.outs[port], strings.TrimPrefix(err.Error(), "wire: "))
	}
	return t, nil
}

// noRows is a gathered tensor without items. Its row comes from the module's
// signature; a dimension that varies is 0 there.
func noRows(n *node, port int) wire.Tensor {
	t := wire.Tensor{Datatype: wire.FP32, Shape: []int64{0}}
	sig := n.station.signature()
	if sig == nil {
		return t
	}
	p := portOf(sig.Outputs, n.outs[port])
	if p == nil || p.Datatype == "" {
		return t
	}
	t.Datatype = p.Datatype
	for _, d := range p.Shape {
		t.Shape = append(t.Shape, max(d, 0))
	}
	return t
}

func portOf(ports []pipelines.Port, name string) *pipelines.Port {
	for i := range ports {
		if ports[i].Name == name {
			return &ports[i]
		}
	}
	return nil
}

// split cuts the inputs of a scattering node into rows: rows[i][j] is input j
// of item i. Inputs that are one rank higher than the module takes are split,
// the others repeated.
func split(n *node, inputs []wire.Tensor) (rows [][]wire.Tensor, k int, e *wire.Error) {
	splits := make([]bool, len(inputs))
	k = -1
	for j := range inputs {
		if splits[j] = n.splits(j, &inputs[j]); !splits[j] {
			continue
		}
		switch first := int(inputs[j].Shape[0]); {
		case k < 0:
			k = first
		case k != first:
			return nil, 0, wire.Errorf(wire.CodeInternal, n.name, "its inputs have %d and %d rows to fan out; they must have the same number", k, first)
		}
	}
	if k < 0 {
		return nil, 0, wire.Errorf(wire.CodeInternal, n.name, "none of its inputs has rows to fan out")
	}
	if k > maxRows {
		return nil, 0, wire.Errorf(wire.CodeInternal, n.name, "%d rows to fan out; at most %d are allowed", k, maxRows)
	}
	all := make([]wire.Tensor, k*len(inputs))
	rows = make([][]wire.Tensor, k)
	for i := range rows {
		rows[i] = all[i*len(inputs) : (i+1)*len(inputs) : (i+1)*len(inputs)]
	}
	for j := range inputs {
		if err := fill(rows, j, &inputs[j], splits[j]); err != nil {
			return nil, 0, wire.Errorf(wire.CodeInternal, n.name, "input %q cannot be split: %v", n.inputs[j].name, err)
		}
	}
	return rows, k, nil
}

// splits says whether input j is one to split: by its rank where the module
// states a shape, else by whether its maker states that the first dimension
// varies, else by whether it has one.
func (n *node) splits(j int, t *wire.Tensor) bool {
	if len(t.Shape) == 0 {
		return false
	}
	in := &n.inputs[j]
	if sig := n.station.signature(); sig != nil {
		if p := portOf(sig.Inputs, in.name); p != nil && p.Datatype != "" {
			return len(t.Shape) == len(p.Shape)+1
		}
	}
	if in.from == nil {
		return in.varies
	}
	if in.from.scope != n.common {
		return true // gathered
	}
	if sig := in.from.station.signature(); sig != nil {
		p := portOf(sig.Outputs, in.from.outs[in.port])
		if p != nil && p.Datatype != "" && len(p.Shape) > 0 {
			return p.Shape[0] < 0
		}
	}
	return true
}

// fill sets input j of every row. Rows alias the tensor's memory.
func fill(rows [][]wire.Tensor, j int, t *wire.Tensor, splits bool) error {
	if !splits {
		for i := range rows {
			rows[i][j] = *t
		}
		return nil
	}
	all, err := wire.Rows(*t)
	if err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), "wire: "))
	}
	for i := range rows {
		rows[i][j] = all[i]
	}
	return nil
}
