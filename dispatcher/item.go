package dispatcher

import (
	"sync/atomic"

	"github.com/harpagon/harpagon/scheduler/autoscale"
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/wire/attach"
)

// Gateway holds requests. It is called while no lock is held, and must not block.
type Gateway interface {
	// Start reports that the items, all that the gateway has in the batch, start now. They
	// are the part of that number.
	Start(b *Batch, items []*Item, part int)
	// Drop reports that an item was given up.
	Drop(it *Item, why Drop)
}

// Request is a dispatcher's record of a request.
type Request struct {
	Generation *Generation // that serves it
	Gateway    Gateway     // that holds it
	Arrival    dispatch.Time
	Deadline   dispatch.Time // 0 when there is none

	over atomic.Bool
	// Under the lock of the account:
	entered bool          // admission control counts its items
	left    bool          // and has counted it out
	spent   dispatch.Time // of devices

	told atomic.Pointer[toldOf] // the links that have numbered it
}

// toldOf is a link that has sent a request under a number, and those that sent it before: each counts it until
// it is over.
type toldOf struct {
	link   *Link
	number uint64
	before *toldOf
}

// End notes that the request is over: items of it that come are not taken.
func (r *Request) End() { r.over.Store(true) }

// CostEngine reports that the item was in a batch with which an engine was lost: it may be what
// the engine was lost over.
func (it *Item) CostEngine() bool { return it.Attempts > 0 && it.lost == nil }

// ComesAgain reports that the item was queued before by another dispatcher, and whether it was lost
// with its executor.
func (it *Item) ComesAgain(lost bool) {
	it.Attempts = 1
	if lost {
		it.lost = new(loss)
	}
}

// Over reports whether the request is over.
func (r *Request) Over() bool { return r.over.Load() }

// Item is the work of one request at one module. A dispatcher holds very many, most of which
// nothing has used for long when it needs them: what it needs of all items of a batch lies
// together, and fields fill each other's gaps.
type Item struct {
	Request *Request
	Holder  any   // what the gateway has of it
	Index   int32 // of the module in the generation
	Size    int32 // rows; 1 where the module is not for queries

	// The station's, under its lock until the item has come back.
	class    int32 // its class at the policy
	Batch    int32 // rows or items that it ran with
	refusals int16 // how often it was queued again before it can have reached an engine
	Attempts int8  // and after it may have
	state    itemState
	Settled  bool // what the last Cancel has found: it is back, and the dispatcher holds it no more
	More     bool // others of its request come to the module in the same instant, after it
	Times
	stats *moduleStats // that counts it
	id    dispatch.RequestID
	lost  *loss // the last; nil without

	Form  uint64 // of a function: items of different forms go in calls of their own
	Class int32  // of a function: the application's, in the request's generation
}

// loss is that of an item with its executor.
type loss struct {
	at   dispatch.Time
	host string
}

// Times of an item on the dispatcher's clock.
type Times struct {
	Ready, Began, Ended  dispatch.Time
	Queue, Wait, Compute dispatch.Time
}

type itemState uint8

const (
	fresh itemState = iota
	queued
	sent
	ended
	settled // and no report of it can follow
)

// Batch is what runs together on an executor.
type Batch struct {
	ID       uint64 // for the executor; 0 for a call
	Executor *Executor
	Items    []*Item
	Rows     int
	Parts    int           // gateways that hold items of it
	At, Due  dispatch.Time // when it started, and when it should be done
	Closed   dispatch.Time // when it was complete

	// Whole is what the batch is a part of, where another dispatcher has decided it.
	Whole attach.Part

	link    *Link // to that dispatcher
	station *station
	lane    int32         // -1 when the station has forgotten it; under station.mu
	soon    dispatch.Time // when Soon arrived for it; 0 where it did not
	group   int32         // that it runs for; -1 once another plan has come
	Apart   bool          // items of it may have cost an engine: they run singly
	stuck   dispatch.Time // when it takes far longer than its profile; 0 where that is not known
	misses  dispatch.Time // and has missed a deadline by then; dispatch.Never where it cannot
	few     [4]*Item      // items of a small batch

	Told atomic.Bool // a gateway elsewhere was: before, no honest executor can have ended it

	gateways []Gateway // that hold items, in the order of parts
	one      [1]Gateway
}

// Service is the name of the service that the batch is for.
func (b *Batch) Service() string { return b.station.service }

// Report is what is known of a batch that has come back.
type Report struct {
	Waited, Compute dispatch.Time
	Failed          int  // items
	Away            bool // its engine must be loaded again
}

// Drop is why an item was given up.
type Drop uint8

// The reasons. The policy's come first.
const (
	Late       Drop = iota + 1 // its deadline can no longer be met
	Full                       // the queue is at its bound
	NoExecutor                 // and its deadline can no longer be met
	Lost                       // with its executor, and there is no time for another
	CallsFull                  // as many calls run as the provider allows, and its deadline can no longer be met
	LostTwice                  // two executors were lost while they held it
	Unserved                   // its application is not served any more
	Stopping                   // no more calls are made
	Refused                    // the requests before its own leave no time for it
)

// Cause is the reason as package autoscale calls it; empty where no policy has
// decided it.
func (d Drop) Cause() string {
	switch d {
	case Late, CallsFull:
		return autoscale.DropLate
	case Full:
		return autoscale.DropFull
	case NoExecutor:
		return autoscale.DropNoExecutor
	case Lost:
		return autoscale.DropLost
	}
	return ""
}

// request is the item as the policy sees it: one that may have cost an engine comes after all
// that are here and have not, since it may cost the next one. The station's lock is held.
func (it *Item) request() dispatch.Request {
	q := dispatch.Request{ID: it.id, Size: it.Size, Class: it.class}
	r := it.Request
	n := &r.Generation.Nodes[it.Index]
	n.SetTimes(&q, r.Arrival, r.Deadline, n.Keep.Least)
	if it.CostEngine() {
		q.Arrival = max(q.Arrival, it.station().newest)
	}
	return q
}

// left is the state of the items of a batch that has come back. Those of a whole batch of one
// gateway are settled; of others a report may still follow, as of those of a batch that its
// executor ended before its start was reported.
func (b *Batch) left(r Report) itemState {
	if b.Parts > 1 || r.Failed > 0 || !b.Told.Load() {
		return ended
	}
	return settled
}

// finish splits the time between sending and receiving.
func (it *Item) finish(left itemState, now, waited, compute dispatch.Time) {
	it.state, it.Ended = left, now
	away := now - it.Began
	waited = min(max(waited, 0), away)
	it.Compute = min(max(compute, 0), away-waited)
	it.Queue += waited
}

// transfer is how long the item took to the executor and back.
func (it *Item) transfer() dispatch.Time {
	return it.Ended - it.Ready - it.Queue - it.Wait - it.Compute
}
