package grpcapi

import (
	"context"
	"net"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/harpagon/harpagon/gateway"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/oip/oipgrpc"
	pb "github.com/harpagon/harpagon/wire/oip/oipgrpc/inferencepb"
)

// answering serves answers of so many bytes over a network in memory, whose connections
// hold hardly anything of what is not read: nothing is while the ears are locked.
func answering(t *testing.T, size int, held *gateway.Bytes) (*grpc.ClientConn, *sync.RWMutex) {
	l := bufconn.Listen(1 << 10)
	b := &backend{infer: func(_ context.Context, q *wire.InferRequest) (*wire.InferResponse, error) {
		return &wire.InferResponse{Pipeline: q.Pipeline, Outputs: []wire.NamedTensor{{Name: "y", Tensor: wire.FromUint8(make([]byte, size))}}}, nil
	}}
	ctx, quit := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() { over <- Serve(ctx, l, New(b, Options{Bytes: held})) }()
	ears := new(sync.RWMutex)
	c, err := grpc.NewClient("passthrough:///gateway", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithInitialWindowSize(64<<10), grpc.WithInitialConnWindowSize(4<<20), // and no more
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			c, err := l.DialContext(ctx)
			return &deaf{c, ears}, err
		}))
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = c.Close()
		quit()
		require.NoError(t, <-over)
	})
	return c, ears
}

// deaf is a connection whose reads return only while it is not locked.
type deaf struct {
	net.Conn
	*sync.RWMutex
}

// Read implements net.Conn.
func (d *deaf) Read(to []byte) (int, error) {
	n, err := d.Conn.Read(to)
	d.RLock()
	defer d.RUnlock()
	return n, err
}

// ask sends a request and does not read the answer.
func ask(ctx context.Context, t *testing.T, c *grpc.ClientConn) grpc.ClientStream {
	s, err := c.NewStream(ctx, &grpc.StreamDesc{}, pb.GRPCInferenceService_ModelInfer_FullMethodName)
	require.NoError(t, err)
	require.NoError(t, s.SendMsg(question()))
	require.NoError(t, s.CloseSend())
	return s
}

// full sends requests until no further answer may be held, and a few more, and reads nothing
// but refusals. It returns the streams that have an answer to read.
func full(ctx context.Context, t *testing.T, c *grpc.ClientConn, answers, size int, held *gateway.Bytes) []grpc.ClientStream {
	var all []grpc.ClientStream
	for n := range answers { // one by one: calls whose messages come have not room for all at once
		all = append(all, ask(ctx, t, c))
		require.Eventually(t, func() bool { return held.Now() == int64((n+1)*room(size)) }, time.Minute, time.Millisecond)
	}
	for range 10 {
		refusedFor(t, ask(ctx, t, c).RecvMsg(new(pb.ModelInferResponse)))
	}
	return all
}

func refusedFor(t *testing.T, err error) {
	t.Helper()
	require.Equal(t, codes.ResourceExhausted, status.Code(err))
	e := oipgrpc.DecodeError(err)
	require.Equal(t, wire.CodeOverloaded, e.Code)
	require.Contains(t, e.Reason, "--max-bytes")
}

// TestAnswersThatAreNotReadAreHeld requests large answers, of which only a part is sent before
// it is read.
func TestAnswersThatAreNotReadAreHeld(t *testing.T) {
	const size, answers = 200 << 10, 32
	bound := answers*room(size) + 64<<10 // the requests have room, one more answer has not
	for name, end := range map[string]func(t *testing.T, c *grpc.ClientConn, hangUp func(), all []grpc.ClientStream){
		"read": func(t *testing.T, _ *grpc.ClientConn, _ func(), all []grpc.ClientStream) {
			for _, s := range all {
				m := new(pb.ModelInferResponse)
				require.NoError(t, s.RecvMsg(m))
				require.Len(t, m.RawOutputContents[0], size)
			}
		},
		"cancelled": func(_ *testing.T, _ *grpc.ClientConn, hangUp func(), _ []grpc.ClientStream) { hangUp() },
		"cut off": func(t *testing.T, c *grpc.ClientConn, _ func(), _ []grpc.ClientStream) {
			require.NoError(t, c.Close())
		},
	} {
		t.Run(name, func(t *testing.T) {
			held := gateway.NewBytes(gateway.ByteLimits{Total: int64(bound)})
			c, _ := answering(t, size, held)
			ctx, hangUp := context.WithCancel(t.Context())
			defer hangUp()
			end(t, c, hangUp, full(ctx, t, c, answers, size, held))
			require.Eventually(t, func() bool { return held.Now() == 0 }, time.Minute, time.Millisecond, "without any collection of garbage")
			require.LessOrEqual(t, held.Most(), int64(bound))
		})
	}
}

