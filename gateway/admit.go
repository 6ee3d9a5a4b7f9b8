package gateway

import (
	"slices"
	"strings"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/wire"
)

// admit decides at the door: it checks the tensors, the bound on requests under
// way, and that every module has an executor or will soon. It returns the
// inputs in the order of the declaration.
func (g *Gateway) admit(p *pipeline, gr *graph, q *wire.InferRequest, now dispatch.Time) ([]wire.Tensor, *wire.Error) {
	inputs, err := gr.arrange(q)
	if err != nil {
		return nil, err
	}
	if n := p.accepted.Load(); n > int64(g.options.MaxInFlight) {
		return nil, wire.Errorf(wire.CodeOverloaded, "", "%d requests of pipeline %q are under way; send fewer or scale it up", n-1, p.name)
	}
	for _, n := range gr.nodes {
		since, down := n.station.down()
		if down && now-since > g.options.Grace {
			return nil, wire.Errorf(wire.CodeUnavailable, n.name, "no executor is attached; look at the pipeline's status for why")
		}
	}
	return inputs, nil
}

func (gr *graph) arrange(q *wire.InferRequest) ([]wire.Tensor, *wire.Error) {
	inputs := make([]wire.Tensor, len(gr.inputs))
	seen := make([]bool, len(gr.inputs))
	for _, t := range q.Inputs {
		i := slices.IndexFunc(gr.inputs, func(p pipelines.Port) bool { return p.Name == t.Name })
		if i < 0 {
			return nil, wire.Errorf(wire.CodeInvalid, "", "there is no input %q; pipeline %q takes %s", t.Name, q.Pipeline, names(gr.inputs))
		}
		if seen[i] {
			return nil, wire.Errorf(wire.CodeInvalid, "", "input %q is given twice", t.Name)
		}
		var err *wire.Error
		if inputs[i], err = fit(&gr.inputs[i], t.Tensor); err != nil {
			return nil, err
		}
		seen[i] = true
	}
	if i := slices.Index(seen, false); i >= 0 {
		p := &gr.inputs[i]
		return nil, wire.Errorf(wire.CodeInvalid, "", "input %q is missing; it is %s %v", p.Name, p.Datatype, p.Shape)
	}
	for _, name := range q.Outputs {
		if !slices.ContainsFunc(gr.outputs, func(o output) bool { return o.name == name }) {
			return nil, wire.Errorf(wire.CodeInvalid, "", "there is no output %q in pipeline %q", name, q.Pipeline)
		}
	}
	return inputs, nil
}

// fit checks a tensor against its port and takes off a leading batch dimension
// of 1 that the port does not have.
func fit(p *pipelines.Port, t wire.Tensor) (wire.Tensor, *wire.Error) {
	if p.Datatype != "" && t.Datatype != p.Datatype {
		return t, wire.Errorf(wire.CodeInvalid, "", "input %q is %s where %s is declared", p.Name, t.Datatype, p.Datatype)
	}
	if !shapeFits(p.Shape, t.Shape) {
		if len(t.Shape) != len(p.Shape)+1 || t.Shape[0] != 1 || !shapeFits(p.Shape, t.Shape[1:]) {
			return t, wire.Errorf(wire.CodeInvalid, "", "input %q has shape %v where %v is declared", p.Name, t.Shape, p.Shape)
		}
		t.Shape = t.Shape[1:]
	}
	if err := t.Validate(); err != nil {
		return t, wire.Errorf(wire.CodeInvalid, "", "input %q: %s", p.Name, strings.TrimPrefix(err.Error(), "wire: "))
	}
	return t, nil
}

func shapeFits(want, have []int64) bool {
	if len(want) != len(have) {
		return false
	}
	for i := range want {
		if have[i] < 0 || (want[i] >= 0 && have[i] != want[i]) {
			return false
		}
	}
	return true
}

func names(ports []pipelines.Port) string {
	all := make([]string, len(ports))
	for i, p := range ports {
		all[i] = p.Name
	}
	return strings.Join(all, ", ")
}
