package dispatcher

import (
	"math"
	"time"

	"github.com/harpagon/harpagon/scheduler/autoscale"
	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// stretch is how long requests are looked at together: what comes unevenly within it
// is the doing of threads and networks, and fills the same batches.
const stretch = 200 * time.Millisecond

// fewRequests may come in a second for which none were expected.
const fewRequests = 20

// spacing measures how unevenly requests come. Requests are gathered in stretches of
// as many as come in 200 ms at the rate of the second before, and each is compared with
// the next one, so that a rate which changes slowly leaves no mark (the Allan variance,
// in terms of the mean).
type spacing struct {
	second int64 // that is under way
	came   int   // requests within it
	most   int   // of them, that stretches of this size are right for
	size   int   // requests of a stretch
	within int   // requests of the one that is under way
	begin  dispatch.Time
	before float64 // mean gap of the stretch before; negative for none
}

// gaps sums up what stretches of one second tell.
type gaps struct {
	compared int64
	squares  float64 // of differences, in ns², for single gaps
	requests int64
	time     dispatch.Time
}

// arrive takes in a request that came at now.
func (s *spacing) arrive(now dispatch.Time, into *gaps) {
	begins := s.size == 0
	if second := int64(now / time.Second); second > s.second || begins {
		if second > s.second+1 {
			s.came = 0
		}
		size := max(1, int(math.Ceil(float64(s.came)*stretch.Seconds())))
		begins = begins || size != s.size
		s.second, s.came, s.size, s.most = second, 0, size, 2*s.came+fewRequests
	}
	if s.came++; begins || s.came > s.most {
		s.within, s.begin, s.before = 0, now, -1
		return
	}
	if s.within++; s.within < s.size {
		return
	}
	took := max(0, now-s.begin)
	gap := float64(took) / float64(s.size)
	into.requests += int64(s.size)
	into.time += took
	if s.before >= 0 {
		into.compared++
		into.squares += float64(s.size) * (gap - s.before) * (gap - s.before) / 2
	}
	s.before, s.within, s.begin = gap, 0, max(s.begin, now)
}

func (g *gaps) add(o gaps) {
	g.compared += o.compared
	g.squares += o.squares
	g.requests += o.requests
	g.time += o.time
}

// measure is nil where nothing could be compared.
func (g *gaps) measure() *autoscale.Gaps {
	if g.compared == 0 || g.time == 0 {
		return nil
	}
	mean := float64(g.time) / float64(g.requests)
	return &autoscale.Gaps{Compared: g.compared, Variation: g.squares / float64(g.compared) / (mean * mean)}
}