// TestAnswersThatAreReadAreNotHeld: nothing is held once the caller has its answer.
func TestAnswersThatAreReadAreNotHeld(t *testing.T) {
	for _, size := range []int{1, 1 << 10, 100 << 10, 3 << 20} {
		held := gateway.NewBytes(gateway.ByteLimits{Total: 1 << 30})
		c, _ := answering(t, size, held)
		client := pb.NewGRPCInferenceServiceClient(c)
		for range 20 {
			out, err := client.ModelInfer(t.Context(), question())
			require.NoError(t, err)
			require.Len(t, out.RawOutputContents[0], size)
			require.Zero(t, held.Now())
		}
		require.GreaterOrEqual(t, held.Most(), int64(size))
	}
}

// TestSmallAnswersThatAreNotRead sends requests on a connection that reads nothing for a while.
func TestSmallAnswersThatAreNotRead(t *testing.T) {
	const answers, bound = 100, 100*smallest + 16*perCall
	held := gateway.NewBytes(gateway.ByteLimits{Total: bound})
	c, ears := answering(t, 8, held)
	client := pb.NewGRPCInferenceServiceClient(c)
	_, err := client.ModelInfer(t.Context(), question())
	require.NoError(t, err)

	ears.Lock()
	ends := make(chan error, 4*answers)
	for range cap(ends) {
		go func() {
			_, err := client.ModelInfer(t.Context(), question())
			ends <- err
		}()
	}
	enough := assert.Eventually(t, func() bool { return held.Most() >= bound*3/4 }, time.Minute, time.Millisecond, "by requests under way, or answers")
	assert.Empty(t, ends)
	ears.Unlock()
	require.True(t, enough)
	answered := 0
	for range cap(ends) {
		if err := <-ends; err != nil {
			refusedFor(t, err)
		} else {
			answered++
		}
	}
	require.Positive(t, answered) // how many depends on how many are under way at once
	require.LessOrEqual(t, held.Most(), int64(bound))
	require.Zero(t, held.Now())
}

// TestAConnectionThatDoesNotReadEnds holds that it keeps out the others for so long only.
func TestAConnectionThatDoesNotReadEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		held := gateway.NewBytes(gateway.ByteLimits{Total: 1 << 30})
		c, _ := answering(t, 200<<10, held)
		begin := time.Now()
		ask(t.Context(), t, c)
		time.Sleep(patience / 2)
		ask(t.Context(), t, c)
		synctest.Wait()
		require.EqualValues(t, 2*room(200<<10+100), held.Now())
		require.True(t, c.WaitForStateChange(t.Context(), connectivity.Ready))
		require.Equal(t, patience, time.Since(begin).Truncate(time.Second))
		synctest.Wait()
		require.Zero(t, held.Now())

		client := pb.NewGRPCInferenceServiceClient(c)
		for range 3 { // who reads stays
			_, err := client.ModelInfer(t.Context(), question(), grpc.WaitForReady(true))
			require.NoError(t, err)
			time.Sleep(2 * patience / 3)
		}
	})
}

// TestAForgottenAnswerIsNotHeld makes some that gRPC loses.
func TestAForgottenAnswerIsNotHeld(t *testing.T) {
	held := gateway.NewBytes(gateway.ByteLimits{Total: 1 << 20})
	s := &server{options: Options{Bytes: held}}
	c := new(conn)
	lose := func(c *conn) {
		a, err := s.encode(c, &wire.InferResponse{}, &oipgrpc.Call{Raw: true}, false)
		require.NoError(t, err)
		_, err = codec{}.Marshal(a)
		require.NoError(t, err)
	}
	for range 3 {
		lose(c)
		lose(nil)
	}
	require.EqualValues(t, 6*smallest, held.Now())
	gone := func(left int) {
		require.Eventually(t, func() bool {
			runtime.GC()
			return held.Now() == int64(left)*smallest
		}, time.Minute, time.Millisecond)
	}
	gone(3)
	for k := c.unread.first; k != nil; k = k.next {
		k.since = k.since.Add(-suspicious)
	}
	lose(c)
	c.unread.look(nil)
	gone(1)
	c.unread.end()
	require.Zero(t, held.Now())
}

// TestAnswersAreNotCompressed: a caller cannot have answers put into memory that is not
// counted.
func TestAnswersAreNotCompressed(t *testing.T) {
	held := gateway.NewBytes(gateway.ByteLimits{Total: 1 << 30})
	c, _ := answering(t, 1<<10, held)
	client := pb.NewGRPCInferenceServiceClient(c)
	var header metadata.MD
	out, err := client.ModelInfer(t.Context(), question(), grpc.UseCompressor(gzip.Name), grpc.Header(&header))
	require.NoError(t, err)
	require.Len(t, out.RawOutputContents[0], 1<<10)
	require.NotContains(t, header.Get("grpc-encoding"), gzip.Name)
}
