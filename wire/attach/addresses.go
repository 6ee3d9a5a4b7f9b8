package attach

import (
	"slices"
	"sync"
)

// Addresses are those of the gateways that the executors of a host attach to, all of
// them at once. Safe for concurrent use.
type Addresses struct {
	mu      sync.Mutex
	list    []string
	changed chan struct{} // closed, and replaced, by Set
}

// Set replaces the addresses. Executors attach to those that are new. A stream to
// one that is no longer among them is used as long as it lasts and then not dialled
// again: a gateway that the fleet has lost sight of may serve well. No addresses
// at all change nothing.
func (g *Addresses) Set(addresses []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(addresses) == 0 || slices.Equal(g.list, addresses) {
		return
	}
	g.list = slices.Clone(addresses)
	if g.changed != nil {
		close(g.changed)
	}
	g.changed = make(chan struct{})
}

// Watch returns the addresses, and what is closed when they change.
func (g *Addresses) Watch() ([]string, <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.changed == nil {
		g.changed = make(chan struct{})
	}
	return g.list, g.changed
}
