// Package server lets gateways and executors of other processes use a dispatcher: it speaks
// wire/queue with gateways, which send requests as names, sizes and deadlines, and wire/attach
// with executors, which receive the batches to run. Neither carries tensors.
//
// A Server decides for the services that it owns by an epoch; gateways and executors obey the
// highest that they have seen, so one that was replaced without noticing decides nothing any
// more. When a gateway goes, its waiting items are taken back; when an owner goes, the gateways
// send their items to the next.
package server

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/harpagon/harpagon/dispatcher"
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/dispatch/admission"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/wire/listen"
	"github.com/harpagon/harpagon/wire/queue"
	"github.com/harpagon/harpagon/wire/secure"
	"github.com/harpagon/harpagon/wire/stream"
)

// Server lets gateways and executors of other processes use a Dispatcher: gateways by
// Serve, executors by Attach. It decides for the services that it owns (Own); for the others it
// only keeps what gateways send.
type Server struct {
	dispatcher *dispatcher.Dispatcher
	options    Options
	claims     uint64 // see Claim; 0 where it does not

	strangers stream.Strangers // that have not joined

	mu          sync.Mutex
	owns        map[string]uint64 // epoch by service; "" is all
	epoch       uint64            // the highest that it has had
	peers       []*peer
	controls    []*control
	generations map[generationKey]*shared
	released    map[string]map[*peer]bool // by executor: gateways that have let it go, while others have not
	looking     map[string]bool           // services whose executors are looked for
	missing     map[string]bool           // services whose gateways were notified that a module has none
	openings    []opening                 // streams that wait until all gateways have reported which have places
	settled     time.Time                 // until when they do
	settles     *time.Timer               // looks at them then
}

// generationKey names a generation, whichever gateway sent it.
type generationKey struct {
	service string
	placement.Age
}

// shared is a generation with the number of gateways that have sent it.
type shared struct {
	*dispatcher.Generation
	users int
}

// Options are those of a Server.
type Options struct {
	Name    string       // of the process
	Callers secure.Guard // which gateways may join; the zero one lets everybody

	// Patience is how long a gateway may be silent before it counts as gone; see
	// keepalive.Conn.Listen.
	Patience time.Duration

	// Modules bounds those of one gateway that have requests under way; 0 means
	// queue.MaxStations.
	Modules int

	// Clock is the clock by which Claim makes epochs; nil means time.Now. It need not be right,
	// and may jump.
	Clock func() time.Time

	// Random makes claimed epochs differ from those of other servers; it is called by one
	// goroutine at a time. nil means rand.Uint32.
	Random func() uint32

	// Orphaned is called with the epoch of an owner that a gateway has lost; it must not block. A
	// server that claims (Claim) needs none.
	Orphaned func(service string, epoch uint64)
}

// New makes a server that owns nothing yet.
func New(d *dispatcher.Dispatcher, o Options) *Server {
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Random == nil {
		o.Random = rand.Uint32
	}
	o.Modules = cmp.Or(o.Modules, queue.MaxStations)
	return &Server{
		dispatcher: d, options: o, owns: make(map[string]uint64),
		generations: make(map[generationKey]*shared),
		released:    make(map[string]map[*peer]bool), looking: make(map[string]bool), missing: make(map[string]bool),
	}
}

// Own reports that this dispatcher decides for a service from now on; "" is every service that
// has no owner by a higher epoch. The epoch must be higher than that of any owner before:
// gateways and executors obey the highest. A lower one than its own changes nothing.
func (s *Server) Own(service string, epoch uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if epoch <= s.owns[service] {
		return
	}
	s.unsettle(service, epoch)
	s.owns[service], s.epoch = epoch, max(s.epoch, epoch)
	for _, k := range slices.SortedFunc(maps.Keys(s.generations), func(a, b generationKey) int { return strings.Compare(a.service, b.service) }) {
		s.look(k.service)
	}
	for _, p := range s.peers {
		p.conn.Send(&queue.Message{Kind: queue.Own, Text: []byte(service), Epoch: epoch})
	}
	for _, c := range s.controls {
		if c.service == service || service == "" {
			c.sendEpoch(s.epochOf(c.service))
		}
	}
}

// Claim has the server own every service on its own, for fleets that grant no leases. Its epoch
// is the time at which it started, so that the latest to start decides, and it claims a higher
// one when gateways report that the owner is gone.
func (s *Server) Claim() {
	s.mu.Lock()
	s.claims = uint64(s.options.Random())>>(32-claimBits) | 1
	s.mu.Unlock()
	s.Own("", s.claimAfter(uint64(s.options.Clock().UnixMilli())<<claimBits))
}

