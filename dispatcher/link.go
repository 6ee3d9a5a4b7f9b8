package dispatcher

import (
	"encoding/json"
	"maps"
	"slices"
	"sync"

	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/dispatch/admission"
	"github.com/harpagon/harpagon/wire/attach"
	"github.com/harpagon/harpagon/wire/queue"
)

// Link connects the dispatcher of a gateway, which decides nothing for modules itself, to one
// that does. Items wait here as they do there, where they are identified by their station and
// their RequestID here.
//
// Of several links that claim a service the one with the highest epoch is obeyed, and
// everything that waits is sent to it.
type Link struct {
	dispatcher *Dispatcher
	gateway    Gateway
	conn       *queue.Conn

	owns    map[string]uint64 // epoch by service; "" is all; under Dispatcher.mu
	missing map[string]bool   // services for which it has reported that a module has no executor; under Dispatcher.mu

	mu          sync.Mutex
	generations map[*Generation]uint64
	numbered    uint64
	stations    remoteIDs[*station]
	requests    []*Request // by number; nil where it is free
	free        []uint64
}

// Obey obeys a dispatcher elsewhere for as long as the connection lasts, and returns
// why it has ended. The items that start are the gateway's.
func (d *Dispatcher) Obey(c *queue.Conn, gateway Gateway) error {
	l := &Link{
		dispatcher: d, gateway: gateway, conn: c, owns: make(map[string]uint64), missing: make(map[string]bool),
		generations: make(map[*Generation]uint64),
	}
	d.mu.Lock()
	d.links = append(d.links, l)
	d.reassign("")
	d.mu.Unlock()
	var m queue.Message
	var err error
	for err == nil {
		if err = c.Receive(&m); err == nil {
			l.handle(&m)
		}
	}
	_ = c.Close()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.links = slices.DeleteFunc(d.links, func(other *Link) bool { return other == l })
	clear(l.owns)
	d.reassign("")
	return err
}

// handle carries out a message.
func (l *Link) handle(m *queue.Message) {
	switch m.Kind {
	case queue.Own:
		l.dispatcher.mu.Lock()
		l.owns[string(m.Text)] = m.Epoch
		l.dispatcher.reassign(string(m.Text))
		l.dispatcher.mu.Unlock()
		if l.conn.Places {
			l.conn.Send(&queue.Message{Kind: queue.Told, Text: m.Text, Epoch: m.Epoch})
		}
	case queue.Disown:
		l.dispatcher.mu.Lock()
		delete(l.owns, string(m.Text))
		l.dispatcher.reassign(string(m.Text))
		l.dispatcher.mu.Unlock()
	case queue.Missing:
		l.dispatcher.mu.Lock()
		l.missing[string(m.Text)] = m.How > 0
		l.dispatcher.reelect(string(m.Text), l)
		l.dispatcher.mu.Unlock()
	case queue.Start:
		l.start(m)
	case queue.Drop:
		l.drop(m)
	case queue.Placed:
		l.placed(m)
	}
}

// epoch by which the link owns a service; 0 where it does not. Dispatcher.mu is held.
func (l *Link) epoch(service string) uint64 { return max(l.owns[service], l.owns[""]) }

// owner is the link that decides for a service: the one with the highest epoch, if no
// higher one has been seen. Dispatcher.mu is held.
func (d *Dispatcher) owner(service string) *Link {
	best := latest(d.links, service)
	if best == nil || best.epoch(service) < d.seen[service] {
		return nil
	}
	d.seen[service] = best.epoch(service)
	return best
}

// latest is the link that owns the service by the highest epoch of these. Dispatcher.mu
// is held.
func latest(links []*Link, service string) (best *Link) {
	for _, l := range links {
		if e := l.epoch(service); e > 0 && (best == nil || e > best.epoch(service)) {
			best = l
		}
	}
	return best
}

// Owned reports whether a dispatcher elsewhere decides for the service.
func (d *Dispatcher) Owned(service string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := latest(d.links, service)
	return l != nil && l.epoch(service) >= d.seen[service]
}

// reassign has the stations of a service, or of all for "", obey the link that owns it now, and
// sends a new one what waits. Dispatcher.mu is held.
func (d *Dispatcher) reassign(service string) {
	for _, name := range slices.Sorted(maps.Keys(d.services)) {
		v := d.services[name]
		if service != "" && name != service || !d.decidesElsewhere(&v.current.Deployment) {
			continue
		}
		l := d.owner(name)
		if l != nil {
			l.install(v.current)
		} else {
			d.orphaned(name)
		}
		d.askAll(name, l)
		for _, g := range v.generations() {
			for _, s := range g.stations {
				s.follow(l)
			}
		}
	}
}

// orphaned requests a new owner. Dispatchers that have executors of all modules go before those
// that have not.
func (d *Dispatcher) orphaned(service string) {
	if able := d.able(service); len(able) > 0 {
		d.claim(service, able)
		return
	}
	d.claim(service, d.links)
}

