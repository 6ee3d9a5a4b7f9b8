package gateway_test

import (
	"context"
	"fmt"

	"github.com/harpagon/harpagon/gateway"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/attach"
)

// An executor in this process, served over an in-memory stream. Package
// executors has the real one.
func ExampleGateway_Infer() {
	x := pipelines.Port{Name: "x", Datatype: "INT64", Shape: []int64{1}}
	d := placement.Deployment{
		Generation: 1,
		Pipeline: pipelines.Pipeline{
			Name: "echo", Inputs: []pipelines.Port{x},
			Modules: []pipelines.Module{{Name: "m", Inputs: []pipelines.Binding{{Name: "x", From: pipelines.Ref{Port: "x"}}}}},
			Outputs: []pipelines.Output{{Name: "y", From: pipelines.Ref{Module: "m", Port: "y"}}},
		},
		Slots: []placement.Slot{{Executor: "m-1", Pipeline: "echo", Module: "m", Batch: 1}},
	}
	g := gateway.New(gateway.Options{})
	near, far := attach.Pipe()
	go func() { _ = g.Attach(far) }()
	go func() {
		y := pipelines.Port{Name: "y", Datatype: "INT64", Shape: []int64{1}}
		_ = near.Send(&attach.Message{Hello: &attach.Hello{
			Executor: "m-1", Pipeline: "echo", Module: "m",
			Signature: pipelines.Signature{Inputs: []pipelines.Port{x}, Outputs: []pipelines.Port{y}},
		}})
		for {
			m, err := near.Recv()
			if err != nil || m.Drain != nil {
				_ = near.Close()
				return
			}
			_ = near.Send(&attach.Message{Result: &attach.Result{ID: m.Batch.ID, Items: m.Batch.Items}})
		}
	}()

	ctx := context.Background()
	if err := g.Prepare(ctx, d); err != nil { // waits for the executor
		fmt.Println(err)
		return
	}
	if err := g.Install(ctx, d); err != nil {
		fmt.Println(err)
		return
	}
	out, err := g.Infer(ctx, &wire.InferRequest{Pipeline: "echo", Inputs: []wire.NamedTensor{{Name: "x", Tensor: wire.FromInt64([]int64{42})}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	y, err := out.Outputs[0].Int64s()
	fmt.Println(out.Outputs[0].Name, y, err)
	fmt.Println(g.Release(ctx, "echo", []string{"m-1"}))
	// Output:
	// y [42] <nil>
	// <nil>
}
