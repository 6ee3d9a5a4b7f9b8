package steps

import (
	"context"
	"fmt"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
)

// Identity gives its input tensor, whatever it is, unchanged.
//
//	input   any
//	output  the same tensor
func Identity() Function {
	f := Plain(pipelines.Signature{
		Inputs:  []pipelines.Port{{Name: "input"}},
		Outputs: []pipelines.Port{{Name: "output"}},
	}, func(_ context.Context, inputs []wire.Tensor) ([]wire.Tensor, error) {
		return inputs, nil
	})
	f.Doc = "gives what it gets"
	return f
}

// ArgmaxLabel names the class with the highest score; the first of equals.
//
//	scores      FP32 [K], one per label
//	label       BYTES []
//	confidence  FP32 [], a probability
//
// Parameters:
//
//	labels  the K names; required
//	scores  "logits" (default): the confidence is their softmax;
//	        "probabilities": the confidence is the highest score
func ArgmaxLabel() Function {
	return Function{Doc: "the name of the highest score", Prepare: prepareArgmax}
}

func prepareArgmax(p *Parameters) (Step, error) {
	labels := p.Texts("labels")
	logits := p.Choice("scores", "logits", "probabilities") == "logits"
	p.Need("labels")
	if labels != nil && len(labels) == 0 {
		p.Failf("labels", "must name at least one label")
	}
	return Step{
		Signature: pipelines.Signature{
			Inputs: []pipelines.Port{fp32("scores", int64(len(labels)))},
			Outputs: []pipelines.Port{
				{Name: "label", Datatype: "BYTES", Shape: []int64{}},
				fp32("confidence"),
			},
		},
		Call: func(_ context.Context, inputs []wire.Tensor) ([]wire.Tensor, error) {
			best, confidence, err := argmax(inputs[0].Data, len(labels), logits)
			if err != nil {
				return nil, err
			}
			c := blank()
			put(c.Data, 0, confidence)
			return []wire.Tensor{wire.FromStrings([]string{labels[best]}).Reshape(), c}, nil
		},
	}, nil
}

// argmax returns the place of the highest of n scores with its confidence.
func argmax(scores []byte, n int, logits bool) (best int, confidence float32, err error) {
	for i := range n {
		x := at(scores, i)
		if x != x {
			return 0, 0, fmt.Errorf("score %d is not a number", i+1)
		}
		if x > at(scores, best) {
			best = i
		}
	}
	if !logits {
		return best, at(scores, best), nil
	}
	p, err := softmax(wire.Tensor{Shape: []int64{int64(n)}, Data: scores})
	if err != nil {
		return 0, 0, err
	}
	return best, at(p.Data, best), nil
}
