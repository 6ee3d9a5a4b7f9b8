package executors

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/attach"
)

// BenchmarkRoundTrip is the executor's part of the path of a batch: over the
// stream, check, device, an engine that takes no time, and back.
func BenchmarkRoundTrip(b *testing.B) {
	engine := &fake{sig: pipelines.Signature{Inputs: []pipelines.Port{port("x", 2)}, Outputs: []pipelines.Port{port("y", 2)}}}
	lines := make(chan *line, 1)
	host := &Host{Engines: []Engine{engine}, Dial: func(context.Context, string) (attach.Stream, error) {
		ours, theirs := newLine()
		lines <- ours
		return theirs, nil
	}}
	done := make(chan error)
	go func() { done <- host.RunExecutor(b.Context(), task("e1"), Observer{}) }()
	stream := <-lines
	_, err := stream.Recv()
	require.NoError(b, err)
	message := &attach.Message{Batch: &attach.Batch{Items: [][]wire.Tensor{vector(2)}}}
	b.ReportAllocs()
	for b.Loop() {
		if err := stream.Send(message); err != nil {
			b.Fatal(err)
		}
		if _, err := stream.Recv(); err != nil {
			b.Fatal(err)
		}
	}
	require.NoError(b, stream.Send(&attach.Message{Drain: &attach.Drain{}}))
	require.NoError(b, <-done)
}
