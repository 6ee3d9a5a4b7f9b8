package pipelines

import (
	"maps"
	"slices"
)

// batching checks what a module says of its batch dimension.
func (v *validator) batching(m *Module, path string) {
	if m.Unbatched {
		v.unbatched(m, path)
	}
	if len(m.BatchAxis) == 0 {
		return
	}
	at := path + ".batch_axis"
	for _, name := range slices.Sorted(maps.Keys(m.BatchAxis)) {
		if axis := m.BatchAxis[name]; axis != NoBatchAxis && (axis < 0 || axis >= MaxRank) {
			v.errorf(at, "Invalid batch axis", "The batch axis of %q is %d; dimensions are counted from 0.", name, axis)
		}
	}
	switch {
	case m.Function != "":
		v.errorf(at, "Batch axis of a function", "A function takes one request at a time and has no batch dimension.")
	case len(m.Command) > 0 || IsRemote(m.Model):
		v.errorf(at, "Batch axis of a server", "A server is sent batches along the first dimension, or one request at a time (batching = false); another batch axis is known to the onnxruntime engines only.")
	case m.Engine == "gorgonia":
		v.errorf(at, "Batch axis without onnxruntime", "The engine %q takes batches along the first dimension only; set engine = \"onnxruntime\".", m.Engine)
	}
}

func (v *validator) unbatched(m *Module, path string) {
	at := path + ".batching"
	if m.Function != "" {
		v.errorf(at, "Batching of a function", "A function takes one request at a time anyway; batching is for networks.")
	}
	if len(m.BatchAxis) > 0 {
		v.errorf(path+".batch_axis", "Batch axis without batches", "With batching = false no tensor has a batch dimension; take one of the two out.")
	}
	if slices.ContainsFunc(m.Batches, func(n int) bool { return n != 1 }) {
		v.errorf(path+".batches", "Batches without batching", "With batching = false the only batch size is 1; take batches out.")
	}
	if slices.ContainsFunc(m.Profile.Points, func(p Point) bool { return p.Batch > 1 }) {
		v.errorf(at, "Batches without batching", "With batching = false the only batch size is 1, but the profile has larger ones.")
	}
}

// plainConstant checks a constant as far as it can be without the input that it is
// for. A text that is a name in the pipeline was meant for a reference.
func (v *validator) plainConstant(p *Pipeline, value any, at string) {
	name, _ := value.(string)
	switch {
	case p.Module(name) != nil:
		v.errorf(at, "Not a reference", "Refer to an output of the module as module.%s.OUTPUT; in quotes it is a text.", name)
	case p.Input(name) != nil:
		v.errorf(at, "Not a reference", "Refer to the input of the pipeline as input.%s; in quotes it is a text.", name)
	default:
		if _, err := ConstantAt(value, Port{}); err != nil {
			v.errorf(at, "Invalid constant", "%s.", sentence(err))
		}
	}
}