// claimBits are the lowest of a claimed epoch: they differ between servers.
const claimBits = 16

func (s *Server) claimAfter(epoch uint64) uint64 { return (epoch>>claimBits+1)<<claimBits | s.claims }

// claimed answers a gateway that has lost the owner of a service.
func (s *Server) claimed(service string, epoch uint64) {
	s.mu.Lock()
	mine, claims := s.epochOf(service), s.claims != 0
	s.mu.Unlock()
	switch {
	case mine > epoch:
	case claims:
		s.Own("", s.claimAfter(epoch))
	case s.options.Orphaned != nil:
		s.options.Orphaned(service, epoch)
	}
}

// OwnAfter has the server own a service by an epoch of its own choice, just above that
// of the owner before, and returns it.
func (s *Server) OwnAfter(service string, epoch uint64) uint64 {
	s.mu.Lock()
	next := (epoch>>claimBits+1)<<claimBits | uint64(s.options.Random())>>(32-claimBits) | 1
	s.mu.Unlock()
	s.Own(service, next)
	return s.Owns()[service] // it may have a higher one by now
}

// Disown reports that this dispatcher does not decide for the service any more. Gateways send
// what waits to the next owner.
func (s *Server) Disown(service string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.owns, service)
	for _, p := range s.peers {
		p.conn.Send(&queue.Message{Kind: queue.Disown, Text: []byte(service)})
	}
}

// Owns are the services that the server owns, with their epochs.
func (s *Server) Owns() map[string]uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.owns)
}

// epochOf is the epoch by which a service is owned; 0 where it is not. The lock is held.
func (s *Server) epochOf(service string) uint64 { return max(s.owns[service], s.owns[""]) }

// Serve serves a gateway until its connection ends, and returns why; nil where the
// gateway has closed it.
func (s *Server) Serve(c net.Conn) error {
	p := &peer{server: s, generations: make(map[uint64]*shared), serves: make(map[string]bool), told: make(map[string]uint64), coming: make([]coming, 0, together), leaving: make([]leaving, 0, together)}
	self := queue.Self{Role: queue.Dispatcher, Name: s.options.Name, Patience: s.options.Patience, Doubt: p.skipParts}
	proven := s.strangers.Enter(c)
	conn, err := queue.Open(c, self, queue.Gateway, func(hello *queue.Message) error {
		if callers := s.options.Callers.For(secure.Join); !callers.AdmitsPeer(string(hello.Token), c) {
			return errors.New(callers.Refusal("this dispatcher"))
		}
		return nil
	})
	proven()
	if err != nil {
		return err
	}
	listen.PlaceOf(c).Prove()
	p.conn = conn
	s.mu.Lock()
	s.peers = append(s.peers, p)
	for _, service := range slices.Sorted(maps.Keys(s.owns)) {
		conn.Send(&queue.Message{Kind: queue.Own, Text: []byte(service), Epoch: s.owns[service]})
	}
	s.mu.Unlock()
	err = p.serve()
	if !isEnd(err) {
		conn.Send(&queue.Message{Kind: queue.Fail, Text: []byte(err.Error())})
	}
	_ = conn.Close()
	p.leave()
	if isEnd(err) {
		return nil
	}
	return err
}

// peer is a gateway elsewhere. It is served by one goroutine.
type peer struct {
	server      *Server
	conn        *queue.Conn
	left        atomic.Bool
	now         dispatch.Time      // when what is handled was read, or little later
	generations map[uint64]*shared // written under Server.mu
	serves      map[string]bool    // services that it has sent and not removed; under Server.mu
	told        map[string]uint64  // by which epoch it has reported for a service, or for all for "", which streams have places; under Server.mu
	requests    []*peerRequest     // by the gateway's number; nil where there is none
	spare       []*peerRequest     // memory for requests to come
	ending      []*peerRequest     // that are over, while others may hold their items
	coming      []coming           // items that are about to be taken in
	leaving     []leaving          // requests that are about to be counted out
	items       [][]*peerItem      // by the station's place and slot there
}

// Limits of the numbers that a gateway may give, which are dense: what it has under way.
const (
	maxRequests = 1 << 20
	maxSlots    = 1 << 20
)

// ErrTooMany means that a gateway has more under way than it may.
var ErrTooMany = errors.New("too much at a time")

