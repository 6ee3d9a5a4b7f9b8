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

	"github.com/harpagon/harpagon/gateway/httpapi"
	"github.com/harpagon/harpagon/sdk"
	"github.com/harpagon/harpagon/sdk/sdktest"
	"github.com/harpagon/harpagon/wire"
)

// front is a gateway's address that can be taken away abruptly: its listener and
// all its connections are closed, as by a kill.
type front struct {
	t       *testing.T
	backend wire.Backend
	address string
	mute    atomic.Bool // connections stay, and answers wait, as of a stopped process

	mu    sync.Mutex
	l     net.Listener
	conns map[net.Conn]bool
}

func newFront(t *testing.T, b wire.Backend) *front {
	f := &front{t: t, backend: b, address: "127.0.0.1:0"}
	f.open()
	f.address = f.l.Addr().String()
	t.Cleanup(func() {
		f.mute.Store(false)
		f.kill()
	})
	return f
}

func (f *front) open() {
	l, err := net.Listen("tcp", f.address)
	require.NoError(f.t, err)
	f.mu.Lock()
	f.l, f.conns = l, map[net.Conn]bool{}
	f.mu.Unlock()
	handler := httpapi.New(f.backend, httpapi.Options{})
	server := &http.Server{
		ConnState: func(c net.Conn, s http.ConnState) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.conns[c] = s != http.StateClosed
		},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			for f.mute.Load() {
				time.Sleep(time.Millisecond)
			}
			handler.ServeHTTP(w, r)
		}),
	}
	go func() { _ = server.Serve(l) }()
}

func (f *front) kill() {
	f.mu.Lock()
	defer f.mu.Unlock()
	_ = f.l.Close()
	for c := range f.conns {
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
	a, b := newFront(t, echo(2*time.Millisecond)), newFront(t, echo(2*time.Millisecond))
	c, err := sdk.Dial(t.Context(), a.address, b.address)
	require.NoError(t, err)
	defer c.Close()
	stop := make(chan struct{})
	sent, wait := ask(t, c, stop)
	for i := range 12 {
		f := []*front{a, b}[i%2]
		time.Sleep(20 * time.Millisecond)
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
	require.Greater(t, sent.Load(), int64(50))
}

func TestASilentGatewayIsLeft(t *testing.T) {
	a, b := newFront(t, echo(0)), newFront(t, echo(0))
	c, err := sdk.Dial(t.Context(), a.address, b.address)
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
	require.Eventually(t, func() bool { return sent.Load() > before+200 }, 30*time.Second, time.Millisecond, "the one that is back is asked again")
	b.mute.Store(false)
	close(stop)
	wait()
}

func TestRequestsAreBalanced(t *testing.T) {
	var counts [2]atomic.Int64
	var addresses []string
	for i := range counts {
		f := newFront(t, sdktest.Fake{"p": func(context.Context, sdk.Inputs) (sdktest.Outputs, error) {
			counts[i].Add(1)
			return sdktest.Outputs{}, nil
		}})
		addresses = append(addresses, f.address)
	}
	c, err := sdk.Dial(t.Context(), addresses...)
	require.NoError(t, err)
	defer c.Close()
	for range 10 {
		_, err := c.Infer(t.Context(), "p", nil)
		require.NoError(t, err)
	}
	require.EqualValues(t, 5, counts[0].Load())
	require.EqualValues(t, 5, counts[1].Load())
}

func TestOnlyWhatHasNoAnswerIsAskedAgain(t *testing.T) {
	for code, asked := range map[wire.Code]int64{wire.CodeOverloaded: 1, wire.CodeInvalid: 1, wire.CodeDeadline: 1, wire.CodeUnavailable: 2} {
		var count atomic.Int64
		fake := sdktest.Fake{"p": func(context.Context, sdk.Inputs) (sdktest.Outputs, error) {
			count.Add(1)
			return nil, wire.Errorf(code, "", "no")
		}}
		c, err := sdk.Dial(t.Context(), newFront(t, fake).address, newFront(t, fake).address)
		require.NoError(t, err)
		_, err = c.Infer(t.Context(), "p", nil)
		require.ErrorContains(t, err, string(code))
		require.Equal(t, asked, count.Load(), fmt.Sprint(code))
		require.NoError(t, c.Close())
	}
}

func TestDialNeedsOneOfSeveral(t *testing.T) {
	gone := newFront(t, echo(0))
	gone.kill()
	c, err := sdk.Dial(t.Context(), gone.address, newFront(t, echo(0)).address)
	require.NoError(t, err)
	_, err = c.Infer(t.Context(), "p", sdk.Inputs{"x": sdk.Float32([]float32{1}, 1)})
	require.NoError(t, err)
	require.NoError(t, c.Close())
	_, err = sdk.Dial(t.Context(), gone.address, gone.address)
	require.ErrorIs(t, err, sdk.ErrUnavailable)
	_, err = sdk.Dial(t.Context())
	require.ErrorIs(t, err, sdk.ErrOption)
}

func TestAGatewayThatIsGoneForGoodIsSaidInTime(t *testing.T) {
	a, b := newFront(t, echo(0)), newFront(t, echo(0))
	c, err := sdk.Dial(t.Context(), a.address, b.address)
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
}
