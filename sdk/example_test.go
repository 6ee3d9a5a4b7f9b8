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
	client, err := sdk.Dial(ctx, "127.0.0.1:8000")
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
