package grpcapi

import (
	"io"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/harpagon/harpagon/gateway"
)

// An answer that has waited to be read for suspicious may be one that gRPC has forgotten
// (see answer), which the collection of garbage then finds: there is one every two minutes
// at least. After patience its connection ends, so that a caller who never reads does not
// keep out the others for ever.
const (
	suspicious = time.Minute
	patience   = 4 * time.Minute
)

// kept is what an answer counts for until it is written.
type kept struct {
	held  gateway.HeldBytes
	since time.Time
	among *unread // nil where the connection is unknown
	over  atomic.Bool

	answer     *answer // nil once it is suspicious
	next, prev *kept   // of the same connection
}

// release gives back what is held, once.
func (k *kept) release() {
	if !k.over.CompareAndSwap(false, true) {
		return
	}
	k.held.Release()
	if k.among != nil {
		k.among.remove(k)
	}
}

// suspect releases what is kept when its answer is garbage, to which it must not lead.
func (k *kept) suspect() {
	if k.answer != nil {
		runtime.AddCleanup(k.answer, (*kept).release, k)
		k.answer = nil
	}
}

// unread are the answers of one connection that are not written yet, in the order in
// which they came. The zero one is ready.
type unread struct {
	mu          sync.Mutex
	first, last *kept
	watch       *time.Timer // runs while there may be any
	ended       bool
}

// add takes one more; on is the connection. What comes after its end is given back
// by gRPC, which cannot write it.
func (u *unread) add(k *kept, on io.Closer) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.ended {
		return
	}
	k.among = u
	if k.prev = u.last; k.prev == nil {
		u.first = k
	} else {
		k.prev.next = k
	}
	u.last = k
	if u.watch == nil {
		u.watch = time.AfterFunc(suspicious, func() { u.look(on) })
	}
}

func (u *unread) remove(k *kept) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if k.prev != nil {
		k.prev.next = k.next
	} else if u.first == k {
		u.first = k.next
	}
	if k.next != nil {
		k.next.prev = k.prev
	} else if u.last == k {
		u.last = k.prev
	}
	k.next, k.prev = nil, nil
}

// look suspects what has waited long, ends the connection when one has waited too long,
// and looks again when there may be more of either.
func (u *unread) look(on io.Closer) {
	u.mu.Lock()
	for k := u.first; k != nil && time.Since(k.since) >= suspicious; k = k.next {
		k.suspect()
	}
	late := u.first != nil && time.Since(u.first.since) >= patience
	if u.first == nil || u.ended || late {
		u.watch = nil
	} else {
		u.watch.Reset(suspicious)
	}
	u.mu.Unlock()
	if late {
		_ = on.Close()
	}
}

// end gives back what the connection has left: of what it was writing gRPC says nothing.
func (u *unread) end() {
	u.mu.Lock()
	u.ended = true
	if u.watch != nil {
		u.watch.Stop()
	}
	first := u.first
	u.mu.Unlock()
	for first != nil {
		first.release()
		u.mu.Lock()
		first = u.first
		u.mu.Unlock()
	}
}
