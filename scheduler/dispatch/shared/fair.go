package shared

import (
	"math"

	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// How adaptive divides what is lost among models. Shares are of requests.
const (
	fairMemory   = 2000.0 // requests of a model over which its losses fade
	fairBegin    = 100.0  // requests of a model that count as served before any was seen
	fairEnds     = 0.1    // share lost of all requests from which on fairness gives way to serving most
	fairKeep     = 100.0  // share of the target batch that is kept less of, for each share lost more than by all
	fairKeepMost = 0.7
	fairAhead    = 10.0 // share of the time that a model can wait by which it goes ahead, likewise
	fairMost     = 0.3
)

// losses is the share of requests that were lately given up.
type losses struct{ seen, lost float64 } // fading sums

func (l *losses) add(n int, missed, memory float64) {
	fade := math.Exp(-float64(n) / memory)
	l.seen, l.lost = l.seen*fade+float64(n), l.lost*fade+float64(n)*missed
}

// share takes it that some requests, before any was seen, were served.
func (l *losses) share(served float64) float64 { return l.lost / (l.seen + served) }

// count notes that n requests of a model were given up (missed is 1) or start
// (0).
func (p *adaptive) count(class int32, n int, missed float64) {
	if n > 0 {
		p.models[class].losses.add(n, missed, fairMemory)
		p.losses.add(n, missed, fairMemory*float64(len(p.models)))
	}
}

// behind is by how much more of its requests the model has lately lost than all
// together; at most 0 where less. It fades to zero where so much is lost that no
// order could keep all: then whoever can be served best is served.
//
// Goodput counts a load as borne when every model is served (Symphony, section
// 2.1). Without this, the order of deadlines lets models with long batches lose
// most: their last instant to start passes while shorter ones, due sooner, take
// every executor.
func (p *adaptive) behind(class int32) float64 {
	if p.models[class].losses.lost == 0 {
		return 0
	}
	all := p.lost()
	return (p.models[class].losses.share(fairBegin) - all) * max(0, 1-all/fairEnds)
}

// lost is the share of requests of all models together that were lately given up.
func (p *adaptive) lost() float64 { return p.losses.share(fairBegin * float64(len(p.models))) }

// ahead is how much earlier than its deadline says a model goes. Its batches are
// formed by their deadlines all the same.
func (p *adaptive) ahead(class int32) dispatch.Time {
	m := &p.models[class]
	return dispatch.Time(min(fairMost, max(0, fairAhead*p.behind(class))) * float64(m.slo-m.plan[0]))
}
