package sdk_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/gateway/grpcapi"
	"github.com/harpagon/harpagon/gateway/httpapi"
	"github.com/harpagon/harpagon/sdk"
	"github.com/harpagon/harpagon/sdk/sdkgrpc"
	"github.com/harpagon/harpagon/sdk/sdktest"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/listen"
	"github.com/harpagon/harpagon/wire/secure"
)

// front is a gateway's address that can be taken away abruptly: its listener and
// all its connections are closed, as by a kill.
type front struct {
	t       *testing.T
	backend wire.Backend
	address string
	rpc     bool
	mute    atomic.Bool // connections stay, and answers wait, as of a stopped process

	mu    sync.Mutex
	l     net.Listener
	conns []net.Conn
}

// protocols runs a test over HTTP and over gRPC: serve makes a gateway, and dial a client.
func protocols(t *testing.T, f func(t *testing.T, serve func(wire.Backend) *front)) {
	for _, rpc := range []bool{false, true} {
		t.Run(map[bool]string{false: "http", true: "grpc"}[rpc], func(t *testing.T) {
			f(t, func(b wire.Backend) *front { return newFront(t, b, rpc) })
		})
	}
}

func dial(ctx context.Context, fronts ...*front) (*sdk.Client, error) {
	var all []string
	for _, f := range fronts {
		all = append(all, map[bool]string{false: "http://", true: "grpc://"}[f.rpc]+f.address)
	}
	return sdk.Dialer{GRPC: sdkgrpc.Connect}.Dial(ctx, all...)
}

func newFront(t *testing.T, b wire.Backend, rpc bool) *front {
	at, release, err := listen.Reserve("127.0.0.1:0", secure.Credentials{}) // no other process gets it while it is closed
	require.NoError(t, err)
	f := &front{t: t, backend: b, address: at.String(), rpc: rpc}
	f.open()
	t.Cleanup(func() {
		f.mute.Store(false)
		f.kill()
		release()
	})
	return f
}

func (f *front) open() {
	l, err := net.Listen("tcp", f.address)
	require.NoError(f.t, err)
	f.mu.Lock()
	f.l, f.conns = l, nil
	f.mu.Unlock()
	if f.rpc {
		go func() { _ = grpcapi.New(f.backend, grpcapi.Options{}).Serve(&kept{l, f}) }()
		return
	}
	server := &http.Server{Handler: httpapi.New(f.backend, httpapi.Options{})}
	go func() { _ = server.Serve(&kept{l, f}) }()
}

// kept is a listener whose connections the front keeps.
type kept struct {
	net.Listener
	f *front
}

func (k *kept) Accept() (net.Conn, error) {
	c, err := k.Listener.Accept()
	if err != nil {
		return nil, err
	}
	k.f.mu.Lock()
	defer k.f.mu.Unlock()
	k.f.conns = append(k.f.conns, c)
	return &muted{c, k.f}, nil
}

// muted is a connection that sends nothing while its front is mute.
type muted struct {
	net.Conn
	f *front
}

func (m *muted) Write(b []byte) (int, error) {
	for m.f.mute.Load() {
		time.Sleep(time.Millisecond)
	}
	return m.Conn.Write(b)
}

func (f *front) kill() {
	f.mu.Lock()
	defer f.mu.Unlock()
	_ = f.l.Close()
	for _, c := range f.conns {
		if t, ok := c.(*net.TCPConn); ok {
			_ = t.SetLinger(0)
		}
		_ = c.Close()
	}
}

// echo answers a number with itself, after a while.
func echo(wait time.Duration) sdktest.Fake {
	return sdktest.Fake{"p": func(ctx context.Context, in sdk.Inputs) (sdktest.Outputs, error) {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
		return sdktest.Outputs{"y": in["x"]}, nil
	}}
}

// ask sends numbers from several callers until stop is closed, and checks that every
// one is answered by itself.
func ask(t *testing.T, c *sdk.Client, stop <-chan struct{}) (sent *atomic.Int64, wait func()) {
	sent = &atomic.Int64{}
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				n := float32(sent.Add(1))
				ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
				r, err := c.Infer(ctx, "p", sdk.Inputs{"x": sdk.Float32([]float32{n}, 1)})
				cancel()
				if err != nil {
					t.Errorf("request %v: %v", n, err)
					return
				}
				y, err := r.Tensor("y")
				if err != nil || math.Float32frombits(binary.LittleEndian.Uint32(y.Data)) != n {
					t.Errorf("request %v was answered with %v, %v", n, y, err)
				}
			}
		})
	}
	return sent, callers.Wait
}

func TestNoRequestFailsWhenGatewaysAreKilled(t *testing.T) {
	protocols(t, func(t *testing.T, serve func(wire.Backend) *front) {
		a, b := serve(echo(2*time.Millisecond)), serve(echo(2*time.Millisecond))
		c, err := dial(t.Context(), a, b)
		require.NoError(t, err)
		defer c.Close()
		stop := make(chan struct{})
		sent, wait := ask(t, c, stop)
		for i := range 12 {
			f := []*front{a, b}[i%2]
			before := sent.Load()
			require.Eventually(t, func() bool { return sent.Load() > before+8 }, time.Minute, 10*time.Millisecond)
			f.kill()
			time.Sleep(20 * time.Millisecond)
			f.open()
		}
		a.kill() // and both at once
		b.kill()
		time.Sleep(50 * time.Millisecond)
		a.open()
		b.open()
		close(stop)
		wait()
	})
}

