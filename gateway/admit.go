package gateway

import (
	"slices"

	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/wire"
)

// admit decides at the door: it checks the tensors, the bound on requests under
// way, this one among them, and that every module has an executor or will soon.
// It returns the inputs in the order of the declaration.
func (g *Gateway) admit(gr *graph, underWay int64, q *wire.InferRequest, now dispatch.Time) ([]wire.Tensor, *wire.Error) {
	inputs, err := gr.arrange(q)
	if err != nil {
		return nil, err
	}
	if g.stopping.Load() {
		return nil, wire.Errorf(wire.CodeUnavailable, "", stopping)
	}
	if underWay > int64(g.options.MaxInFlight) {
		return nil, wire.Errorf(wire.CodeOverloaded, "", "%d requests of %s are under way; send fewer or scale it up", underWay-1, gr.title)
	}
	for _, n := range gr.nodes {
		since, down := n.station.down()
		if down && now-since > g.options.Grace {
			return nil, wire.Errorf(wire.CodeUnavailable, n.Module, "no executor is attached; look at the pipeline's status for why")
		}
	}
	return inputs, nil
}

func (gr *graph) arrange(q *wire.InferRequest) ([]wire.Tensor, *wire.Error) {
	if gr.function != nil && len(gr.inputs) == 0 {
		return nil, checkUndeclared(q.Inputs)
	}
	inputs, err := wire.Arrange(gr.inputs, q.Inputs, gr.title)
	if err != nil {
		return nil, err
	}
	if err := gr.measureQuery(inputs); err != nil {
		return nil, err
	}
	if gr.function != nil {
		return inputs, nil // its answers say what outputs it has
	}
	for _, name := range q.Outputs {
		if !slices.ContainsFunc(gr.outputs, func(o output) bool { return o.name == name }) {
			return nil, wire.Errorf(wire.CodeInvalid, "", "there is no output %q in pipeline %q", name, q.Pipeline)
		}
	}
	return inputs, nil
}
