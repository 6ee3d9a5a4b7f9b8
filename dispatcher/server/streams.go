package server

import (
	"slices"
	"time"

	"github.com/harpagon/harpagon/dispatcher"
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/dispatch/admission"
	"github.com/harpagon/harpagon/wire/queue"
)

// opening is a stream for which a gateway requests a place.
type opening struct {
	of dispatcher.Stream
	by *peer
}

// settling is how long a new owner of a service waits for the gateways to report which streams
// have places, before it gives places to others.
const settling = time.Second

// unsettle begins again with the places of a service, or of all for "", that is to be owned by another
// epoch: the gateways report which streams have one. A service that has a higher epoch is left out:
// they have reported. Server.mu is held.
func (s *Server) unsettle(service string, epoch uint64) {
	s.dispatcher.ForgetStreams(func(of string) bool {
		return (service == "" || of == service) && s.epochOf(of) < epoch
	})
	s.settled = time.Now().Add(settling)
}

// settle gives places to those that wait for them. Server.mu is held.
func (s *Server) settle() {
	var waiting []opening
	for _, o := range s.openings {
		switch {
		case o.by.left.Load() || s.epochOf(o.of.Service) == 0: // its gateway requests a place of the next owner
		case s.unsettled(o.of.Service):
			waiting = append(waiting, o)
		default:
			s.dispatcher.AdmitStream(o.of, o.by, false, 0)
		}
	}
	if s.openings = waiting; len(waiting) > 0 {
		if s.settles == nil {
			s.settles = time.AfterFunc(time.Hour, func() {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.settle()
			})
		}
		s.settles.Reset(time.Until(s.settled))
	}
}

// unsettled reports whether a gateway has yet to report which streams of a service have places.
// Server.mu is held.
func (s *Server) unsettled(service string) bool {
	if !time.Now().Before(s.settled) {
		return false
	}
	for _, p := range s.peers {
		if max(p.told[service], p.told[""]) < s.epochOf(service) {
			return true
		}
	}
	return false
}

// stream handles a gateway's message about streams.
func (p *peer) stream(m *queue.Message) {
	s := p.server
	s.mu.Lock()
	defer s.mu.Unlock()
	service := string(m.Text)
	if m.Kind == queue.Told {
		p.told[service] = m.Epoch
		s.settle()
		return
	}
	of := dispatcher.StreamOf(service, string(m.Token))
	switch {
	case s.epochOf(service) == 0: // another receives it, or will
	case m.Kind == queue.Shut:
		s.openings = slices.DeleteFunc(s.openings, func(o opening) bool { return o == opening{of, p} })
		s.dispatcher.EndStream(of, p)
	case m.Again:
		s.dispatcher.AdmitStream(of, p, true, s.dispatcher.Now()+m.Left)
	default:
		s.openings = append(s.openings, opening{of, p})
		s.settle()
	}
}

// Succeeds reports whether the other is an earlier connection of the same gateway; see admission.Successor.
func (p *peer) Succeeds(other any) bool {
	before, ok := other.(*peer)
	return ok && p.conn.Peer != "" && before.conn.Peer == p.conn.Peer
}

// Placed notifies the gateway of the place of a stream; see dispatcher.StreamHolder.
func (p *peer) Placed(of dispatcher.Stream, place admission.Place) {
	m := queue.Message{Kind: queue.Placed, Text: []byte(of.Service), Token: []byte(of.Key()), Size: uint64(place.Planned)}
	if place.Open {
		m.How, m.Left = queue.PlaceOpen, dispatch.Time(place.Phase-p.server.dispatcher.Now())
	}
	if place.Taken {
		m.How |= queue.PlaceTaken
	}
	p.conn.Send(&m)
}