func TestASilentGatewayIsLeft(t *testing.T) {
	protocols(t, func(t *testing.T, serve func(wire.Backend) *front) {
		a, b := serve(echo(0)), serve(echo(0))
		c, err := dial(t.Context(), a, b)
		require.NoError(t, err)
		defer c.Close()
		stop := make(chan struct{})
		sent, wait := ask(t, c, stop)
		a.mute.Store(true)
		before := sent.Load()
		require.Eventually(t, func() bool { return sent.Load() > before+200 }, 30*time.Second, time.Millisecond, "requests go on with the other")
		b.mute.Store(true)
		a.mute.Store(false)
		before = sent.Load()
		require.Eventually(t, func() bool { return sent.Load() > before+200 }, 30*time.Second, time.Millisecond, "the one that is back gets requests again")
		b.mute.Store(false)
		close(stop)
		wait()
	})
}

func TestAGatewayThatHasJustStartedIsNoAnswer(t *testing.T) {
	protocols(t, func(t *testing.T, serve func(wire.Backend) *front) {
		var ready atomic.Bool
		var asked atomic.Int64
		a, b := serve(echo(0)), serve(sdktest.Fake{"p": func(_ context.Context, in sdk.Inputs) (sdktest.Outputs, error) {
			if asked.Add(1); !ready.Load() {
				e := wire.Errorf(wire.CodeUnavailable, "", "this gateway has just started")
				e.Starting = true
				return nil, e
			}
			return sdktest.Outputs{"y": in["x"]}, nil
		}})
		c, err := dial(t.Context(), a, b)
		require.NoError(t, err)
		defer c.Close()
		stop := make(chan struct{})
		sent, wait := ask(t, c, stop)
		require.Eventually(t, func() bool { return sent.Load() > 1000 }, 30*time.Second, time.Millisecond, "the other answers")
		require.Less(t, asked.Load(), sent.Load()/3, "it is probed now and then, and not in turn")
		a.kill() // the only one that is ready
		before := asked.Load()
		require.Eventually(t, func() bool { return asked.Load() > before+20 }, 30*time.Second, time.Millisecond)
		ready.Store(true)
		held := sent.Load()
		require.Eventually(t, func() bool { return sent.Load() > held+100 }, 30*time.Second, time.Millisecond, "those that waited are answered")
		close(stop)
		wait()

		ready.Store(false)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err = c.Infer(ctx, "p", nil)
		require.Error(t, err, "its deadline ends the waiting")
	})
}

func TestRequestsAreBalanced(t *testing.T) {
	protocols(t, func(t *testing.T, serve func(wire.Backend) *front) {
		var counts [2]atomic.Int64
		var fronts []*front
		for i := range counts {
			f := serve(sdktest.Fake{"p": func(context.Context, sdk.Inputs) (sdktest.Outputs, error) {
				counts[i].Add(1)
				return sdktest.Outputs{}, nil
			}})
			fronts = append(fronts, f)
		}
		c, err := dial(t.Context(), fronts...)
		require.NoError(t, err)
		defer c.Close()
		for range 10 {
			_, err := c.Infer(t.Context(), "p", nil)
			require.NoError(t, err)
		}
		require.EqualValues(t, 5, counts[0].Load())
		require.EqualValues(t, 5, counts[1].Load())
	})
}

func TestOnlyWhatHasNoAnswerIsAskedAgain(t *testing.T) {
	protocols(t, func(t *testing.T, serve func(wire.Backend) *front) {
		for code, asked := range map[wire.Code]int64{wire.CodeOverloaded: 1, wire.CodeInvalid: 1, wire.CodeDeadline: 1, wire.CodeUnavailable: 2} {
			var count atomic.Int64
			fake := sdktest.Fake{"p": func(context.Context, sdk.Inputs) (sdktest.Outputs, error) {
				count.Add(1)
				return nil, wire.Errorf(code, "", "no")
			}}
			c, err := dial(t.Context(), serve(fake), serve(fake))
			require.NoError(t, err)
			_, err = c.Infer(t.Context(), "p", nil)
			require.ErrorContains(t, err, string(code))
			require.Equal(t, asked, count.Load(), fmt.Sprint(code))
			require.NoError(t, c.Close())
		}
	})
}

func TestDialNeedsOneOfSeveral(t *testing.T) {
	protocols(t, func(t *testing.T, serve func(wire.Backend) *front) {
		gone := serve(echo(0))
		gone.kill()
		c, err := dial(t.Context(), gone, serve(echo(0)))
		require.NoError(t, err)
		_, err = c.Infer(t.Context(), "p", sdk.Inputs{"x": sdk.Float32([]float32{1}, 1)})
		require.NoError(t, err)
		require.NoError(t, c.Close())
		_, err = dial(t.Context(), gone, gone)
		require.ErrorIs(t, err, sdk.ErrUnavailable)
		_, err = dial(t.Context())
		require.ErrorIs(t, err, sdk.ErrOption)
	})
}

func TestAGatewayThatIsGoneForGoodIsSaidInTime(t *testing.T) {
	protocols(t, func(t *testing.T, serve func(wire.Backend) *front) {
		a, b := serve(echo(0)), serve(echo(0))
		c, err := dial(t.Context(), a, b)
		require.NoError(t, err)
		defer c.Close()
		a.kill()
		b.kill()
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err = c.Infer(ctx, "p", nil)
		require.Error(t, err)
		var e *sdk.Error
		require.ErrorAs(t, err, &e)
	})
}