// clockEvery is how many messages at most are handled by one look at the clock.
const clockEvery = 128

func (p *peer) serve() error {
	var m queue.Message
	read := uint64(0)
	for n := 0; ; n++ {
		if err := p.conn.Receive(&m); err != nil {
			return err
		}
		if reads := p.conn.Reads(); reads != read || n%clockEvery == 0 {
			read, p.now = reads, p.server.dispatcher.Now()
		}
		if err := p.handle(&m); err != nil {
			return err
		}
	}
}

func (p *peer) handle(m *queue.Message) error {
	switch m.Kind {
	case queue.Install:
		return p.install(m)
	case queue.Forget:
		if g := p.generations[m.Generation]; g != nil {
			p.server.mu.Lock()
			delete(p.generations, m.Generation)
			p.server.mu.Unlock()
			p.server.release(g)
		}
	case queue.Remove:
		p.server.remove(p, string(m.Text))
	case queue.Claim:
		p.server.claimed(string(m.Text), m.Epoch)
	case queue.Release:
		p.server.dismiss(p, string(m.Text))
	case queue.Arrive:
		p.coming = append(p.coming, coming{
			generation: m.Generation, request: m.Request, station: m.Station, item: m.Item, node: m.Node, size: m.Size,
			age: m.Age, left: m.Left, timed: m.Timed, again: m.Again, lost: m.Lost, more: m.More,
		})
		if len(p.coming) == cap(p.coming) || p.conn.Next() != queue.Arrive {
			return p.arriveAll()
		}
	case queue.Ask, queue.Shut, queue.Told:
		p.stream(m)
	case queue.Lack:
		p.server.lacks(string(m.Text), m.Epoch, m.Batch, int(m.Part), m.How == queue.Withdrawn)
	case queue.Cancel:
		if it := p.item(queue.Ref{Station: m.Station, Item: m.Item}); it != nil {
			p.server.dispatcher.Cancel(&it.Item)
		}
	case queue.Leave:
		p.leaving = append(p.leaving, leaving{number: m.Request, how: admission.End(m.How)})
		if len(p.leaving) == cap(p.leaving) || p.conn.Next() != queue.Leave {
			p.leaveAll()
		}
	default:
		return fmt.Errorf("a message of kind %d, which a gateway does not send", m.Kind)
	}
	return nil
}

func (p *peer) install(m *queue.Message) error {
	var of placement.Deployment
	if err := json.Unmarshal(m.Text, &of); err != nil {
		return fmt.Errorf("a deployment cannot be read: %w", err)
	}
	g, err := p.server.install(of)
	if err != nil {
		return err
	}
	p.server.mu.Lock()
	defer p.server.mu.Unlock()
	p.generations[m.Generation], p.serves[of.Name()] = g, true
	return nil
}

// install finds the generation of a deployment, or puts it in charge if it is the
// latest of its service.
func (s *Server) install(of placement.Deployment) (*shared, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := generationKey{of.Name(), of.Age()}
	if g := s.generations[k]; g != nil {
		g.users++
		return g, nil
	}
	compiled, err := s.dispatcher.Compile(of)
	if err != nil {
		return nil, err
	}
	g := &shared{Generation: compiled, users: 1}
	if g := s.dispatcher.Serving(of.Name()); g != nil && of.Age().Before(g.Deployment.Age()) {
		s.dispatcher.Adopt(compiled)
	} else {
		s.dispatcher.Install(compiled, nil, nil)
	}
	s.generations[k] = g
	s.look(k.service)
	return g, nil
}

// release forgets a generation that no gateway has requests of.
func (s *Server) release(g *shared) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g.users--; g.users == 0 {
		delete(s.generations, generationKey{g.Deployment.Name(), g.Deployment.Age()})
		s.dispatcher.Forget(g.Generation)
	}
}

// dismiss lets an executor go that a gateway does not need any more, once no other does:
// requests of an older generation may still be under way by another gateway.
func (s *Server) dismiss(p *peer, executor string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.released[executor] == nil {
		s.released[executor] = make(map[*peer]bool)
	}
	s.released[executor][p] = true
	s.dismissUnneeded(executor)
}

// dismissUnneeded lets the executor go if all gateways that may need it have released it.
// Server.mu is held.
func (s *Server) dismissUnneeded(executor string) {
	for _, p := range s.peers {
		if !s.released[executor][p] && p.needs(executor) {
			return
		}
	}
	delete(s.released, executor)
	for _, c := range s.controls {
		if c.name == executor {
			go c.dismiss()
		}
	}
}

