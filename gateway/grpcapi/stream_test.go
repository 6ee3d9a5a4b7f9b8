package grpcapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/harpagon/harpagon/gateway"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/listen"
	"github.com/harpagon/harpagon/wire/oip/oipgrpc"
	pb "github.com/harpagon/harpagon/wire/oip/oipgrpc/inferencepb"
	"github.com/harpagon/harpagon/wire/secure"
)

// streaming is a client whose requests share streams.
func streaming(t testing.TB, to net.Addr, o oipgrpc.ClientOptions) *oipgrpc.Client {
	o.Address, o.Streams = to.String(), true
	c, err := oipgrpc.NewClient(o)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// telling is a request whose ID and tensor identify it.
func telling(caller, n int) *wire.InferRequest {
	return &wire.InferRequest{ID: fmt.Sprint(caller, ".", n), Pipeline: "p", Inputs: []wire.NamedTensor{
		{Name: "x", Tensor: wire.FromFloat32([]float32{float32(caller), float32(n)}, 2)},
	}}
}

// crowd has callers send several requests each, all at once.
func crowd(callers, times int, ask func(caller, n int)) {
	var all sync.WaitGroup
	for caller := range callers {
		all.Go(func() {
			for n := range times {
				ask(caller, n)
			}
		})
	}
	all.Wait()
}

// prompt is a request that backends of these tests answer at once.
func prompt() *wire.InferRequest { return telling(0, -1) }

// opened has a client open a stream: requests that come before have calls of their own.
func opened(t *testing.T, c *oipgrpc.Client, b *lonely) {
	before := b.streamed.Load()
	require.Eventually(t, func() bool {
		crowd(8, 4, func(int, int) {
			_, err := c.Infer(t.Context(), prompt(), "")
			require.NoError(t, err)
		})
		return b.streamed.Load() > before
	}, time.Minute, time.Millisecond)
}

// lonely counts the requests that have calls of their own and those that share streams, and
// gives the backend's answer.
type lonely struct {
	*backend
	calls, streamed atomic.Int64
}

func (l *lonely) Infer(ctx context.Context, q *wire.InferRequest) (*wire.InferResponse, error) {
	if method, _ := grpc.Method(ctx); method == pb.GRPCInferenceService_ModelStreamInfer_FullMethodName {
		l.streamed.Add(1)
	} else {
		l.calls.Add(1)
	}
	return l.backend.Infer(ctx, q)
}

func TestRequestsTogetherShareStreams(t *testing.T) {
	held := gateway.NewBytes(gateway.ByteLimits{Total: 1 << 30})
	b := &lonely{backend: &backend{infer: func(ctx context.Context, q *wire.InferRequest) (*wire.InferResponse, error) {
		time.Sleep(time.Millisecond)
		return (&backend{}).Infer(ctx, q)
	}}}
	c := streaming(t, listening(t, b, Options{Bytes: held}), oipgrpc.ClientOptions{})
	_, err := c.Infer(t.Context(), telling(0, 0), "")
	require.NoError(t, err)
	require.Zero(t, b.streamed.Load(), "one alone has a call of its own")
	crowd(32, 20, func(caller, n int) {
		r, err := c.Infer(t.Context(), telling(caller, n), "")
		require.NoError(t, err)
		q := telling(caller, n)
		require.Equal(t, q.ID, r.ID)
		require.Equal(t, q.Inputs, r.Outputs)
		require.Equal(t, 4, r.Generation)
		require.Len(t, r.Stages, 1)
	})
	require.Greater(t, b.streamed.Load(), int64(400))
	require.EqualValues(t, 641, b.streamed.Load()+b.calls.Load(), "each is sent once")
	require.Eventually(t, func() bool { return held.Now() == 0 }, time.Minute, time.Millisecond)
}

// Errors by a stream are those of a call.
func TestErrorsByAStream(t *testing.T) {
	kinds := []error{
		wire.Errorf(wire.CodeNotFound, "", "pipeline is not served here"),
		&wire.Error{Code: wire.CodeDeadline, Stage: "m", Reason: "too late", Budget: time.Second, Elapsed: time.Minute},
		wire.Errorf(wire.CodeOverloaded, "m", "the queue is full"),
		&wire.Error{Code: wire.CodeUnavailable, Reason: "no executor yet", Starting: true},
		errors.New("a plain one"),
		wire.Errorf(wire.CodeUnavailable, "m", "it was cut off: \xe2\x82"),
		context.DeadlineExceeded,
	}
	b := &lonely{backend: &backend{infer: func(_ context.Context, q *wire.InferRequest) (*wire.InferResponse, error) {
		time.Sleep(time.Millisecond)
		return nil, kinds[int(q.Inputs[0].Data[6])/16%len(kinds)]
	}}}
	to := listening(t, b, Options{})
	c := streaming(t, to, oipgrpc.ClientOptions{})
	own, err := oipgrpc.NewClient(oipgrpc.ClientOptions{Address: to.String()})
	require.NoError(t, err)
	defer own.Close()
	_, err = own.Infer(t.Context(), telling(0, 0), "")
	require.Error(t, err)
	crowd(16, 3*len(kinds), func(caller, n int) {
		q := telling(caller, 0)
		q.Inputs[0].Data[6] = byte(n % len(kinds) * 16)
		_, want := own.Infer(t.Context(), q, "")
		_, have := c.Infer(t.Context(), q, "")
		require.Equal(t, want, have)
	})
	require.NotZero(t, b.streamed.Load())
	crowd(16, 9, func(int, int) {
		q := telling(0, 0)
		q.Inputs[0].Shape = []int64{3}
		_, err := c.Infer(t.Context(), q, "")
		require.ErrorIs(t, err, wire.ErrInvalid)
	})
	crowd(16, 9, func(caller, n int) { // what one caller does wrong is nothing to the others
		q := telling(caller, 0)
		if caller == 0 {
			q.ID = "\xff"
		}
		_, err := c.Infer(t.Context(), q, "")
		if caller > 0 {
			require.ErrorIs(t, err, wire.ErrNotFound)
		} else {
			require.ErrorContains(t, err, "UTF-8")
		}
	})
}

// An answer that is too large for a message is its caller's alone.
func TestALargeAnswerByAStream(t *testing.T) {
	b := &lonely{backend: &backend{infer: func(ctx context.Context, q *wire.InferRequest) (*wire.InferResponse, error) {
		time.Sleep(time.Millisecond)
		r, err := (&backend{}).Infer(ctx, q)
		if q.ID[:2] == "0." {
			r.Outputs = []wire.NamedTensor{{Name: "x", Tensor: wire.FromFloat32(make([]float32, 4000), 4000)}}
		}
		return r, err
	}}}
	c := streaming(t, listening(t, b, Options{MaxMessage: 8000}), oipgrpc.ClientOptions{})
	crowd(16, 20, func(caller, n int) {
		_, err := c.Infer(t.Context(), telling(caller, n), "")
		if caller == 0 {
			require.ErrorIs(t, err, wire.ErrOverloaded)
		} else {
			require.NoError(t, err)
		}
	})
	require.NotZero(t, b.streamed.Load())
}

// A number belongs to one request at a time, and an error carries its request's number.
func TestNumbersOfAStream(t *testing.T) {
	release := make(chan struct{})
	b := &backend{infer: func(ctx context.Context, q *wire.InferRequest) (*wire.InferResponse, error) {
		<-release
		return (&backend{}).Infer(ctx, q)
	}}
	s, err := serve(t, b, Options{}).ModelStreamInfer(t.Context())
	require.NoError(t, err)
	number := func(n int64) *pb.InferParameter {
		return &pb.InferParameter{ParameterChoice: &pb.InferParameter_Int64Param{Int64Param: n}}
	}
	q := question()
	q.Parameters = map[string]*pb.InferParameter{"number": number(7)}
	require.NoError(t, s.Send(q))
	require.NoError(t, s.Send(q))
	m, err := s.Recv()
	require.NoError(t, err)
	require.Contains(t, m.GetErrorMessage(), "7 is under way")
	require.NoError(t, s.Send(&pb.ModelInferRequest{Parameters: map[string]*pb.InferParameter{"cancel": number(8)}})) // there is none
	wrong := question()
	wrong.Parameters = map[string]*pb.InferParameter{"number": number(9), "timeout": {ParameterChoice: &pb.InferParameter_StringParam{StringParam: "soon"}}}
	require.NoError(t, s.Send(wrong))
	m, err = s.Recv()
	require.NoError(t, err)
	require.Contains(t, m.GetErrorMessage(), "timeout")
	require.EqualValues(t, 9, m.GetInferResponse().GetParameters()["number"].GetInt64Param())
	close(release)
	m, err = s.Recv()
	require.NoError(t, err)
	require.Empty(t, m.GetErrorMessage())
	require.EqualValues(t, 7, m.GetInferResponse().GetParameters()["number"].GetInt64Param())
}

// Whoever stops waiting ends the request, by its deadline or by a message; the others go on.
func TestRequestsByAStreamEndWithTheirCallers(t *testing.T) {
	var under, ended atomic.Int64
	b := &lonely{backend: &backend{infer: func(ctx context.Context, q *wire.InferRequest) (*wire.InferResponse, error) {
		if q.ID == prompt().ID {
			return (&backend{}).Infer(ctx, q)
		}
		under.Add(1)
		<-ctx.Done()
		ended.Add(1)
		return nil, ctx.Err()
	}}}
	c := streaming(t, listening(t, b, Options{}), oipgrpc.ClientOptions{})
	for name, end := range map[string]func() (context.Context, context.CancelFunc){
		"deadline": func() (context.Context, context.CancelFunc) {
			return context.WithTimeout(t.Context(), 50*time.Millisecond)
		},
		"cancel": func() (context.Context, context.CancelFunc) { return context.WithCancel(t.Context()) },
	} {
		t.Run(name, func(t *testing.T) {
			under.Store(0)
			ended.Store(0)
			opened(t, c, b)
			before := b.streamed.Load()
			ctx, cancel := end()
			defer cancel()
			go func() {
				for name == "cancel" && under.Load() < 20 {
					time.Sleep(time.Millisecond)
				}
				if name == "cancel" {
					cancel()
				}
			}()
			crowd(20, 1, func(caller, n int) {
				_, err := c.Infer(ctx, telling(caller, n), "")
				var typed *wire.Error
				require.ErrorAs(t, err, &typed)
				require.Contains(t, []wire.Code{wire.CodeDeadline, wire.CodeCanceled}, typed.Code)
			})
			require.Eventually(t, func() bool { return ended.Load() == under.Load() }, time.Minute, time.Millisecond)
			if name == "cancel" { // by its deadline a request may end before it is sent
				require.Greater(t, b.streamed.Load(), before)
			}
		})
	}
}

// A server that ends answers what is under way by streams, and is not held up by them.
func TestAServerEndsBesideOpenStreams(t *testing.T) {
	b := &lonely{backend: &backend{infer: func(ctx context.Context, q *wire.InferRequest) (*wire.InferResponse, error) {
		time.Sleep(20 * time.Millisecond)
		return (&backend{}).Infer(ctx, q)
	}}}
	l, err := listen.TCP("127.0.0.1:0", secure.Credentials{})
	require.NoError(t, err)
	ctx, quit := context.WithCancel(t.Context())
	over := make(chan error, 1)
	server := New(b, Options{})
	go func() { over <- Serve(ctx, l, server) }()
	c := streaming(t, l.Addr(), oipgrpc.ClientOptions{})
	go func() {
		for b.streamed.Load() < 200 {
			time.Sleep(time.Millisecond)
		}
		quit()
	}()
	var answered atomic.Int64
	crowd(32, 1000, func(caller, n int) {
		if ctx.Err() != nil && n > 0 {
			return
		}
		_, err := c.Infer(t.Context(), telling(caller, n), "")
		if err == nil {
			answered.Add(1)
			return
		}
		require.ErrorIs(t, err, wire.ErrUnavailable)
		require.ErrorContains(t, err, "no server answers at", "none that was sent is lost")
	})
	require.NoError(t, <-over)
	require.EqualValues(t, b.streamed.Load()+b.calls.Load(), answered.Load())
}

// Every request to a server that is gone ends with an error, and one that comes back is used.
func TestABrokenStream(t *testing.T) {
	stuck := make(chan struct{})
	var under atomic.Int64
	b := &lonely{backend: &backend{infer: func(ctx context.Context, q *wire.InferRequest) (*wire.InferResponse, error) {
		if q.ID != prompt().ID {
			under.Add(1)
			<-stuck
		}
		return (&backend{}).Infer(ctx, q)
	}}}
	l, err := listen.TCP("127.0.0.1:0", secure.Credentials{})
	require.NoError(t, err)
	server := New(b, Options{})
	go func() { _ = server.Serve(l) }()
	c := streaming(t, l.Addr(), oipgrpc.ClientOptions{})
	opened(t, c, b)
	before := b.streamed.Load()
	go func() {
		for under.Load() < 20 {
			time.Sleep(time.Millisecond)
		}
		defer close(stuck)
		server.Stop()
	}()
	crowd(20, 1, func(caller, n int) {
		_, err := c.Infer(t.Context(), telling(caller, n), "")
		require.ErrorIs(t, err, wire.ErrUnavailable)
	})
	require.Greater(t, b.streamed.Load(), before)
	again, err := net.Listen("tcp", l.Addr().String())
	require.NoError(t, err)
	server = New(&backend{}, Options{})
	go func() { _ = server.Serve(again) }()
	defer server.Stop()
	crowd(20, 20, func(caller, n int) {
		require.Eventually(t, func() bool {
			_, err := c.Infer(t.Context(), telling(caller, n), "")
			return err == nil
		}, time.Minute, time.Millisecond)
	})
}

// gated is a connection whose reads can be stopped.
type gated struct {
	net.Conn
	open *sync.RWMutex
}

func (g gated) Read(b []byte) (int, error) {
	n, err := g.Conn.Read(b)
	g.open.RLock()
	defer g.open.RUnlock()
	return n, err
}

type gate struct {
	net.Listener
	open sync.RWMutex
}

func (g *gate) Accept() (net.Conn, error) {
	c, err := g.Listener.Accept()
	return gated{c, &g.open}, err
}

// A server that hangs, as one whose process is stopped, does not hang its callers.
func TestAServerThatHangs(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	through := &gate{Listener: l}
	server := New(&backend{}, Options{})
	go func() { _ = server.Serve(through) }()
	defer server.Stop()
	c := streaming(t, l.Addr(), oipgrpc.ClientOptions{})
	crowd(16, 9, func(caller, n int) {
		_, err := c.Infer(t.Context(), telling(caller, n), "")
		require.NoError(t, err)
	})
	through.open.Lock()
	crowd(100, 10, func(caller, n int) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		q := telling(caller, n)
		q.Inputs[0].Tensor = wire.FromFloat32(make([]float32, 2000), 2000)
		_, err := c.Infer(ctx, q, "")
		require.ErrorIs(t, err, wire.ErrDeadline)
	})
	through.open.Unlock()
	crowd(16, 9, func(caller, n int) {
		r, err := c.Infer(t.Context(), telling(caller, n), "")
		require.NoError(t, err)
		require.Equal(t, telling(caller, n).ID, r.ID)
	})
}

