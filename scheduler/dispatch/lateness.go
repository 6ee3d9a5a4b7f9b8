package dispatch

import (
	"time"

	"github.com/harpagon/harpagon/pipelines/histogram"
)

// Tuning of a Lateness.
const (
	latenessShare   = 0.95             // of the batches that are away no longer than said
	latenessBatches = 64               // that are counted before those before them are forgotten
	latenessAgain   = 8                // batches after which it is worked out anew, if none says so before
	latenessMemory  = 10 * time.Second // without a batch, after which nothing is known any more
)

// Lateness is how much longer than profiled the batches of one executor have lately been
// away, to the return of their answers: a high percentile of the last 64 to 128. It is
// forgotten when no batch has come for a while, so that an executor which was late is tried
// again.
//
// The zero value takes batches to be as profiled.
type Lateness struct {
	recent, before histogram.Histogram
	last           Time // when a batch was learned; 0 for never
	of             Time
}

// Learn takes in a batch that was away so much longer than profiled.
func (l *Lateness) Learn(now, longer Time) {
	if !l.known(now) {
		l.recent.Reset(histogram.Coarse)
		l.before.Reset(histogram.Coarse)
		l.of = 0
	}
	l.last = max(1, now)
	if l.recent.Count() >= latenessBatches {
		l.recent, l.before = l.before, l.recent
		l.recent.Reset(histogram.Coarse)
	}
	l.recent.Add(longer)
	if n := l.recent.Count(); n%latenessAgain == 0 || longer > l.of && n+l.before.Count() < latenessBatches {
		l.of = histogram.Quantile(latenessShare, &l.recent, &l.before)
	}
}

func (l *Lateness) known(now Time) bool { return l.last > 0 && now <= l.until() }

func (l *Lateness) until() Time { return l.last + latenessMemory + l.of }

// Of is how much longer batches are to be taken to be away.
func (l *Lateness) Of(now Time) Time {
	if !l.known(now) {
		return 0
	}
	return l.of
}

// Lasts is how much longer batches are to be taken to be away until that time, where no
// other batch is learned before.
func (l *Lateness) Lasts() (of, until Time) { return l.of, l.until() }
