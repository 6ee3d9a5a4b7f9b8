package gateway

import (
	"crypto/sha256"
	"encoding/hex"
	"sync"
	"sync/atomic"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/overlay"
)

// The last frame of a stream with viewers is kept, where the pipeline's overlay block allows
// that.
const (
	mostShown  = 8                      // streams of a pipeline that are looked at
	shownFor   = 10 * time.Second       // after the last look
	shownEvery = 500 * time.Millisecond // a frame is kept
	mostKept   = 16 << 20               // bytes of a frame
)

// shown are the frames of a pipeline that have viewers. Without any it costs a frame one load.
type shown struct {
	looked atomic.Int32 // len(of)

	mu sync.Mutex
	of map[string]*shownStream // by streamID
}

type shownStream struct {
	frame overlay.Frame
	over  *time.Timer // the viewers are gone
}

// streamID is how others name a stream of a caller's.
func streamID(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:8])
}

// LastFrame is the last frame of a stream, by the ID of its line, that was answered at this gateway since its
// first viewer came; the zero Frame while there is none. It is kept as long as it is read every ten seconds. Not
// ok where the pipeline doesn't allow that, or other streams have the viewers.
func (g *Gateway) LastFrame(pipeline, stream string) (overlay.Frame, bool) {
	p := g.pipeline(pipeline)
	if p == nil || !p.current.Load().Deployment.Pipeline.Overlay.Console {
		return overlay.Frame{}, false
	}
	s := &p.shown
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.of[stream]
	switch {
	case of != nil && of.over.Reset(shownFor):
		return of.frame, true
	case of == nil && len(s.of) >= mostShown:
		return overlay.Frame{}, false
	case s.of == nil:
		s.of = make(map[string]*shownStream)
	}
	of = &shownStream{}
	of.over = time.AfterFunc(shownFor, func() { s.forget(stream, of) })
	s.of[stream] = of
	s.looked.Store(int32(len(s.of)))
	return of.frame, true
}

func (s *shown) forget(stream string, of *shownStream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of[stream] == of {
		delete(s.of, stream)
	}
	s.looked.Store(int32(len(s.of)))
}

// keep keeps what is drawn of a frame whose stream has viewers.
func (s *shown) keep(o pipelines.Overlay, name string, now time.Time, q *wire.InferRequest, answer *wire.InferResponse) {
	if s.looked.Load() == 0 || !o.Console {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.of[streamID(name)]
	if of == nil || now.Sub(of.frame.At) < shownEvery {
		return
	}
	f := overlay.Of(o, now, q.Inputs, answer.Outputs)
	if f.Size() <= mostKept {
		of.frame = f.Clone()
	}
}
