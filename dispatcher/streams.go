package dispatcher

import (
	"slices"
	"strings"
	"sync"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/dispatch/admission"
	"github.com/harpagon/harpagon/wire/queue"
)

// Stream names one that is open, or is to be, at a pipeline of a service, and its kind there.
type Stream struct{ Service, Pipeline, Kind, Name string }

// kind is the name of its kind's.
func (s Stream) kind() Stream {
	s.Name = ""
	return s
}

// Key is what a stream is called where the service is known; one of the only kind of a pipeline as it
// was before there were several.
func (s Stream) Key() string {
	of := s.Pipeline
	if s.Kind != "" {
		of += "\x01" + s.Kind
	}
	return of + "\x00" + s.Name
}

// StreamOf is the stream of that key.
func StreamOf(service, key string) Stream {
	of, name, _ := strings.Cut(key, "\x00")
	pipeline, kind, _ := strings.Cut(of, "\x01")
	return Stream{service, pipeline, kind, name}
}

// StreamHolder has the places of streams: a gateway, or what stands for one.
type StreamHolder interface {
	// Placed learns that a stream has a place, or has none any more, or has another phase. It
	// must not block, nor ask for a place.
	Placed(of Stream, p admission.Place)
}

// doors are the places of the kinds of streams of pipelines that this dispatcher decides for, by their names
// without that of a stream. It is a driver of admission.Places.
type doors struct {
	mu sync.Mutex
	of map[Stream]*admission.Places
}

// AdmitStream gives a stream a place, or not, and tells its holder. Held says that the holder has had one
// of that phase by whoever decided before.
func (d *Dispatcher) AdmitStream(of Stream, holder StreamHolder, held bool, phase dispatch.Time) {
	d.admit(kindOf(d.Serving(of.Service), of), of, holder, held, phase)
}

// admit is AdmitStream for streams of a kind; nil where there is none.
func (d *Dispatcher) admit(kind *pipelines.Stream, of Stream, holder StreamHolder, held bool, phase dispatch.Time) {
	if kind == nil || kind.Count == 0 {
		holder.Placed(of, admission.Place{})
		return
	}
	now, at := d.Now(), of.kind()
	d.doors.mu.Lock()
	defer d.doors.mu.Unlock()
	if d.doors.of == nil {
		d.doors.of = make(map[Stream]*admission.Places)
	}
	places := d.doors.of[at]
	if places == nil {
		places = new(admission.Places)
		d.doors.of[at] = places
	}
	tell(at, places.Plan(now, *kind))
	tell(at, places.Open(now, of.Name, holder, held, phase))
}

// planStreams plans the places of the streams that are open again, for another generation of a service.
func (d *Dispatcher) planStreams(service string, g *Generation) {
	d.doors.mu.Lock()
	defer d.doors.mu.Unlock()
	for at, places := range d.doors.of {
		if kind := kindOf(g, at); at.Service == service && kind != nil {
			tell(at, places.Plan(d.Now(), *kind))
		}
	}
}

func tell(at Stream, all []admission.Placed) {
	for _, p := range all {
		at.Name = p.Stream
		p.Holder.(StreamHolder).Placed(at, p.Place)
	}
}

// EndStream frees the place of a stream that is over, if the holder has it.
func (d *Dispatcher) EndStream(of Stream, holder StreamHolder) {
	d.doors.mu.Lock()
	defer d.doors.mu.Unlock()
	at := of.kind()
	if places := d.doors.of[at]; places != nil {
		if places.Close(of.Name, holder); places.Taken() == 0 {
			delete(d.doors.of, at)
		}
	}
}

// EndStreams frees all places of a holder that is gone.
func (d *Dispatcher) EndStreams(holder StreamHolder) {
	d.doors.mu.Lock()
	defer d.doors.mu.Unlock()
	for at, places := range d.doors.of {
		if places.Leave(holder); places.Taken() == 0 {
			delete(d.doors.of, at)
		}
	}
}

// ForgetStreams forgets the places of services for which another has decided since.
func (d *Dispatcher) ForgetStreams(decided func(service string) bool) {
	d.doors.mu.Lock()
	defer d.doors.mu.Unlock()
	for at := range d.doors.of {
		if decided(at.Service) {
			delete(d.doors.of, at)
		}
	}
}

// kindOf is the kind of a stream at its pipeline of a generation, with as many as there are places for: none
// where the pipeline has no such kind; nil where there is no pipeline with streams.
func kindOf(g *Generation, of Stream) *pipelines.Stream {
	if g == nil {
		return nil
	}
	for _, m := range slices.Concat(g.members, []*Generation{g}) {
		if p := &m.Deployment.Pipeline; p.Name == of.Pipeline && p.Streams() > 0 {
			kinds := p.Sending()
			if i := slices.IndexFunc(kinds, func(k pipelines.Stream) bool { return k.Kind == of.Kind }); i >= 0 {
				return &kinds[i]
			}
			return new(pipelines.Stream)
		}
	}
	return nil
}

