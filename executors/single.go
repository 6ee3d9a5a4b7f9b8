package executors

import (
	"context"
	"errors"
	"slices"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
)

// errBatchAxis is what engines say that only know of a first one.
var errBatchAxis = errors.New("batch_axis is known to the onnxruntime engines only; set engine = \"onnxruntime\", or export the model with the batch first")

// BatchFirst says whether a module has the batch first everywhere, as engines
// need that know no other way. The error says what to do.
func BatchFirst(m pipelines.Module) error {
	if len(m.BatchAxis) > 0 {
		return errBatchAxis
	}
	return nil
}

// Single is a signature with a first dimension of 1, as the tensors of an
// unbatched module have it.
func Single(sig pipelines.Signature) pipelines.Signature {
	add := func(ports []pipelines.Port) []pipelines.Port {
		ports = slices.Clone(ports)
		for i := range ports {
			if ports[i].Datatype != "" {
				ports[i].Shape = append([]int64{1}, ports[i].Shape...)
			}
		}
		return ports
	}
	return pipelines.Signature{Inputs: add(sig.Inputs), Outputs: add(sig.Outputs)}
}

// OneByOne serves an unbatched module with an instance that adds the batch
// dimension itself: it takes the first dimension of 1 off what goes in, and puts
// it before what comes out.
func OneByOne(in Instance) Instance { return oneByOne{in} }

type oneByOne struct{ Instance }

func (o oneByOne) Signature() pipelines.Signature { return Single(o.Instance.Signature()) }

func (o oneByOne) Run(ctx context.Context, items [][]wire.Tensor) ([][]wire.Tensor, error) {
	if len(items) != 1 {
		return nil, wire.Errorf(wire.CodeInvalid, "", "a batch of %d requests for a module that takes one at a time (batching = false)", len(items))
	}
	if err := Check(o.Signature().Inputs, items[0]); err != nil {
		return nil, wire.Errorf(wire.CodeInvalid, "", "%v", err)
	}
	item := slices.Clone(items[0])
	for j := range item {
		item[j].Shape = item[j].Shape[1:]
	}
	answers, err := o.Instance.Run(ctx, [][]wire.Tensor{item})
	if err != nil || len(answers) != 1 {
		return nil, err
	}
	out := slices.Clone(answers[0])
	for j := range out {
		out[j].Shape = append([]int64{1}, out[j].Shape...)
	}
	return [][]wire.Tensor{out}, nil
}
