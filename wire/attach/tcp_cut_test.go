package attach

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/stream"
)

// cable passes bytes on to an address until it is cut: then it keeps all connections and
// passes nothing.
type cable struct {
	address string
	mu      sync.Mutex
	joined  sync.Cond
	cut     bool
	ended   bool
}

func lay(t *testing.T, to string) *cable {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	c := &cable{address: l.Addr().String()}
	c.joined.L = &c.mu
	t.Cleanup(func() {
		_ = l.Close()
		c.set(func() { c.ended = true })
	})
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", to)
			if err != nil {
				_ = near.Close()
				continue
			}
			go c.pass(near, far)
			go c.pass(far, near)
		}
	}()
	return c
}

func (c *cable) set(how func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	how()
	c.joined.Broadcast()
}

func (c *cable) pass(to, from net.Conn) {
	defer to.Close()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		c.mu.Lock()
		for c.cut && !c.ended {
			c.joined.Wait()
		}
		ended := c.ended
		c.mu.Unlock()
		if err != nil || ended {
			return
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// TestACutCable: both sides of a stream notice a cable that is cut, whether something is
// expected or not, and the executor reattaches once it is whole.
func TestACutCable(t *testing.T) {
	for name, busy := range map[string]bool{"busy": true, "idle": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := TCPOptions{Keepalive: time.Second}
			ends := make(chan error, 8)
			address := serve(t, o, func(s Stream) error {
				_, err := s.Recv()
				if err == nil && busy {
					err = s.Send(&Message{Batch: &Batch{ID: 1, Items: [][]wire.Tensor{{wire.FromFloat32([]float32{1}, 1)}}}})
				}
				for err == nil {
					_, err = s.Recv()
				}
				ends <- err
				return err
			})
			c := lay(t, address)
			s := dial(t, context.Background(), o, c.address)
			require.NoError(t, s.Send(&Message{Hello: &Hello{Executor: "e"}}))
			if busy {
				_, err := s.Recv()
				require.NoError(t, err)
			}
			time.Sleep(4 * o.Keepalive)
			require.Empty(t, ends, "silence alone is no cut")
			c.set(func() { c.cut = true })
			require.ErrorIs(t, <-ends, stream.ErrSilent)
			_, err := s.Recv()
			require.ErrorIs(t, err, stream.ErrSilent)
			c.set(func() { c.cut = false })
			s = dial(t, context.Background(), o, c.address)
			require.NoError(t, s.Send(&Message{Hello: &Hello{Executor: "e"}}))
			require.NoError(t, s.Close())
			require.NotErrorIs(t, <-ends, stream.ErrSilent)
		})
	}
}