// needs reports whether the gateway has sent a generation with the executor. Server.mu is held.
func (p *peer) needs(executor string) bool {
	for _, g := range p.generations {
		if g.Deployment.Slot(executor) != nil {
			return true
		}
	}
	return false
}

// lackPause is how long an executor gets no batch after a gateway has reported that it is not
// attached there.
const lackPause = 20 * time.Millisecond

// lacks handles a part of a batch that does not come, because its gateway does not have the
// executor or its requests have ended. Where no other gateway has a part, the batch is over:
// its items, if any are left, come again.
func (s *Server) lacks(executor string, epoch, batch uint64, part int, withdrawn bool) {
	d := s.dispatcher
	e := d.Executor(executor)
	if e == nil {
		return
	}
	c, ok := e.Holder.(*control)
	b := e.Started(epoch, batch)
	switch {
	case !ok || b == nil:
	case b.Parts > 1:
		c.skip(b, part)
	case e.Take(batch) != b:
	case withdrawn:
		d.Done(b, dispatcher.Report{})
	default:
		d.Done(b, dispatcher.Report{Failed: len(b.Items), Away: true})
		time.AfterFunc(lackPause, func() { d.Ready(e) })
	}
}

// remove handles that a gateway serves a service no more, and stops serving it when no other
// does.
func (s *Server) remove(p *peer, service string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(p.serves, service)
	for _, other := range s.peers {
		if other.serves[service] {
			return
		}
	}
	s.dispatcher.Remove(service)
}

// Start notifies the gateway that its items start; see Gateway.
func (p *peer) Start(b *dispatcher.Batch, items []*dispatcher.Item, part int) {
	c, ok := b.Executor.Holder.(*control)
	if !ok {
		return
	}
	now := p.server.dispatcher.Now()
	var room [16]queue.Ref
	m := queue.Message{
		Kind: queue.Start, Text: []byte(b.Executor.Name), Epoch: b.Whole.Epoch, Batch: b.ID,
		Part: uint64(part), Parts: uint64(b.Parts), Size: uint64(b.Size()), Left: b.Due - now, Age: now - b.Closed,
		Items: room[:0],
	}
	if len(items) > len(room) {
		m.Items = make([]queue.Ref, 0, len(items))
	}
	for _, it := range items {
		m.Items = append(m.Items, it.Holder.(*peerItem).ref)
	}
	p.conn.Send(&m)
	if p.left.Load() || p.conn.Doubtful() {
		c.skip(b, part) // if it comes all the same it is refused, and its items are queued again
	}
	b.Told.Store(true)
}

// Drop notifies the gateway that an item was given up; see Gateway.
func (p *peer) Drop(it *dispatcher.Item, why dispatcher.Drop) {
	ref := it.Holder.(*peerItem).ref
	p.conn.Send(&queue.Message{Kind: queue.Drop, Station: ref.Station, Item: ref.Item, How: uint64(why)})
}

// leave forgets the gateway: what waits of its is taken back, and executors do not wait
// for what it would have sent.
func (p *peer) leave() {
	s := p.server
	p.left.Store(true)
	s.mu.Lock()
	s.peers = slices.DeleteFunc(s.peers, func(other *peer) bool { return other == p })
	for executor := range s.released {
		s.dismissUnneeded(executor)
	}
	s.dispatcher.EndStreams(p)
	s.settle()
	s.mu.Unlock()
	for _, r := range p.requests {
		if r != nil {
			r.End()
		}
	}
	for _, slots := range p.items {
		for _, it := range slots {
			if it != nil {
				s.dispatcher.Cancel(&it.Item)
			}
		}
	}
	for _, r := range p.requests {
		if r != nil {
			p.finish(r, admission.InTime)
		}
	}
	p.skipParts()
	for _, n := range slices.Sorted(maps.Keys(p.generations)) {
		s.release(p.generations[n])
	}
}

// skipParts has executors not wait for what the gateway would send.
func (p *peer) skipParts() {
	p.server.mu.Lock()
	controls := slices.Clone(p.server.controls)
	p.server.mu.Unlock()
	for _, c := range controls {
		c.skipPartsOf(p)
	}
}

// Loads are what the dispatcher holds of a service's modules right now.
func (s *Server) Loads(service string) []dispatcher.Load {
	g := s.dispatcher.Serving(service)
	if g == nil {
		return nil
	}
	return s.dispatcher.Loads(g)
}
