package onnx

import (
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// Fields of the schema that Prune takes apart.
const (
	fieldGraph  = 7
	fieldNode   = 1
	fieldOutput = 12
)

// Prune is the bytes of a model with these outputs alone, and without the nodes that only
// the others need. What is left stays as it is, whatever it is.
func Prune(raw []byte, outputs []string) ([]byte, error) {
	var o Outline
	if err := read(raw, &o); err != nil {
		return nil, err
	}
	g := o.GetGraph()
	needed := g.needed(outputs)
	graph := func(in []byte) []byte {
		node, output := -1, -1
		return rewrite(in, func(num protowire.Number, value []byte) ([]byte, bool) {
			switch num {
			case fieldNode:
				node++
				return value, needed[node]
			case fieldOutput:
				output++
				return value, slices.Contains(outputs, g.Outputs[output].Name)
			}
			return value, true
		})
	}
	return rewrite(raw, func(num protowire.Number, value []byte) ([]byte, bool) {
		if num == fieldGraph {
			value = graph(value)
		}
		return value, true
	}), nil
}

// rewrite copies a message, with what change makes of each embedded one. The message has been
// read before, so that it is well-formed.
func rewrite(raw []byte, change func(num protowire.Number, value []byte) (to []byte, keep bool)) []byte {
	to := make([]byte, 0, len(raw))
	for len(raw) > 0 {
		num, kind, tag := protowire.ConsumeTag(raw)
		size := tag + protowire.ConsumeFieldValue(num, kind, raw[tag:])
		if kind != protowire.BytesType {
			to = append(to, raw[:size]...)
		} else {
			value, _ := protowire.ConsumeBytes(raw[tag:])
			if value, keep := change(num, value); keep {
				to = protowire.AppendBytes(protowire.AppendTag(to, num, kind), value)
			}
		}
		raw = raw[size:]
	}
	return to
}

// needed reports for each node whether one of the outputs depends on it.
func (g *OutlineGraph) needed(outputs []string) []bool {
	from := map[string]int{}
	for i, n := range g.GetNodes() {
		for _, name := range n.Outputs {
			from[name] = i
		}
	}
	needed := make([]bool, len(g.GetNodes()))
	for open := slices.Clone(outputs); len(open) > 0; {
		name := open[len(open)-1]
		open = open[:len(open)-1]
		if i, made := from[name]; made && name != "" && !needed[i] {
			needed[i] = true
			open = append(open, g.Nodes[i].reads()...)
		}
	}
	return needed
}

// reads are the names that a node takes in, with those that graphs within it may take from
// around them.
func (n *OutlineNode) reads() []string {
	all := slices.Clone(n.GetInputs())
	for _, a := range n.GetAttributes() {
		for _, g := range append(slices.Clone(a.GetGraphs()), a.GetGraph()) {
			for _, inner := range g.GetNodes() {
				all = append(all, inner.reads()...)
			}
			for _, o := range g.GetOutputs() {
				all = append(all, o.GetName())
			}
		}
	}
	return all
}
