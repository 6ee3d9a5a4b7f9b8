package steps

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
)

// Softmax turns scores into probabilities: exp(x) over the sum of all exp(x),
// computed in double precision after the highest score has been taken off.
//
//	scores         FP32 [K]
//	probabilities  FP32 [K]
func Softmax() Function {
	f := Plain(pipelines.Signature{
		Inputs:  []pipelines.Port{fp32("scores", -1)},
		Outputs: []pipelines.Port{fp32("probabilities", -1)},
	}, func(_ context.Context, inputs []wire.Tensor) ([]wire.Tensor, error) {
		p, err := softmax(inputs[0])
		return []wire.Tensor{p}, err
	})
	f.Doc = "scores to probabilities"
	return f
}

// softmax treats infinite scores as their limit: those that are highest share 1.
func softmax(scores wire.Tensor) (wire.Tensor, error) {
	n := count(scores.Shape)
	top := math.Inf(-1)
	for i := range n {
		x := float64(at(scores.Data, i))
		if math.IsNaN(x) {
			return wire.Tensor{}, fmt.Errorf("score %d is not a number", i+1)
		}
		top = max(top, x)
	}
	weights, sum := make([]float64, n), 0.0
	for i := range n {
		weights[i] = 1 // also where both are infinite
		if x := float64(at(scores.Data, i)); x != top {
			weights[i] = math.Exp(x - top)
		}
		sum += weights[i]
	}
	out := blank(scores.Shape...)
	for i, w := range weights {
		put(out.Data, i, float32(w/sum))
	}
	return out, nil
}

// TopK gives the highest scores, best first; of equals the earlier.
//
//	scores   FP32 [N], N at least k
//	indices  INT64 [k]
//	values   FP32 [k]: the scores
//	names    BYTES [k]; only with labels
//
// Parameters:
//
//	k       how many, 1 to 4096; required
//	labels  the N names
func TopK() Function {
	return Function{Doc: "the highest scores", Prepare: prepareTopK}
}

func prepareTopK(p *Parameters) (Step, error) {
	k := p.Whole("k", 1, 1, 4096)
	labels := p.Texts("labels")
	p.Need("k")
	sig := pipelines.Signature{
		Inputs:  []pipelines.Port{fp32("scores", -1)},
		Outputs: []pipelines.Port{{Name: "indices", Datatype: wire.Int64, Shape: []int64{int64(k)}}, fp32("values", int64(k))},
	}
	if labels != nil {
		sig.Inputs[0].Shape[0] = int64(len(labels))
		sig.Outputs = append(sig.Outputs, pipelines.Port{Name: "names", Datatype: wire.Bytes, Shape: []int64{int64(k)}})
		if k > len(labels) {
			p.Failf("k", "is %d, but there are %d labels", k, len(labels))
		}
	}
	return Step{Signature: sig, Call: func(_ context.Context, inputs []wire.Tensor) ([]wire.Tensor, error) {
		best, err := highest(inputs[0], k)
		if err != nil {
			return nil, err
		}
		values, names := blank(int64(k)), make([]string, k)
		for i, b := range best {
			put(values.Data, i, at(inputs[0].Data, int(b)))
			if labels != nil {
				names[i] = labels[b]
			}
		}
		answer := []wire.Tensor{wire.FromInt64(best), values}
		if labels != nil {
			answer = append(answer, wire.FromStrings(names))
		}
		return answer, nil
	}}, nil
}

// highest are the places of the k highest scores.
func highest(scores wire.Tensor, k int) ([]int64, error) {
	n := count(scores.Shape)
	if n < k {
		return nil, fmt.Errorf("%d scores where k = %d", n, k)
	}
	order := make([]int64, n)
	for i := range order {
		order[i] = int64(i)
		if x := at(scores.Data, i); x != x {
			return nil, fmt.Errorf("score %d is not a number", i+1)
		}
	}
	slices.SortStableFunc(order, func(a, b int64) int {
		return cmp.Compare(at(scores.Data, int(b)), at(scores.Data, int(a)))
	})
	return order[:k], nil
}

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
