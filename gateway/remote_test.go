package gateway

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/attach"
	"github.com/harpagon/harpagon/wire/secure"
)

// The same path over TCP: attach, serve, lose a connection, drain.
func TestExecutorsOfAnotherHost(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	g := New(Options{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan error, 1)
	serving, stopServing := context.WithCancel(ctx)
	o := attach.TCPOptions{Credentials: secure.Credentials{Token: "secret"}, Keepalive: time.Minute} // a busy machine is no second break
	go func() { served <- attach.Serve(serving, l, o, g.Attach) }()

	specs := map[string]spec{"m": {kind: addOne, executors: 2}}
	d := deployment(single(long), 1, specs)
	ended := map[string]chan struct{}{}
	streams := map[string]attach.Stream{}
	dial := func(name string) {
		s, err := attach.Dialer{TCPOptions: o}.Dial(ctx, l.Addr().String())
		require.NoError(t, err)
		w := &worker{kind: addOne}
		require.NoError(t, s.Send(&attach.Message{Hello: &attach.Hello{Executor: name, Pipeline: "p", Module: "m", Signature: addOne.sig}}))
		done := make(chan struct{})
		go func() {
			w.serve(s)
			close(done)
		}()
		ended[name], streams[name] = done, s
	}
	for _, s := range d.Slots {
		dial(s.Executor)
	}
	require.NoError(t, g.Prepare(ctx, d))
	require.NoError(t, g.Install(ctx, d))
	end := load(g, 4, func(n int64) (*wire.InferRequest, func(*wire.InferResponse) error) {
		return &wire.InferRequest{Pipeline: "p", Inputs: vector(float32(n), 2)}, func(*wire.InferResponse) error { return nil }
	})
	// One of the two breaks, once, and comes back: its batch is repeated. A
	// second break could meet the same request again, which then fails.
	time.Sleep(5 * time.Millisecond)
	_ = streams["m/1/0"].Close()
	<-ended["m/1/0"]
	dial("m/1/0")
	time.Sleep(5 * time.Millisecond)
	sent, errs := end()
	require.Empty(t, errs)
	require.Positive(t, sent)
	require.NoError(t, g.Release(ctx, "p", []string{"m/1/0", "m/1/1"}))
	<-ended["m/1/0"]
	<-ended["m/1/1"]
	stopServing()
	require.NoError(t, <-served)
}
