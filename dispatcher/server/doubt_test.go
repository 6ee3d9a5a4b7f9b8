package server

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/dispatcher"
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/wire/attach"
	"github.com/harpagon/harpagon/wire/queue"
	"github.com/harpagon/harpagon/wire/stream"
)

// TestAStoppedGatewayHoldsNoExecutor holds that an executor does not wait for the tensors
// of a gateway that was stopped until that counts as gone.
func TestAStoppedGatewayHoldsNoExecutor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		d := dispatcher.New(dispatcher.Options{Now: func() dispatch.Time { return 1 + time.Since(began) }, Record: -1})
		s := New(d, Options{Name: "d"})
		s.Claim()
		of := clustered(1)[0]
		of.Slots, of.Cluster.Dispatch = of.Slots[:1], "eager"
		near, far := net.Pipe()
		served := make(chan error, 1)
		go func() { served <- s.Serve(far) }()
		executor, control := attach.Pipe()
		attached := make(chan error, 1)
		go func() { attached <- s.Attach(control) }()
		require.NoError(t, executor.Send(&attach.Message{Hello: &attach.Hello{Executor: of.Slots[0].Executor, Pipeline: of.Name(), Hardware: "gpu", MaxBatch: largest}}))
		owner, err := executor.Recv()
		require.NoError(t, err)
		require.NotNil(t, owner.Owner)

		go func() { _, _ = io.Copy(io.Discard, near) }() // a stopped process still has a kernel
		text, err := json.Marshal(of)
		require.NoError(t, err)
		frames := queue.Append([]byte("hpgq\x05\r\n\r\n"), &queue.Message{Kind: queue.Hello, Role: queue.Gateway, Text: []byte("g")})
		frames = queue.Append(frames, &queue.Message{Kind: queue.Install, Generation: 1, Text: text})
		frames = queue.Append(frames, &queue.Message{Kind: queue.Arrive, Generation: 1, Size: 1, Left: 10 * time.Second, Timed: true})
		_, err = near.Write(frames)
		require.NoError(t, err)
		stopped := time.Now()
		m, err := executor.Recv()
		require.NoError(t, err)
		require.NotNil(t, m.Skip)
		assert.LessOrEqual(t, time.Since(stopped), stream.DefaultSilence*3/4, "and not a quarter more than all of it")
		require.ErrorIs(t, <-served, stream.ErrSilent)
		require.NoError(t, errors.Join(executor.Close(), near.Close()))
		<-attached
	})
}

// TestTimeIsReadWhenARequestComes holds that a request counts from when it came, though
// an answer to a question whether the gateway lives lay before it in what was received.
func TestTimeIsReadWhenARequestComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		d := dispatcher.New(dispatcher.Options{Now: func() dispatch.Time { return 1 + time.Since(began) }, Record: -1})
		s := New(d, Options{Name: "d", Patience: -1})
		s.Claim()
		of := clustered(1)[0]
		of.Slots, of.Cluster.Dispatch = of.Slots[:1], "eager"
		near, far := net.Pipe()
		served := make(chan error, 1)
		go func() { served <- s.Serve(far) }()
		executor, control := attach.Pipe()
		attached := make(chan error, 1)
		go func() { attached <- s.Attach(control) }()
		require.NoError(t, executor.Send(&attach.Message{Hello: &attach.Hello{Executor: of.Slots[0].Executor, Pipeline: of.Name(), Hardware: "gpu", MaxBatch: largest}}))
		_, err := executor.Recv()
		require.NoError(t, err)

		told := make(chan queue.Kind, 16)
		go hear(near, func(m queue.Message) { told <- m.Kind })
		text, err := json.Marshal(of)
		require.NoError(t, err)
		frames := queue.Append([]byte("hpgq\x05\r\n\r\n"), &queue.Message{Kind: queue.Hello, Role: queue.Gateway, Text: []byte("g")})
		frames = queue.Append(frames, &queue.Message{Kind: queue.Install, Generation: 1, Text: text})
		frames = queue.Append(frames, &queue.Message{Kind: queue.Pong})
		_, err = near.Write(frames)
		require.NoError(t, err)
		time.Sleep(time.Minute)
		_, err = near.Write(queue.Append(nil, &queue.Message{Kind: queue.Arrive, Generation: 1, Size: 1, Left: 10 * time.Second, Timed: true}))
		require.NoError(t, err)
		for kind := range told {
			require.NotEqual(t, queue.Drop, kind, "dropped as a minute late")
			if kind == queue.Start {
				break
			}
		}
		require.NoError(t, errors.Join(executor.Close(), near.Close()))
		<-served
		<-attached
	})
}
