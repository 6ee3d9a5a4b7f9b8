package gateway

import (
	"slices"
	"strings"

	"github.com/harpagon/harpagon/wire"
)

// A pool serves queries. A query is one request of several items, the rows of
// its inputs; it goes to one executor as a batch of its items and nothing else.

// sizeOf is how many rows an item of the node brings.
func (n *Node) sizeOf(inputs []wire.Tensor) int32 {
	if !n.Sized || len(inputs) == 0 || len(inputs[0].Shape) == 0 {
		return 1
	}
	return int32(inputs[0].Shape[0])
}

// AppendRows adds the tensors that an executor is sent for the item.
func (it *Item) AppendRows(rows [][]wire.Tensor, r *Route) [][]wire.Tensor {
	inputs := r.inputs(it.Inputs)
	if !it.Node.Sized {
		return append(rows, inputs)
	}
	n, first := int(it.Size), len(rows)
	rows = slices.Grow(rows, n)
	all := make([]wire.Tensor, n*len(inputs))
	for i := range n {
		rows = append(rows, all[i*len(inputs):(i+1)*len(inputs):(i+1)*len(inputs)])
	}
	for j := range inputs {
		cut, err := wire.Rows(inputs[j])
		if err != nil {
			continue // the executor refuses empty tensors with a reason
		}
		for i := range min(n, len(cut)) {
			rows[first+i][j] = cut[i]
		}
	}
	return rows
}

// Gather puts the answers to an item's rows together.
func (it *Item) Gather(r *Route, rows [][]wire.Tensor) ([]wire.Tensor, *wire.Error) {
	if !it.Node.Sized {
		return r.outputs(rows[0])
	}
	columns := make([][]wire.Tensor, len(it.Node.Outs))
	for _, row := range rows {
		values, err := r.outputs(row)
		if err != nil {
			return nil, err
		}
		for j := range columns {
			columns[j] = append(columns[j], values[j])
		}
	}
	out := make([]wire.Tensor, len(columns))
	for j := range columns {
		t, err := wire.Stack(columns[j])
		if err != nil {
			return nil, wire.Errorf(wire.CodeInternal, it.Node.Name, "output %q cannot be put together: %s", it.Node.Outs[j], strings.TrimPrefix(err.Error(), "wire: "))
		}
		out[j] = t
	}
	return out, nil
}
