package server

import (
	"errors"
	"fmt"
	"time"

	"github.com/harpagon/harpagon/dispatcher"
	"github.com/harpagon/harpagon/scheduler/dispatch/admission"
	"github.com/harpagon/harpagon/wire/queue"
)

// peerRequest is a request that a gateway elsewhere has sent. Its size is a multiple of a cache
// line, so that it spans as few lines as possible.
type peerRequest struct {
	dispatcher.Request
	refused bool
	several bool     // it has items beside the first
	first   peerItem // most have one, which needs no memory of its own
	_       [32]byte
}

// peerItem is an item of a gateway elsewhere.
type peerItem struct {
	ref queue.Ref
	dispatcher.Item
}

const (
	// requestsAtOnce is for how many requests to come memory is allotted at once: they lie
	// side by side then, and one that stays long keeps few others.
	requestsAtOnce = 32

	// maxSpare bounds the requests whose memory is kept for others.
	maxSpare = 1 << 17

	// mostEnding is of how many requests it is seen later whether their items are back, whose
	// end has come before that.
	mostEnding = 1 << 10

	// together is how many successive arrivals, or ends, are handled together at most. Most of the
	// memory that they need is not in cache: touching all of it before any is needed has the
	// processor wait once, instead of once for each.
	together = 32
)

// coming is an item that the gateway has sent.
type coming struct {
	generation, request, station, item, node, size uint64

	age, left                time.Duration
	timed, again, lost, more bool
}

// arriveAll queues the items that have come.
func (p *peer) arriveAll() error {
	var room [together]*dispatcher.Item
	items := room[:0]
	all := p.coming
	p.coming = p.coming[:0]
	p.near(all)
	for i := range all {
		it, err := p.arrive(&all[i])
		if err != nil {
			return err
		}
		if it == nil {
			continue
		}
		at := &p.items[queue.Place(it.ref.Station)][uint32(it.ref.Item)]
		if before := *at; before != nil {
			// While another owned the service the gateway reported its end to that one only; or it sends
			// the same item again.
			p.server.dispatcher.ArriveAll(p.now, items)
			items = items[:0]
			p.server.dispatcher.Cancel(&before.Item)
		}
		*at = it
		items = append(items, &it.Item)
	}
	p.server.dispatcher.ArriveAll(p.now, items)
	return nil
}

// near touches the memory of those that come, and returns how much of it is used, so that the
// compiler removes nothing.
func (p *peer) near(all []coming) (used int) {
	for i := range all {
		c := &all[i]
		if c.request < uint64(len(p.requests)) && p.requests[c.request] != nil {
			used++
		}
		if place, slot := queue.Place(c.station), uint64(uint32(c.item)); place < uint64(len(p.items)) && slot < uint64(len(p.items[place])) && p.items[place][slot] != nil {
			used++
		}
	}
	return used
}

// arrive makes an item, and room for it; nil where its request is refused.
func (p *peer) arrive(c *coming) (*peerItem, error) {
	g := p.generations[c.generation]
	place, slot, most := queue.Place(c.station), uint64(uint32(c.item)), p.server.options.Modules
	switch {
	case g == nil || c.node >= uint64(len(g.Nodes)):
		return nil, errors.New("an item of a module that was not installed")
	case c.request >= maxRequests || place >= uint64(most) || slot >= maxSlots:
		return nil, fmt.Errorf("%w: more than %d requests, %d modules or %d items of one are under way", ErrTooMany, maxRequests, most, maxSlots)
	case c.size > maxSlots:
		return nil, fmt.Errorf("an item of %d rows", c.size)
	}
	of, index := g.MemberOf(int32(c.node))
	r, fresh := p.request(c, of)
	it := &r.first
	if !fresh {
		it, r.several = new(peerItem), true
	}
	it.ref = queue.Ref{Station: c.station, Item: c.item}
	it.Request, it.Holder, it.Index, it.Size, it.More = &r.Request, it, index, int32(c.size), c.more
	if c.again {
		it.ComesAgain(c.lost)
	}
	if fresh && !p.server.dispatcher.Admit(of, p.now, r.Deadline) {
		r.refused = true
	}
	if r.refused {
		r.End()
		p.Drop(&it.Item, dispatcher.Refused)
		return nil, nil
	}
	for uint64(len(p.items)) <= place {
		p.items = append(p.items, nil)
	}
	for uint64(len(p.items[place])) <= slot {
		p.items[place] = append(p.items[place], nil)
	}
	return it, nil
}

// request finds or makes the request of an item.
func (p *peer) request(c *coming, g *dispatcher.Generation) (r *peerRequest, fresh bool) {
	for uint64(len(p.requests)) <= c.request {
		p.requests = append(p.requests, nil)
	}
	if r = p.requests[c.request]; r != nil {
		return r, false
	}
	if len(p.spare) == 0 {
		p.spare = p.spare[:0]
		room := make([]peerRequest, requestsAtOnce)
		for i := range room {
			p.spare = append(p.spare, &room[i])
		}
	}
	r, p.spare = p.spare[len(p.spare)-1], p.spare[:len(p.spare)-1]
	p.requests[c.request] = r
	r.Generation, r.Gateway, r.Arrival = g, p, max(1, p.now-c.age)
	if c.timed {
		r.Deadline = max(1, p.now+c.left)
	}
	return r, true
}

// item that the gateway has there; nil where it was not sent.
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

// leaving is a request whose end its gateway has reported.
type leaving struct {
	number uint64
	how    admission.End
	of     *peerRequest
}

// leaveAll counts requests out.
func (p *peer) leaveAll() {
	var room [2 * together]*dispatcher.Item
	n, items := 0, room[:0]
	for _, l := range p.leaving {
		if l.number >= uint64(len(p.requests)) || p.requests[l.number] == nil {
			continue
		}
		l.of, p.requests[l.number] = p.requests[l.number], nil
		p.leaving[n] = l
		n++
	}
	for _, l := range p.leaving[:n] {
		it := &l.of.first
		if p.item(it.ref) == it {
			p.items[queue.Place(it.ref.Station)][uint32(it.ref.Item)] = nil
		}
		items = append(items, &it.Item)
	}
	back := p.ending[:min(together, max(0, len(p.ending)-mostEnding))]
	p.ending = p.ending[len(back):]
	for _, r := range back {
		items = append(items, &r.first.Item)
	}
	p.server.dispatcher.CancelAll(items)
	for _, r := range back {
		p.release(r)
	}
	for _, l := range p.leaving[:n] {
		p.finish(l.of, l.how)
		if !p.release(l.of) {
			p.ending = append(p.ending, l.of)
		}
	}
	p.leaving = p.leaving[:0]
}

// finish counts a request out.
func (p *peer) finish(r *peerRequest, how admission.End) {
	it := &r.first.Item
	if !it.Settled || r.several {
		r.End()
	}
	if r.refused {
		return
	}
	if !it.Settled { // it may wait here, if another owned the service when it was taken back
		p.server.dispatcher.Cancel(it)
	}
	p.server.dispatcher.Leave(&r.Request, p.now, how)
}

// release keeps the memory of a request that is over for another, and reports whether nothing
// else holds any of it.
func (p *peer) release(r *peerRequest) bool {
	switch {
	case !r.refused && !r.first.Settled:
		return false
	case !r.several && len(p.spare) < maxSpare:
		*r = peerRequest{}
		p.spare = append(p.spare, r)
	}
	return true
}
