package gateway

import (
	"slices"
	"strings"

	"github.com/harpagon/harpagon/wire"
)

// A pool serves queries. A query is one request of several items, the rows of
// its inputs; it goes to one executor as a batch of its items and nothing else.

// measureQuery refuses queries that no profile says anything of.
func (gr *graph) measureQuery(inputs []wire.Tensor) *wire.Error {
	if gr.largest == 0 {
		return nil
	}
	for i := range inputs {
		name, size := gr.inputs[i].Name, inputs[i].Shape[0]
		switch {
		case size < 1:
			return wire.Errorf(wire.CodeInvalid, "", "input %q has no rows; a query has at least one item", name)
		case size > int64(gr.largest):
			return wire.Errorf(wire.CodeInvalid, "", "a query of %d items is beyond the profile of pool %q, which ends at %d; split the query, or measure larger ones",
				size, gr.deployment.Pipeline.Name, gr.largest)
		case size != inputs[0].Shape[0]:
			return wire.Errorf(wire.CodeInvalid, "", "input %q has %d rows and input %q has %d; a query has as many of each", gr.inputs[0].Name, inputs[0].Shape[0], name, size)
		}
	}
	return nil
}

// size is how many items a request of the node brings.
func (it *item) size() int {
	if !it.node.declared.Sized || len(it.inputs) == 0 || len(it.inputs[0].Shape) == 0 {
		return 1
	}
	return int(it.inputs[0].Shape[0])
}

// appendRows adds the tensors that an executor is sent for the item.
func (it *item) appendRows(rows [][]wire.Tensor, r *route) [][]wire.Tensor {
	inputs := r.inputs(it.inputs)
	if !it.node.declared.Sized {
		return append(rows, inputs)
	}
	n, first := it.size(), len(rows)
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

// gather puts the answers to an item's rows together.
func (it *item) gather(r *route, rows [][]wire.Tensor) ([]wire.Tensor, *wire.Error) {
	if !it.node.declared.Sized {
		return r.outputs(rows[0])
	}
	columns := make([][]wire.Tensor, len(it.node.outs))
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
			return nil, wire.Errorf(wire.CodeInternal, it.node.Module, "output %q cannot be put together: %s", it.node.outs[j], strings.TrimPrefix(err.Error(), "wire: "))
		}
		out[j] = t
	}
	return out, nil
}

// rows is how many rows a batch has.
func (f *flight) rows() int {
	n := 0
	for _, it := range f.items {
		n += it.size()
	}
	return n
}