// reelect requests another owner of a service whose owner is this link and lacks an executor of
// some module while this gateway has one of each: those executors are cut off from that
// dispatcher only. Dispatcher.mu is held.
func (d *Dispatcher) reelect(service string, l *Link) {
	if l.missing[service] && d.owner(service) == l && d.missing(service, 0) == 0 {
		d.claim(service, d.able(service))
	}
}

// able are the dispatchers that have not reported missing executors of the service.
func (d *Dispatcher) able(service string) []*Link {
	return slices.DeleteFunc(slices.Clone(d.links), func(l *Link) bool { return l.missing[service] })
}

// claim requests that dispatchers own a service: the one that has owned it by the highest
// epoch, or else all.
func (d *Dispatcher) claim(service string, of []*Link) {
	m := queue.Message{Kind: queue.Claim, Text: []byte(service), Epoch: d.seen[service]}
	if next := latest(of, service); next != nil {
		next.conn.Send(&m)
		return
	}
	for _, l := range of {
		l.conn.Send(&m)
	}
}

// follow obeys another link from now on; nil is none.
func (s *station) follow(l *Link) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.link == l {
		return
	}
	s.link = l
	now := s.dispatcher.Now()
	for _, it := range s.waiting() {
		l.arrive(s, it, false, now)
	}
}

// install sends a generation, once.
func (l *Link) install(g *Generation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.announce(g)
}

// announce sends a generation, unless it was sent, and returns its number. Link.mu is held.
func (l *Link) announce(g *Generation) uint64 {
	if n, ok := l.generations[g]; ok {
		return n
	}
	text, err := json.Marshal(&g.Deployment)
	if err != nil {
		panic(err) // plain data
	}
	l.numbered++
	l.generations[g] = l.numbered
	l.stations.Use(g.stations)
	l.conn.Send(&queue.Message{Kind: queue.Install, Generation: l.numbered, Text: text})
	return l.numbered
}

func (l *Link) forget(g *Generation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n, ok := l.generations[g]; ok {
		delete(l.generations, g)
		l.stations.Leave(g.stations)
		l.conn.Send(&queue.Message{Kind: queue.Forget, Generation: n})
	}
}

func (l *Link) remove(service string) {
	l.conn.Send(&queue.Message{Kind: queue.Remove, Text: []byte(service)})
}

// arrive sends an item, and whether another follows with which the policy decides on it. The
// station's lock is held; a nil link sends nothing.
func (l *Link) arrive(s *station, it *Item, more bool, now dispatch.Time) {
	if l == nil {
		return
	}
	r := it.Request
	l.mu.Lock()
	defer l.mu.Unlock()
	g, node := r.Generation.placeOf(it.Index)
	l.conn.Send(&queue.Message{
		Kind: queue.Arrive, Generation: l.announce(g), Request: l.request(r), Station: l.stations.Number(s), Item: uint64(it.id),
		Node: uint64(node), Size: uint64(it.Size), Age: now - r.Arrival, Left: r.Deadline - now, Timed: r.Deadline != 0,
		Again: it.Attempts > 0, Lost: it.lost != nil, More: more,
	})
}

// request is the number of a request; Link.mu is held.
func (l *Link) request(r *Request) uint64 {
	before := r.told.Load()
	for t := before; t != nil; t = t.before {
		if t.link == l {
			return t.number
		}
	}
	n := uint64(len(l.requests))
	if k := len(l.free); k > 0 {
		n, l.free = l.free[k-1], l.free[:k-1]
		l.requests[n] = r
	} else {
		l.requests = append(l.requests, r)
	}
	for !r.told.CompareAndSwap(before, &toldOf{l, n, before}) { // an item of it at another station, by another link
		before = r.told.Load()
	}
	return n
}

// leave reports that a request is over to all that it was sent to. No item of it comes after.
func (r *Request) leave(how admission.End) {
	for t := r.told.Load(); t != nil; t = t.before {
		t.link.leave(r, t.number, how)
	}
}

func (l *Link) leave(r *Request, number uint64, how admission.End) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if number < uint64(len(l.requests)) && l.requests[number] == r {
		l.requests[number] = nil
		l.free = append(l.free, number)
		l.conn.SendLater(&queue.Message{Kind: queue.Leave, Request: number, How: uint64(how)}) // no item of it waits there
	}
}

func (l *Link) cancel(s *station, it *Item) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if n, ok := l.stations.Given(s); ok { // else it was never sent, or is forgotten
		l.conn.Send(&queue.Message{Kind: queue.Cancel, Station: n, Item: uint64(it.id)})
	}
}

// station of that number; nil where there is none, or none any more.
func (l *Link) station(n uint64) *station {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stations.Find(n)
}

