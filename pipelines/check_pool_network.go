package pipelines

import (
	"slices"
	"strings"
)

// poolNetwork checks what a pool serves, its ports, and how queries are
// distributed.
func (v *validator) poolNetwork(p *Pool, path string) {
	if p.Overhead < 0 {
		v.errorf(path+".overhead", "Invalid overhead", "The overhead is the time that a query takes besides its profile; it cannot be below zero.")
	}
	if c := p.Matching.Coefficients; c != "" && c != CoefficientsPlan && c != CoefficientsPaper {
		v.errorf(path+".dispatch.coefficients", "Unknown coefficients", "%q names no coefficients: %q takes those of the plan, %q the paper's.", c, CoefficientsPlan, CoefficientsPaper)
	}
	if p.Matching.Width < WidthAll {
		v.errorf(path+".dispatch.width", "Invalid width", "The width is how many waiting queries a decision looks at for each instance, from 1.")
	}
	for i := range p.Inputs {
		v.input(&p.Inputs[i], path+".input."+p.Inputs[i].Name)
	}
	m := p.Served().Modules[0]
	switch {
	case !p.Emulated():
	case m.Engine == EngineRemote || m.Engine == EngineProcess:
		v.served(&m, path)
		return
	case len(p.Inputs)+len(p.Outputs) > 0:
		v.errorf(path, "Ports without a model", "The pool is emulated by its profile, which answers input %q with output %q; ports are declared for a model.", PoolInput, PoolOutput)
		return
	default:
		return
	}
	v.served(&m, path)
	if m.Model != "" && !strings.Contains(m.Model, "://") {
		v.modelFile(&m, path)
	}
	v.batching(&m, path)
	if len(p.Inputs) == 0 {
		v.errorf(path, "No input", "A pool with a model has at least one input block with a datatype and the shape of one item: input \"NAME\" { datatype = \"FP32\", shape = [13] }.")
	}
	if len(p.Outputs) == 0 {
		v.errorf(path, "No output", "A pool with a model has at least one output block: output \"NAME\" { value = model.NAME }.")
	}
	if v.signature != nil && !v.modelless[m.Model] {
		v.poolShapes(p, &m, path)
	}
}

// poolShapes compares the ports of a pool with those of its network.
func (v *validator) poolShapes(p *Pool, m *Module, path string) {
	sig, err := v.signatureOf(m)
	if err != nil {
		v.errorf(orPlace(v, path, ".model"), "Unusable model", "%v", err)
		return
	}
	for _, in := range p.Inputs {
		at := path + ".input." + in.Name
		k := slices.IndexFunc(sig.Inputs, func(own Port) bool { return own.Name == in.Name })
		switch {
		case len(sig.Inputs) == 0:
		case k < 0:
			v.errorf(at, "Unknown input", "%s has no input %q.%s", what(m), in.Name, v.suggest(in.Name, portNames(sig.Inputs)))
		case sig.Inputs[k].Datatype != "" && sig.Inputs[k].Datatype != in.Datatype:
			v.errorf(at+".datatype", "Wrong datatype", "%s takes %s at %q, not %s.", what(m), sig.Inputs[k].Datatype, in.Name, in.Datatype)
		case sig.Inputs[k].Datatype != "" && !itemFits(in.Shape[1:], sig.Inputs[k].Shape):
			v.errorf(at+".shape", "Wrong shape", "%s takes items of shape %v at %q, not %v; the size of the query comes before these dimensions.", what(m), sig.Inputs[k].Shape, in.Name, in.Shape[1:])
		}
	}
	for _, own := range sig.Inputs {
		if !slices.ContainsFunc(p.Inputs, func(in Port) bool { return in.Name == own.Name }) && len(p.Inputs) > 0 {
			v.errorf(path, "Input not fed", "%s has the input %q, which the pool does not declare: input %q { datatype = %q, shape = %v }.", what(m), own.Name, own.Name, own.Datatype, own.Shape)
		}
	}
	for _, out := range p.Outputs {
		if len(sig.Outputs) > 0 && !slices.Contains(portNames(sig.Outputs), out.From.Port) {
			v.errorf(path+".output."+out.Name, "Unknown output", "%s has no output %q.%s", what(m), out.From.Port, v.suggest(out.From.Port, portNames(sig.Outputs)))
		}
	}
}

func portNames(ports []Port) []string {
	var names []string
	for _, p := range ports {
		names = append(names, p.Name)
	}
	return names
}

// itemFits compares the shape of one item with that of the network's; what varies
// fits anything.
func itemFits(declared, own []int64) bool {
	if len(declared) != len(own) {
		return false
	}
	for i, d := range declared {
		if d >= 0 && own[i] >= 0 && d != own[i] {
			return false
		}
	}
	return true
}
