//go:build !noserver

package local_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/build"
	"github.com/harpagon/harpagon/sdk"
	"github.com/harpagon/harpagon/sdk/local"
)

func ExampleServe() {
	p, err := build.New("detector").
		SLO(400*time.Millisecond).Rate(10).
		Input("frame", "FP32", 3, 96, 96).
		Module(build.Network("detect", "models/detect.onnx").In("image", build.FromInput("frame"))).
		Output("map", build.From("detect", "map")).
		Build()
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	system, err := local.Serve(ctx, pipelines.Document{
		Hardware:  []pipelines.Hardware{{Name: "cpu", Price: 0.05}},
		Pipelines: []pipelines.Pipeline{p},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer system.Close()
	frames := make([]sdk.Inputs, 8)
	for i := range frames {
		frames[i] = sdk.Inputs{"frame": sdk.Float32(make([]float32, 3*96*96), 3, 96, 96)}
	}
	results, err := system.Client().InferBatch(ctx, "detector", frames)
	fmt.Println(len(results), err)
}
