package roles

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/harpagon/harpagon/activities"
	"github.com/harpagon/harpagon/gateway"
	"github.com/harpagon/harpagon/wire/secure"
	"github.com/harpagon/harpagon/wire/stream"
)

// OfFleet stands for the addresses of the dispatchers that are members of the fleet.
const OfFleet = "fleet"

// How a gateway comes to its dispatchers again.
const (
	followTimeout = 2 * time.Second
	followEvery   = 50 * time.Millisecond
)

// followers keep a gateway joined to dispatchers.
type followers struct {
	life        context.Context
	gateway     *gateway.Gateway
	name        string
	credentials secure.Credentials
	patience    time.Duration
	tell        func(string)
	running     sync.WaitGroup

	mu      sync.Mutex
	version int      // of the fleet
	wanted  []string // addresses
	joined  []string // addresses that are followed or dialled
}

// use hears which dispatchers the fleet has.
func (f *followers) use(in activities.DispatchersInput) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if in.Version < f.version {
		return
	}
	f.version, f.wanted = in.Version, nil
	for _, m := range in.Dispatchers {
		f.want(m.Address)
	}
}

// add follows one for good.
func (f *followers) add(address string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.want(address)
}

// want has an address followed. The lock is held.
func (f *followers) want(address string) {
	f.wanted = append(f.wanted, address)
	if !slices.Contains(f.joined, address) {
		f.joined = append(f.joined, address)
		f.running.Go(func() { f.follow(address) })
	}
}

// still says whether an address is to be dialled again, and forgets it where it is not.
// A dispatcher that the fleet has lost sight of may decide well for as long as the
// connection lasts.
func (f *followers) still(address string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.life.Err() == nil && slices.Contains(f.wanted, address) {
		return true
	}
	f.joined = slices.DeleteFunc(f.joined, func(other string) bool { return other == address })
	return false
}

// follow keeps the gateway joined to a dispatcher until life ends, or the fleet knows
// it no more. What goes wrong is told when it is new.
func (f *followers) follow(address string) {
	said := ""
	for f.still(address) {
		conn, err := dialDispatcher(f.life, address, f.credentials)
		if err == nil {
			said = ""
			unlink := context.AfterFunc(f.life, func() { _ = conn.Close() })
			err = f.gateway.Follow(conn, f.name, f.credentials.Token, f.patience)
			unlink()
		}
		if err != nil && f.life.Err() == nil && err.Error() != said {
			said = err.Error()
			f.tell(fmt.Sprintf("gateway: the dispatcher at %s: %v", address, err))
		}
		select {
		case <-time.After(followEvery):
		case <-f.life.Done():
		}
	}
}

func dialDispatcher(ctx context.Context, address string, c secure.Credentials) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if err := c.MaySend(host, c.Identity != nil); err != nil {
		return nil, err
	}
	ctx, end := context.WithTimeout(ctx, followTimeout)
	defer end()
	var over *tls.Config
	if c.Identity != nil {
		over = c.Identity.Client(host)
	}
	return stream.Dial(ctx, address, over)
}
