package steps_test

import (
	"context"
	"fmt"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/executors/steps"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
)

// A program's own function, declared as
//
//	module "bright" {
//	  function   = "brightness"
//	  inputs     = { image = input.frame }
//	  parameters = { gain = 2 }
//	}
func ExampleRegistry_Register() {
	registry := steps.Builtin()
	err := registry.Register("brightness", steps.Function{
		Doc: "mean of an image, times gain",
		Prepare: func(p *steps.Parameters) (steps.Step, error) {
			gain := p.Number("gain", 1, 0, 100)
			return steps.Step{
				Signature: pipelines.Signature{
					Inputs:  []pipelines.Port{{Name: "image", Datatype: wire.FP32, Shape: []int64{-1, -1, -1}}},
					Outputs: []pipelines.Port{{Name: "mean", Datatype: wire.FP32, Shape: []int64{1}}},
				},
				Call: func(_ context.Context, inputs []wire.Tensor) ([]wire.Tensor, error) {
					pixels, err := inputs[0].Float32s()
					if err != nil {
						return nil, err
					}
					sum := 0.0
					for _, x := range pixels {
						sum += float64(x)
					}
					mean := float32(gain * sum / float64(len(pixels)))
					return []wire.Tensor{wire.FromFloat32([]float32{mean})}, nil
				},
			}, nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	module := pipelines.Module{Name: "bright", Function: "brightness", Parameters: map[string]any{"gain": 2.0}}
	instance, err := steps.New(registry).Load(context.Background(), executors.Model{Module: module})
	if err != nil {
		fmt.Println(err)
		return
	}
	image := wire.FromFloat32([]float32{1, 2, 3, 4}, 1, 2, 2)
	answers, err := instance.Run(context.Background(), [][]wire.Tensor{{image}})
	if err != nil {
		fmt.Println(err)
		return
	}
	mean, _ := answers[0][0].Float32s()
	fmt.Println(mean)
	// Output: [5]
}
