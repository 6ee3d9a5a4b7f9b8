package server

import (
	"time"

	"github.com/harpagon/harpagon/wire/queue"
)

// missingFor is how long a module may be without any executor until gateways are told.
// Executors whose connection was cut come again within it.
const missingFor = 100 * time.Millisecond

// look looks a little later whether an executor of every module of a service is attached.
// Gateways are told where a module that this server decides for has none: they may have
// executors that are cut off from here alone, and then ask another dispatcher to decide.
// They are told again until there is one. Server.mu is held.
func (s *Server) look(service string) {
	if s.looking[service] {
		return
	}
	s.looking[service] = true
	time.AfterFunc(missingFor, func() {
		n := s.dispatcher.Missing(service, missingFor)
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.looking, service)
		told, owned := s.missing[service], s.epochOf(service) > 0
		if told || owned && n > 0 {
			for _, p := range s.peers {
				p.conn.Send(&queue.Message{Kind: queue.Missing, Text: []byte(service), How: uint64(n)})
			}
			told = n > 0
			if s.missing[service] = told; !told {
				delete(s.missing, service)
			}
		}
		if len(s.peers) > 0 && (told || owned && s.dispatcher.Missing(service, 0) > 0) {
			s.look(service)
		}
	})
}
