package server

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/harpagon/harpagon/dispatcher"
	"github.com/harpagon/harpagon/scheduler/dispatch/admission"
	"github.com/harpagon/harpagon/wire/queue"
)

// peerRequest is a request as a gateway elsewhere has told of it.
type peerRequest struct {
	dispatcher.Request
	free    bool // there is none: the memory is for the next of its number
	refused bool
	several bool     // it has items beside the first
	first   peerItem // most have one, which needs no memory of its own
}

// peerItem is an item of a gateway elsewhere.
type peerItem struct {
	dispatcher.Item
	ref     queue.Ref
	settled atomic.Bool // it is back, and nobody else holds it
}

// settle notes that the items of a batch that has come back, as a whole and from one
// gateway, are held by that gateway's peer alone. Of other batches somebody may still tell,
// as of one whose executor ends it before anybody was told that it starts.
func settle(b *dispatcher.Batch, failed int) {
	if b.Parts > 1 || failed > 0 || !b.Told.Load() {
		return
	}
	for _, it := range b.Items {
		it.Holder.(*peerItem).settled.Store(true)
	}
}

// requestsAtOnce is for how many requests to come memory is allotted at once: they lie side
// by side then, and one that stays long keeps few others.
const requestsAtOnce = 32

// maxKept bounds the numbers whose memory is kept for the next request.
const maxKept = 1 << 17

func (p *peer) arrive(m *queue.Message) error {
	g := p.generations[m.Generation]
	place, slot, most := queue.Place(m.Station), uint64(uint32(m.Item)), p.server.options.Modules
	switch {
	case g == nil || m.Node >= uint64(len(g.Nodes)):
		return errors.New("an item of a module that was not installed")
	case m.Request >= maxRequests || place >= uint64(most) || slot >= maxSlots:
		return fmt.Errorf("%w: more than %d requests, %d modules or %d items of one are under way", ErrTooMany, maxRequests, most, maxSlots)
	case m.Size > maxSlots:
		return fmt.Errorf("an item of %d rows", m.Size)
	}
	of, index := g.MemberOf(int32(m.Node))
	r, fresh := p.request(m, of)
	it := &r.first
	if !fresh {
		it, r.several = new(peerItem), true
	}
	it.ref = queue.Ref{Station: m.Station, Item: m.Item}
	it.Request, it.Holder, it.Index, it.Size, it.More = &r.Request, it, index, int32(m.Size), m.More
	if m.Again {
		it.Attempts = 1
	}
	if fresh && !p.server.dispatcher.Admit(of, p.now, r.Deadline) {
		r.refused = true
	}
	if r.refused {
		r.End()
		p.Drop(&it.Item, dispatcher.Refused)
		return nil
	}
	for uint64(len(p.items)) <= place {
		p.items = append(p.items, nil)
	}
	for uint64(len(p.items[place])) <= slot {
		p.items[place] = append(p.items[place], nil)
	}
	if before := p.items[place][slot]; before != nil && !before.settled.Load() {
		// While another owned the service the gateway has told that one alone what became of
		// it; or it tells the same item again.
		p.server.dispatcher.Cancel(&before.Item)
	}
	p.items[place][slot] = it
	p.server.dispatcher.ArriveAt(p.now, &it.Item)
	return nil
}

// request finds or makes the request of an item.
func (p *peer) request(m *queue.Message, g *dispatcher.Generation) (r *peerRequest, fresh bool) {
	for uint64(len(p.requests)) <= m.Request {
		p.requests = append(p.requests, nil)
	}
	if r = p.requests[m.Request]; r.open() {
		return r, false
	}
	if r == nil {
		if len(p.room) == 0 {
			p.room = make([]peerRequest, requestsAtOnce)
		}
		r, p.room = &p.room[0], p.room[1:]
		p.requests[m.Request] = r
	}
	r.free = false
	r.Generation, r.Gateway, r.Arrival = g, p, max(1, p.now-m.Age)
	if m.Timed {
		r.Deadline = max(1, p.now+m.Left)
	}
	return r, true
}

// item that the gateway has there; nil where it was not told of.
func (p *peer) item(ref queue.Ref) *peerItem {
	place, slot := queue.Place(ref.Station), uint64(uint32(ref.Item))
	if place >= uint64(len(p.items)) || slot >= uint64(len(p.items[place])) {
		return nil
	}
	if it := p.items[place][slot]; it != nil && it.ref == ref {
		return it
	}
	return nil
}

// leaving is a request that its gateway has told the end of.
type leaving struct {
	number uint64
	how    admission.End
}

// leavesAtOnce is how many ends at most are handled together.
const leavesAtOnce = 16

// finishAll counts requests out whose ends came one behind the other. Nothing has used
// most of them for long: asking for the memory of all before any of it is needed has the
// processor wait once, instead of once for each.
func (p *peer) finishAll() {
	n := 0
	for _, l := range p.leaving {
		if l.number < uint64(len(p.requests)) && p.requests[l.number].open() {
			p.leaving[n] = l
			n++
		}
	}
	for _, l := range p.leaving[:n] {
		if r := p.requests[l.number]; r.open() {
			p.finish(r, l.how)
			p.release(l.number, r)
		}
	}
	p.leaving = p.leaving[:0]
}

// finish counts a request out.
func (p *peer) finish(r *peerRequest, how admission.End) {
	r.End()
	if r.refused {
		return
	}
	if !r.first.settled.Load() { // it may wait here, if another owned the service when it was taken back
		p.server.dispatcher.Cancel(&r.first.Item)
	}
	p.server.dispatcher.Leave(&r.Request, p.now, how)
}

// open says whether there is a request.
func (r *peerRequest) open() bool { return r != nil && !r.free }

// release keeps the memory of a request that is over for the next of its number, where
// nobody else holds any of it.
func (p *peer) release(number uint64, r *peerRequest) {
	it := &r.first
	if r.several || !r.refused && !it.settled.Load() || number >= maxKept {
		p.requests[number] = nil
		return
	}
	if p.item(it.ref) == it {
		p.items[queue.Place(it.ref.Station)][uint32(it.ref.Item)] = nil
	}
	*r = peerRequest{free: true}
}