// start hands the items of a batch to the gateway. Those that are over by now, or that were
// sent to another dispatcher since, stay out.
func (l *Link) start(m *queue.Message) {
	d := l.dispatcher
	now := d.Now()
	b := &Batch{link: l, lane: -1, At: now, Parts: int(m.Parts), Whole: attach.Part{Epoch: m.Epoch, Batch: m.Batch, Part: int(m.Part), Parts: int(m.Parts)}}
	b.Items = b.few[:0]
	for _, ref := range m.Items {
		if s := l.station(ref.Station); s != nil && (b.station == nil || b.station == s) {
			b.station = s
			if it := s.startElsewhere(l, dispatch.RequestID(ref.Item)); it != nil {
				b.add(it)
			}
		}
	}
	b.Due = now + m.Left
	d.mu.Lock()
	e := d.executors[string(m.Text)]
	d.mu.Unlock()
	if len(b.Items) > 0 {
		b.begin(now-m.Age, int(m.Size))
	}
	switch {
	case len(b.Items) == 0:
		l.lack(string(m.Text), b.Whole, queue.Withdrawn)
	case e == nil || !e.enter(b):
		// It has come to the dispatcher before it came here, or its stream has broken.
		l.lack(string(m.Text), b.Whole, queue.NotAttached)
		for _, it := range b.Items {
			d.again(it, true)
		}
	default:
		b.station.mu.Lock()
		b.station.stick(b, e)
		b.station.mu.Unlock()
		l.gateway.Start(b, b.Items, b.Whole.Part)
	}
}

// lack reports that a part does not reach its executor.
func (l *Link) lack(executor string, p attach.Part, how uint64) {
	l.conn.Send(&queue.Message{Kind: queue.Lack, Text: []byte(executor), Epoch: p.Epoch, Batch: p.Batch, Part: uint64(p.Part), How: how})
}

// lack reports to the dispatcher that ordered the batch, if it is elsewhere, that the
// executor's stream has broken: otherwise it would wait for the batch's end for ever. It may
// have lost the service, and may own it again later.
func (b *Batch) lack() {
	if b.link != nil {
		b.link.lack(b.Executor.Name, b.Whole, queue.NotAttached)
	}
}

// startElsewhere takes an item out of the queue that starts by order of a link.
func (s *station) startElsewhere(l *Link, id dispatch.RequestID) *Item {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.link != l {
		return nil
	}
	it := s.take(id)
	if it != nil {
		it.state = sent
	}
	return it
}

// drop gives an item up by order of the dispatcher.
func (l *Link) drop(m *queue.Message) {
	s := l.station(m.Station)
	if s == nil {
		return
	}
	why := Drop(m.How)
	s.mu.Lock()
	var it *Item
	if s.link == l {
		it = s.take(dispatch.RequestID(m.Item))
	}
	if it != nil {
		it.state = ended
		if why.Cause() != "" {
			it.stats.Drop(s.dispatcher.Now(), why.Cause())
		}
	}
	s.mu.Unlock()
	if it != nil {
		l.gateway.Drop(it, why)
	}
}

func (d *Dispatcher) eachLink(f func(*Link)) {
	if !d.options.Elsewhere {
		return
	}
	d.mu.Lock()
	all := slices.Clone(d.links)
	d.mu.Unlock()
	for _, l := range all {
		f(l)
	}
}

// remoteIDs numbers stations S for the other side. A station keeps its number while the other
// side has a generation with it. Then its place goes to the next station under a number of its
// own, so that late messages about the earlier one match nothing.
type remoteIDs[S comparable] struct {
	of     map[S]*numbered
	places []place[S]
	free   []uint64 // places without a station
}

// numbered is a station of generations that the other side has.
type numbered struct {
	generations int
	number      uint64
	given       bool // it has the number
}

type place[S comparable] struct {
	station S
	lives   uint64 // before this one
}

// Use notes that the other side has a generation with the stations.
func (n *remoteIDs[S]) Use(all []S) {
	if n.of == nil {
		n.of = make(map[S]*numbered)
	}
	for _, s := range all {
		if n.of[s] == nil {
			n.of[s] = new(numbered)
		}
		n.of[s].generations++
	}
}

// Leave notes that it does not any more.
func (n *remoteIDs[S]) Leave(all []S) {
	for _, s := range all {
		u := n.of[s]
		if u.generations--; u.generations > 0 {
			continue
		}
		delete(n.of, s)
		if u.given {
			at := queue.Place(u.number)
			n.places[at] = place[S]{lives: n.places[at].lives + 1}
			n.free = append(n.free, at)
		}
	}
}

// Number is that of a station of a generation that the other side has.
func (n *remoteIDs[S]) Number(s S) uint64 {
	u := n.of[s]
	if u.given {
		return u.number
	}
	at := uint64(len(n.places))
	if k := len(n.free); k > 0 {
		at, n.free = n.free[k-1], n.free[:k-1]
	} else {
		n.places = append(n.places, place[S]{})
	}
	n.places[at].station = s
	u.number, u.given = queue.Station(at, n.places[at].lives), true
	return u.number
}

// Find is the station that has the number; the zero one where none has it now.
func (n *remoteIDs[S]) Find(number uint64) (none S) {
	at := queue.Place(number)
	if at >= uint64(len(n.places)) || number != queue.Station(at, n.places[at].lives) {
		return none
	}
	return n.places[at].station
}

// Given is the number that a station has, if it has one.
func (n *remoteIDs[S]) Given(s S) (number uint64, ok bool) {
	if u := n.of[s]; u != nil && u.given {
		return u.number, true
	}
	return 0, false
}
