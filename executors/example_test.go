package executors_test

import (
	"context"
	"fmt"
	"time"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/executors/emulated"
	"github.com/harpagon/harpagon/executors/steps"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/attach"
)

// One executor, and a gateway that sends it one batch of two requests.
func ExampleHost_RunExecutor() {
	gateway, end := attach.Pipe()
	host := &executors.Host{
		Name:    "a",
		Engines: []executors.Engine{steps.New(steps.Builtin())},
		Dial:    func(context.Context, string) (attach.Stream, error) { return end, nil },
	}
	task := executors.Task{
		Slot: placement.Slot{Executor: "label-0", Module: "label", Hardware: "cpu", Batch: 2},
		Module: pipelines.Module{
			Name:       "label",
			Function:   "argmax_label",
			Parameters: map[string]any{"labels": []any{"car", "van"}},
		},
	}
	done := make(chan error)
	go func() { done <- host.RunExecutor(context.Background(), task, executors.Observer{}) }()

	message, _ := gateway.Recv()
	fmt.Println(message.Hello.Executor, message.Hello.Engine, message.Hello.Signature.Inputs[0].Name, message.Hello.Signature.Inputs[0].Shape)
	_ = gateway.Send(&attach.Message{Batch: &attach.Batch{ID: 1, Due: time.Now(), Items: [][]wire.Tensor{
		{wire.FromFloat32([]float32{0.3, 0.1})},
		{wire.FromFloat32([]float32{0.2, 0.9})},
	}}})
	message, _ = gateway.Recv()
	for _, outputs := range message.Result.Items {
		label, _ := outputs[0].Strings()
		fmt.Println(label)
	}
	_ = gateway.Send(&attach.Message{Drain: &attach.Drain{Reason: "example ends"}})
	fmt.Println(<-done)
	// Output:
	// label-0 function scores [2]
	// [car]
	// [van]
	// <nil>
}

// Profile points of a module on an engine that is known to be punctual.
func ExampleHost_Measure() {
	host := &executors.Host{Name: "a", Engines: []executors.Engine{emulated.New(emulated.Options{
		Duration: func(_ executors.Model, batch int) time.Duration { return time.Duration(batch) * 10 * time.Millisecond },
	})}}
	task := executors.MeasureTask{
		Module: pipelines.Module{Name: "m", Batches: []int{1, 2}}, Hardware: "v100",
		Limits: executors.RoundLimits{MinRuns: 3, MaxRuns: 3, Patience: 1},
	}
	points, err := host.Measure(context.Background(), task, executors.Measured{}, nil)
	for _, p := range points {
		fmt.Println(p.Batch, p.Duration >= time.Duration(p.Batch)*10*time.Millisecond)
	}
	fmt.Println(err)
	// Output:
	// 1 true
	// 2 true
	// <nil>
}
