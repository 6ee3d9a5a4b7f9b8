package emulated_test

import (
	"context"
	"fmt"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/executors/emulated"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
)

func ExampleNew() {
	model := executors.Model{
		Module: pipelines.Module{
			Name:    "detect",
			Profile: pipelines.Profile{Points: []pipelines.Point{{Hardware: "v100", Batch: 8, Duration: 0}}},
		},
		Hardware:   "v100",
		MaxBatch:   8,
		Outputs:    []string{"vehicles"},
		OutputRows: map[string]float64{"vehicles": 1.5},
	}
	instance, err := emulated.New(emulated.Options{}).Load(context.Background(), model)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer instance.Close()
	answers, err := instance.Run(context.Background(), make([][]wire.Tensor, 2))
	fmt.Println(answers[0][0].Shape, answers[1][0].Shape, err)
	// Output: [1 1] [2 1] <nil>
}
