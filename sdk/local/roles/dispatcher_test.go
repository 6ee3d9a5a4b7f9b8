package roles

import (
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/gateway"
	"github.com/harpagon/harpagon/gateway/httpapi"
	"github.com/harpagon/harpagon/wire/secure"
)

// heard are the lines that a role has told.
type heard struct {
	mu    sync.Mutex
	lines []string
}

func (h *heard) tell(line string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lines = append(h.lines, line)
}

func (h *heard) first() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.lines) == 0 {
		return ""
	}
	return h.lines[0]
}

// startDispatcher starts one at a free address whose next port is free, too.
func startDispatcher(t *testing.T, o DispatcherOptions) *Dispatcher {
	o.Addr, o.Name = "127.0.0.1:0", "d"
	var d *Dispatcher
	require.Eventually(t, func() bool { // the port after it may be taken
		var err error
		d, err = StartDispatcher(t.Context(), o)
		return err == nil
	}, 10*time.Second, time.Millisecond)
	t.Cleanup(d.Stop)
	return d
}

// joined has a gateway follow a dispatcher.
func joined(t *testing.T, g *gateway.Gateway, address string, c secure.Credentials, says *heard) {
	f := &followers{life: t.Context(), gateway: g, name: "g", credentials: c, tell: says.tell}
	f.add(address)
	t.Cleanup(f.running.Wait)
}

func TestAGatewayFollowsADispatcherOverTCP(t *testing.T) {
	o := secure.Credentials{Token: "secret"}
	d := startDispatcher(t, DispatcherOptions{Credentials: o})
	g := gateway.New(gateway.Options{Dispatched: true})
	defer g.Close()
	var says heard
	joined(t, g, d.Addr, o, &says)
	require.Eventually(t, func() bool { return g.Followed("p") }, 10*time.Second, time.Millisecond)
	d.Stop()
	require.Eventually(t, func() bool { return !g.Followed("p") }, 10*time.Second, time.Millisecond)
}

func TestADispatchersAddressThatLeadsElsewhere(t *testing.T) {
	g := gateway.New(gateway.Options{Dispatched: true})
	defer g.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go func() { _ = httpapi.Serve(t.Context(), l, httpapi.New(g, httpapi.Options{})) }()
	var says heard
	joined(t, g, l.Addr().String(), secure.Credentials{}, &says)
	require.Eventually(t, func() bool { return says.first() != "" }, 10*time.Second, time.Millisecond)
	assert.Contains(t, says.first(), "something else answers there, not a dispatcher")

	var refused heard
	d := startDispatcher(t, DispatcherOptions{Credentials: secure.Credentials{Token: "secret"}})
	joined(t, g, d.Addr, secure.Credentials{Token: "other"}, &refused)
	require.Eventually(t, func() bool { return refused.first() != "" }, 10*time.Second, time.Millisecond)
	assert.Contains(t, refused.first(), "wrong token")

	_, err = StartDispatcher(t.Context(), DispatcherOptions{Addr: "0.0.0.0:0", Name: "d"})
	assert.ErrorContains(t, err, "can be reached from other hosts")
	assert.Equal(t, "g:1,10.0.0.1:8095,b:9", withDispatchers("g:1", []string{"10.0.0.1:8094", "nonsense", "b:8"}))
}
