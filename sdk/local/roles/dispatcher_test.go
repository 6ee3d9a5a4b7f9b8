package roles

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/activities"
	"github.com/harpagon/harpagon/gateway"
	"github.com/harpagon/harpagon/gateway/httpapi"
	"github.com/harpagon/harpagon/sdk"
	"github.com/harpagon/harpagon/wire/attach"
	"github.com/harpagon/harpagon/wire/secure"
	"github.com/harpagon/harpagon/wire/secure/securetest"
)

// heard are the lines that a role has logged.
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
	require.Eventually(t, func() bool { return g.HasDispatcher("p") }, 10*time.Second, time.Millisecond)
	d.Stop()
	require.Eventually(t, func() bool { return !g.HasDispatcher("p") }, 10*time.Second, time.Millisecond)
}

// TestAGatewayThatStopsFollowsNobodyNew: views of the fleet that arrive meanwhile add
// nothing to wait for.
func TestAGatewayThatStopsFollowsNobodyNew(t *testing.T) {
	life, quit := context.WithCancel(t.Context())
	f := &followers{life: life, tell: func(string) {}}
	f.use(activities.DispatchersInput{Version: 1, Dispatchers: []activities.Member{{Address: "127.0.0.1:1"}}})
	quit()
	told := make(chan struct{})
	go func() {
		defer close(told)
		f.use(activities.DispatchersInput{Version: 2, Dispatchers: []activities.Member{{Address: "127.0.0.1:2"}}})
		f.mu.Lock()
		defer f.mu.Unlock()
		assert.NotContains(t, f.joined, "127.0.0.1:2")
	}()
	f.wait()
	<-told
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
	assert.Contains(t, refused.first(), "this dispatcher requires a token")

	_, err = StartDispatcher(t.Context(), DispatcherOptions{Addr: "0.0.0.0:0", Name: "d"})
	assert.ErrorContains(t, err, "can be reached from other hosts")
	assert.Equal(t, "g:1,10.0.0.1:8095,b:9", withDispatchers("g:1", []string{"10.0.0.1:8094", "nonsense", "b:8"}))
}

// TestAClientThatComesToADispatcher: it is referred to a gateway, and the dispatcher goes
// on.
func TestAClientThatComesToADispatcher(t *testing.T) {
	var says heard
	d := startDispatcher(t, DispatcherOptions{Log: says.tell})
	for _, body := range []int{16, 1 << 16} {
		client, err := sdk.Dial(t.Context(), d.Addr)
		if err == nil { // of several addresses, another may have answered
			_, err = client.Infer(t.Context(), "p", sdk.Inputs{"x": sdk.Float32(make([]float32, body), int64(body))})
		}
		require.ErrorIs(t, err, sdk.ErrInvalid)
		assert.ErrorContains(t, err, "this is the port of a dispatcher")
		assert.ErrorContains(t, err, "harpagon gateway --http")
	}
	require.Eventually(t, func() bool { return says.first() != "" }, 10*time.Second, time.Millisecond)
	assert.Contains(t, says.first(), "a client sends requests there")
	g := gateway.New(gateway.Options{Dispatched: true})
	defer g.Close()
	joined(t, g, d.Addr, secure.Credentials{}, &says)
	require.Eventually(t, func() bool { return g.HasDispatcher("p") }, 10*time.Second, time.Millisecond)
}

// TestADispatchersAddressThatIsAPortForExecutors: gateways listen for executors by gRPC.
func TestADispatchersAddressThatIsAPortForExecutors(t *testing.T) {
	g := gateway.New(gateway.Options{Dispatched: true})
	defer g.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go func() { _ = attach.Serve(t.Context(), l, attach.TCPOptions{}, g.Attach) }()
	var says heard
	joined(t, g, l.Addr().String(), secure.Credentials{}, &says)
	require.Eventually(t, func() bool { return says.first() != "" }, 10*time.Second, time.Millisecond)
	assert.Regexp(t, "not a dispatcher|is that the port of a dispatcher", says.first())
}

// TestGatewayAndDispatcherOverTLS: they believe certificates of one CA, and no others.
func TestGatewayAndDispatcherOverTLS(t *testing.T) {
	ours := securetest.New(t, "ours")
	d := startDispatcher(t, DispatcherOptions{Credentials: secure.Credentials{Identity: ours.Identity(t)}})
	g := gateway.New(gateway.Options{Dispatched: true})
	defer g.Close()
	var says heard
	joined(t, g, d.Addr, secure.Credentials{Identity: ours.Identity(t)}, &says)
	require.Eventually(t, func() bool { return g.HasDispatcher("p") }, 10*time.Second, time.Millisecond)
	require.Empty(t, says.first())

	for name, c := range map[string]secure.Credentials{
		"another CA": {Identity: securetest.New(t, "theirs").Identity(t)},
		"no TLS":     {},
	} {
		stranger := gateway.New(gateway.Options{Dispatched: true})
		defer stranger.Close()
		var refused heard
		joined(t, stranger, d.Addr, c, &refused)
		require.Eventually(t, func() bool { return refused.first() != "" }, 10*time.Second, time.Millisecond, name)
		assert.Regexp(t, "certificate|is that the port of a dispatcher|something else answers", refused.first(), name)
		require.False(t, stranger.HasDispatcher("p"), name)
	}
}
