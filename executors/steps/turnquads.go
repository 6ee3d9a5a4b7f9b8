package steps

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
)

// TurnQuads turns lines of text upright by what a direction network says, and
// puts them into reading order again.
//
//	quads    FP32 [N, 8]: corners x, y, as TextBoxes gives them
//	scores   FP32 [N, 2]: probability of upright, and of upside down
//	upright  FP32 [N, 8]
//
// Parameters:
//
//	threshold  least probability to turn a line, 0 to 1; default 0.9
func TurnQuads() Function {
	return Function{Doc: "lines of text, turned upright", Prepare: prepareTurn}
}

func prepareTurn(p *Parameters) (Step, error) {
	threshold := float32(p.Number("threshold", 0.9, 0, 1))
	return Step{
		Signature: pipelines.Signature{
			Inputs:  []pipelines.Port{fp32("quads", -1, 8), fp32("scores", -1, 2)},
			Outputs: []pipelines.Port{fp32("upright", -1, 8)},
		},
		Call: func(_ context.Context, inputs []wire.Tensor) ([]wire.Tensor, error) {
			quads, scores := inputs[0], inputs[1]
			if quads.Shape[0] != scores.Shape[0] {
				return nil, fmt.Errorf("%d quads and %d scores do not belong together", quads.Shape[0], scores.Shape[0])
			}
			all := make([]quad, quads.Shape[0])
			for i := range all {
				all[i], _ = readQuad(quads, i)
				if at(scores.Data, 2*i+1) >= threshold {
					all[i] = all[i].turned()
				}
			}
			ordered := make([]quad, len(all))
			for to, from := range readingOrder(all) {
				ordered[to] = all[from]
			}
			return []wire.Tensor{quadTensor(ordered)}, nil
		},
		Sample: sampleTurn,
	}, nil
}

// sampleTurn is a page of lines of which every other is upside down.
func sampleTurn(shapes [][]int64, rng *rand.Rand) []wire.Tensor {
	all := make([]quad, max(shapes[0][0], 1))
	scores := blank(int64(len(all)), 2)
	for i := range all {
		x, y := sampleSide*rng.Float64(), sampleSide*rng.Float64()
		all[i] = quad{{x, y}, {x + 200, y}, {x + 200, y + 20}, {x, y + 20}}
		put(scores.Data, 2*i+i%2, 1)
	}
	return []wire.Tensor{quadTensor(all), scores}
}
