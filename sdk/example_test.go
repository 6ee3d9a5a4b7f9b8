package sdk_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/harpagon/harpagon/sdk"
	"github.com/harpagon/harpagon/sdk/sdktest"
)

// fake stands for a gateway in the examples.
var fake = sdktest.Fake{
	"traffic": func(_ context.Context, in sdk.Inputs) (sdktest.Outputs, error) {
		if in["frame"].Len() == 0 {
			return nil, &sdk.Error{Code: "deadline", Stage: "detect", Budget: 400 * time.Millisecond, Elapsed: 120 * time.Millisecond}
		}
		return sdktest.Outputs{"vehicles": sdk.Strings([]string{"car", "bus"})}, nil
	},
}

func ExampleClient_Infer() {
	client := sdk.NewClient(fake)
	out, err := client.Infer(context.Background(), "traffic", sdk.Inputs{
		"frame": sdk.Float32(make([]float32, 3*96*96), 3, 96, 96),
	})
	if err != nil {
		log.Fatal(err)
	}
	vehicles, err := out.Strings("vehicles")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(vehicles)
	// Output: [car bus]
}

func ExampleClient_InferBatch() {
	client := sdk.NewClient(fake)
	frame := sdk.Inputs{"frame": sdk.Float32(make([]float32, 3*96*96), 3, 96, 96)}
	results, err := client.InferBatch(context.Background(), "traffic", []sdk.Inputs{frame, {"frame": sdk.Float32(nil, 0)}, frame})
	for _, failed := range sdk.ItemErrors(err) {
		fmt.Println("request", failed.Index, "failed, too late:", errors.Is(failed, sdk.ErrDeadline))
	}
	for i := range results {
		if results[i].OK() {
			vehicles, _ := results[i].Strings("vehicles")
			fmt.Println(i, vehicles)
		}
	}
	// Output:
	// request 1 failed, too late: true
	// 0 [car bus]
	// 2 [car bus]
}

func ExampleFloat16() {
	t := sdk.Float16([]float32{1, 0.1, 65504}, 3)
	halves, err := t.Float16s()
	fmt.Println(t.Datatype, len(t.Data), halves, err)
	// Output: FP16 6 [1 0.099975586 65504] <nil>
}

func ExampleBFloat16() {
	t := sdk.BFloat16([]float32{1, 0.1})
	values, err := t.BFloat16s()
	fmt.Println(t.Datatype, t.Shape, values, err)
	// Output: BF16 [2] [1 0.100097656] <nil>
}

func ExampleBool() {
	client := sdk.NewClient(sdktest.Fake{
		"not": func(_ context.Context, in sdk.Inputs) (sdktest.Outputs, error) {
			mask, err := in["mask"].Bools()
			for i := range mask {
				mask[i] = !mask[i]
			}
			return sdktest.Outputs{"mask": sdk.Bool(mask)}, err
		},
	})
	out, err := client.Infer(context.Background(), "not", sdk.Inputs{"mask": sdk.Bool([]bool{true, false})})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(out.Bools("mask"))
	// Output: [false true] <nil>
}

func ExampleError() {
	client := sdk.NewClient(fake)
	_, err := client.Infer(context.Background(), "traffic", sdk.Inputs{"frame": sdk.Float32(nil, 0)})
	var e *sdk.Error
	if errors.Is(err, sdk.ErrDeadline) && errors.As(err, &e) {
		fmt.Println("too late at", e.Stage, "after", e.Elapsed)
	}
	// Output: too late at detect after 120ms
}

func ExampleDial() {
	ctx := context.Background()
	client, err := sdk.Dial(ctx, "127.0.0.1:8080")
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	names, err := client.Pipelines(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(names)
}