// asks are the streams of a gateway of which another dispatcher, or this one, was asked.
type asks struct {
	of map[Stream]*ask
	at map[string]ownerAt // whom, by service
}

type ask struct {
	holder StreamHolder
	held   bool // there is a place
	phase  dispatch.Time
}

type ownerAt struct {
	link  *Link
	epoch uint64
}

// OpenStream asks for a place for a stream of a generation, of whoever decides for it, now or once
// there is somebody; the holder is told.
func (d *Dispatcher) OpenStream(g *Generation, of Stream, holder StreamHolder) {
	if !d.decidesElsewhere(&g.Deployment) {
		d.AdmitStream(of, holder, false, 0)
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	v := d.services[of.Service]
	if v == nil { // it has just been removed
		holder.Placed(of, admission.Place{})
		return
	}
	if d.asks.of == nil {
		d.asks = asks{make(map[Stream]*ask), make(map[string]ownerAt)}
	}
	l := d.owner(of.Service)
	d.askAll(of.Service, l)
	if l != nil && !l.conn.Places {
		d.admit(kindOf(v.current, of), of, holder, false, 0)
		return
	}
	a := &ask{holder: holder}
	d.asks.of[of] = a
	if l != nil {
		d.ask(l, of, a)
	}
}

// askAll asks a new owner of a service for all places, also for those that were given here while an
// older one gave none; here, where the new one is older. Dispatcher.mu is held.
func (d *Dispatcher) askAll(service string, l *Link) {
	if d.asks.of == nil {
		return
	}
	at := ownerAt{link: l}
	if l != nil {
		at.epoch = l.epoch(service)
	}
	if d.asks.at[service] == at {
		return
	}
	d.asks.at[service] = at
	if l == nil {
		return
	}
	if l.conn.Places {
		d.doors.handOver(service, d.asks.of)
	}
	for of, a := range d.asks.of {
		switch {
		case of.Service != service:
		case l.conn.Places:
			d.ask(l, of, a)
		default:
			delete(d.asks.of, of)
			d.admit(kindOf(d.services[service].current, of), of, a.holder, a.held, a.phase)
		}
	}
}

// handOver asks for the places of a service that are given here.
func (d *doors) handOver(service string, asks map[Stream]*ask) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for at, places := range d.of {
		if at.Service != service {
			continue
		}
		delete(d.of, at)
		for _, p := range places.Given() {
			at.Name = p.Stream
			asks[at] = &ask{p.Holder.(StreamHolder), true, p.Phase}
		}
	}
}

// ask asks the owner of a service. Dispatcher.mu is held.
func (d *Dispatcher) ask(l *Link, of Stream, a *ask) {
	l.install(d.services[of.Service].current)
	l.conn.Send(&queue.Message{Kind: queue.Ask, Text: []byte(of.Service), Token: []byte(of.Key()), Again: a.held, Left: a.phase - d.Now()})
}

// CloseStream reports that a stream of a generation is over.
func (d *Dispatcher) CloseStream(of Stream, holder StreamHolder) {
	d.EndStream(of, holder)
	d.mu.Lock()
	defer d.mu.Unlock()
	if a := d.asks.of[of]; a != nil && a.holder == holder {
		d.shut(of)
	}
}

// shut gives up what was asked for. Dispatcher.mu is held.
func (d *Dispatcher) shut(of Stream) {
	delete(d.asks.of, of)
	if l := d.owner(of.Service); l != nil && l.conn.Places {
		l.conn.Send(&queue.Message{Kind: queue.Shut, Text: []byte(of.Service), Token: []byte(of.Key())})
	}
}

// refuseStreams refuses the streams of a service, which is removed, that have no place yet. Those that
// have go on to their end. Dispatcher.mu is held.
func (d *Dispatcher) refuseStreams(service string) {
	for of, a := range d.asks.of {
		if of.Service == service && !a.held {
			d.shut(of)
			a.holder.Placed(of, admission.Place{})
		}
	}
}

// placed hears of a place from the dispatcher that the link leads to.
func (l *Link) placed(m *queue.Message) {
	d := l.dispatcher
	of := StreamOf(string(m.Text), string(m.Token))
	p := admission.Place{Open: m.How&queue.PlaceOpen != 0, Taken: m.How&queue.PlaceTaken != 0, Planned: int(m.Size), Phase: d.Now() + m.Left}
	d.mu.Lock()
	a := d.asks.of[of]
	if a == nil || d.owner(of.Service) != l {
		d.mu.Unlock()
		return
	}
	if a.held, a.phase = p.Open, p.Phase; !p.Open {
		delete(d.asks.of, of)
	}
	d.mu.Unlock()
	a.holder.Placed(of, p)
}