// plainStreams are those of a server without numbered requests.
type plainStreams struct {
	echo
	got atomic.Int64
}

func (p *plainStreams) ModelStreamInfer(s grpc.BidiStreamingServer[pb.ModelInferRequest, pb.ModelStreamInferResponse]) error {
	if err := s.SendHeader(nil); err != nil {
		return err
	}
	for {
		if _, err := s.Recv(); err != nil {
			return err
		}
		p.got.Add(1)
	}
}

// A server without streams, or without numbered requests, is reached by calls.
func TestAServerWithoutNumbers(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server, other := grpc.NewServer(), new(plainStreams)
	pb.RegisterGRPCInferenceServiceServer(server, other)
	go func() { _ = server.Serve(l) }()
	defer server.Stop()
	for _, to := range []net.Addr{serveEcho(t), l.Addr()} {
		c := streaming(t, to, oipgrpc.ClientOptions{})
		crowd(16, 50, func(caller, n int) {
			r, err := c.Infer(t.Context(), telling(caller, n), "")
			require.NoError(t, err)
			require.Equal(t, telling(caller, n).Inputs, r.Outputs)
		})
	}
	require.Zero(t, other.got.Load())
}

// Other clients' streams: with IDs and without, raw and as lists, sound and not.
func TestAForeignStream(t *testing.T) {
	held := gateway.NewBytes(gateway.ByteLimits{Total: 1 << 30})
	s, err := serve(t, &backend{}, Options{Bytes: held}).ModelStreamInfer(t.Context())
	require.NoError(t, err)
	listed := question()
	listed.Id, listed.RawInputContents = "lists", nil
	listed.Inputs[0].Contents = &pb.InferTensorContents{Fp32Contents: []float32{1, 2}}
	wrong := question()
	wrong.Id, wrong.Inputs[0].Shape = "wrong", []int64{3}
	version := question()
	version.Id, version.ModelVersion = "version", "9"
	for _, q := range []*pb.ModelInferRequest{question(), listed, wrong, version} {
		require.NoError(t, s.Send(q))
	}
	require.NoError(t, s.CloseSend())
	var got []string
	for {
		m, err := s.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		id := m.GetInferResponse().GetId()
		got = append(got, fmt.Sprint(id, " ", m.GetErrorMessage() != ""))
		if id == "lists" {
			require.Equal(t, []float32{1, 2}, m.GetInferResponse().GetOutputs()[0].GetContents().GetFp32Contents())
		}
	}
	slices.Sort(got)
	require.Equal(t, []string{"7 false", "lists false", "version true", "wrong true"}, got)
	require.Eventually(t, func() bool { return held.Now() == 0 }, time.Minute, time.Millisecond)
}
