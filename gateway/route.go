package gateway

import (
	"slices"
	"strings"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/attach"
)

// Route says how the tensors of a node's items lie in the signature of an
// executor.
type Route struct {
	Node     *Node
	Err      *wire.Error // why the executor cannot serve the node
	in, out  []int       // in[j] is the binding for input j; out[j] is the output for Outs[j]
	straight bool        // in and out change nothing
}

// newRoute makes the route of an executor for a node.
func newRoute(n *Node, h *attach.Hello) *Route {
	signature := h.SignatureOf(n.Resident)
	if signature == nil {
		return &Route{Node: n, Err: wire.Errorf(wire.CodeInternal, n.Name, "executor %q does not run %s", h.Executor, n.Resident)}
	}
	r := &Route{Node: n, straight: len(n.Outs) == len(signature.Outputs)}
	for j, p := range signature.Inputs {
		i := slices.IndexFunc(n.Inputs, func(in Input) bool { return in.Name == p.Name })
		if i < 0 && r.Err == nil {
			r.Err = wire.Errorf(wire.CodeInternal, n.Name, "executor %q takes an input %q that the module does not bind", h.Executor, p.Name)
		}
		r.in = append(r.in, i)
		r.straight = r.straight && i == j
	}
	if len(n.Inputs) != len(r.in) && r.Err == nil {
		r.Err = wire.Errorf(wire.CodeInternal, n.Name, "executor %q takes %d inputs, but the module binds %d", h.Executor, len(r.in), len(n.Inputs))
	}
	for j, name := range n.Outs {
		i := slices.IndexFunc(signature.Outputs, func(p pipelines.Port) bool { return p.Name == name })
		if i < 0 && r.Err == nil {
			r.Err = wire.Errorf(wire.CodeInternal, n.Name, "executor %q has no output %q", h.Executor, name)
		}
		r.out = append(r.out, i)
		r.straight = r.straight && i == j
	}
	return r
}

func (r *Route) inputs(bound []wire.Tensor) []wire.Tensor {
	if r.straight || r.Err != nil {
		return bound
	}
	return pick(bound, r.in)
}

// outputs are those of the node in an answer. An executor may be another project's, so what
// it says is not taken for granted: as many outputs as it promised, each with as much data
// as its shape says.
func (r *Route) outputs(made []wire.Tensor) ([]wire.Tensor, *wire.Error) {
	switch {
	case r.Err != nil:
		return nil, r.Err
	case len(r.out) > 0 && slices.Max(r.out) >= len(made):
		return nil, wire.Errorf(wire.CodeInternal, r.Node.Name, "an answer has %d outputs; its executor promised more", len(made))
	}
	out := made
	if !r.straight || len(made) != len(r.out) {
		out = pick(made, r.out)
	}
	for j := range out {
		if err := out[j].Validate(); err != nil {
			return nil, wire.Errorf(wire.CodeInternal, r.Node.Name, "output %q of an answer: %s", r.Node.Outs[j], strings.TrimPrefix(err.Error(), "wire: "))
		}
	}
	return out, nil
}

func pick(from []wire.Tensor, at []int) []wire.Tensor {
	out := make([]wire.Tensor, len(at))
	for j, i := range at {
		out[j] = from[i]
	}
	return out
}
