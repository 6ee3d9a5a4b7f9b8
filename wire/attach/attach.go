// Package attach is the protocol between a gateway and an executor: the executor opens a
// stream, identifies itself, then receives batches and returns results until one of the two
// requests a drain.
//
// Where a dispatcher stands between several gateways and the executor, the executor
// has a stream to it, too. A batch may then come in parts, one from every gateway that
// holds some of its items; each gets a Result for its part, and the dispatcher receives Done.
// Assembly puts the parts together.
//
// The same messages travel over TCP between hosts and over Go channels within
// one process; neither side sees the difference.
//
// # Batches in parts
//
// Assembly puts batches together that come in parts from several gateways.
//
// An Assembly stands between an executor and its streams to gateways and dispatchers.
// A batch of its own passes as it is. A part is held until all of its batch have come;
// then the joint batch comes out of the stream of the last one, and what the executor answers
// is taken apart again: a Result to every gateway for its part, and Done to the
// dispatcher whose batch it is.
//
//	gateway A ── part 0 ──┐
//	gateway B ── part 1 ──┴──> whole ──> engine ──> Result ──┬──> A
//	                                                         ├──> B
//	                                                         └── Done ──> dispatcher
//
// Where the dispatcher reports that a part will not come, or none has come for
// AssemblyPatience, the others run without it; a part that comes later is answered as
// "unavailable", upon which its gateway queues its items again. Parts that a replaced
// dispatcher has ordered are answered in the same way.
//
// # Over TCP
//
// Serve and Dialer carry the stream over TCP, for hosts apart, in the frames of package
// stream, with TLS or without. Each side sees a Stream like that of Pipe: Send never waits,
// and what was sent before Close still arrives.
//
// The gateway calls Serve with Gateway.Attach; a worker's Host dials with
// Dialer.Dial. Both must have the same token. Without TLS the token and all
// tensors travel in the clear: set TLS outside a trusted network.
//
// Either side sends a preamble with the version. Behind it the executor sends its token.
// Then a frame is a byte for its kind and a message of attachpb, or at last, either way,
// the end: with the reason as text, which is empty in good order. A connection that ends
// without one is broken.
//
// The receiver reads the connection itself. Where it has not for a while, because of a long
// batch, another goroutine reads ahead, so that the other side sees that this one lives.
package attach

import (
	"slices"
	"sync"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
)

// Message is exactly one of its fields.
type Message struct {
	Hello  *Hello  // executor to gateway, first and once
	Result *Result // executor to gateway, one per Batch
	Batch  *Batch  // gateway to executor
	Drain  *Drain  // either way: no more batches; what is held is finished
	Ready  *Ready  // executor to gateway, one per Result with Away
	Soon   *Soon   // executor to gateway, at most one per Batch and before its Result

	Owner *Owner // dispatcher to executor, first; executor to dispatcher, of a higher epoch whose dispatcher is gone
	Skip  *Skip  // dispatcher to executor
	Done  *Done  // executor to dispatcher, one per batch that it has started there

	// Between transports, either way; neither executors nor gateways see them.
	Ping *Ping
	Pong *Ping
}

// Ping requests a Pong, which shows that the other side lives.
type Ping struct{}

// Hello introduces an executor.
type Hello struct {
	Executor    string // placement.Slot.Executor
	Pipeline    string
	Module      string
	Host        string
	Device      string
	Hardware    string
	Engine      string
	MaxBatch    int
	Concurrency int
	Signature   pipelines.Signature

	// Residents are the modules of an executor that runs all of a cluster; there
	// is none of another.
	Residents []Resident
}

// Resident is one of several modules of an executor.
type Resident struct {
	Name      string // placement.Resident
	Signature pipelines.Signature
}

// SignatureOf is that of a resident, or, of an empty name, of an executor's one module;
// nil where the executor has no such module.
func (h *Hello) SignatureOf(resident string) *pipelines.Signature {
	if resident == "" {
		return &h.Signature
	}
	for i := range h.Residents {
		if h.Residents[i].Name == resident {
			return &h.Residents[i].Signature
		}
	}
	return nil
}

// Batch is work for the engine. Items[i][j] is input j of request i, inputs in
// the order of the signature.
type Batch struct {
	ID     uint64
	Module string    // Resident.Name; empty for an executor of one module
	Due    time.Time // when the batch must be finished; orders batches on a shared device
	Items  [][]wire.Tensor
	Part   Part

	// Apart means that one of the requests may have cost an engine: each is computed by
	// itself, so that the others have their answers.
	Apart bool
}

// Part means that a Batch is one of so many Parts of a batch that a dispatcher of this
// Epoch has started under that number. Parts is 0 where it is a batch of its own. One
// without items has no Result.
type Part struct {
	Epoch, Batch uint64
	Part, Parts  int
}

// Owner is the epoch by which the dispatcher decides. Parts of lower epochs, ordered by a
// dispatcher that has been replaced, are not computed any more.
type Owner struct{ Epoch uint64 }

// Skip means that a part will not come, because its gateway is gone.
type Skip struct{ Part }

// Done means that a batch has ended, with whatever parts have come; Failed is the
// number of items without an answer.
type Done struct {
	Epoch, Batch    uint64
	Waited, Compute time.Duration
	Failed          int
	Away            bool
}

// Result answers one Batch. Items[i][j] is output j of request i; when Err is
// set there are none, and every request of the batch has failed with it. Where
// only some have failed, Errs has an entry for each request, nil for the others.
//
// An error of code "unavailable" means that the engine was lost: no fault of the requests is
// known, and they may be tried again.
type Result struct {
	ID      uint64
	Items   [][]wire.Tensor
	Err     *wire.Error
	Errs    []*wire.Error
	Waited  time.Duration // in the executor, for the device
	Compute time.Duration // in the engine

	// Away means that the lane in which the batch ran takes no other until the executor sends
	// Ready, because its engine must be loaded again.
	Away bool

	// Untouched means, with Err, that the executor has not begun: the requests may be queued as if
	// they had never been sent.
	Untouched bool

	// Behind is how many requests, the last ones, the executor has not begun because the
	// engine was lost over one before them: they are Untouched each.
	Behind int
}

// Ready means that an engine is back.
type Ready struct{}

// Soon means that a batch is about to end, and that the place in which it runs takes
// the next one already: it begins at once when that has ended.
type Soon struct {
	ID      uint64
	Compute time.Duration // expected, in the engine
}

// Drain requests that the other side finish what it holds and then close.
type Drain struct {
	Reason string
}

// Stream carries messages both ways. Send and Recv may be called from two
// goroutines at once, but each from only one at a time. Recv returns io.EOF
// after the other side has closed in good order.
type Stream interface {
	Send(*Message) error
	Recv() (*Message, error)
	Close() error
}

// Cut is the result of the requests from one to another, under a number of its own.
func (r *Result) Cut(id uint64, from, to int) *Result {
	c := *r
	c.ID = id
	if n := max(len(r.Items), len(r.Errs)); r.Behind > 0 {
		c.Behind = min(max(r.Behind-(n-to), 0), to-from)
	}
	if r.Items != nil {
		c.Items = r.Items[from:min(to, len(r.Items))]
	}
	c.Errs = nil
	for _, err := range r.Errs[min(from, len(r.Errs)):min(to, len(r.Errs))] {
		if err != nil {
			c.Errs = r.Errs[from:to]
		}
	}
	return &c
}

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
