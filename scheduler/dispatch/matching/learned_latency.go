package matching

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// Constants of what matching learns.
const (
	learnWeight = 0.1  // of a new observation, once there are several
	learnSizes  = 4096 // sizes with a place of their own; others go by the line
	learnFirst  = 20   // observations before errors of predictions are believed
	learnSpread = 3    // standard deviations of the error to keep clear of
	learnDoubt  = 0.98 // of what is known of a size, for every query that it lets drop in vain
)

// learned is what is known of the latency of one type.
type learned struct {
	name    string
	profile pipelines.Latency
	sizes   map[int32]observed // the lookup table of section 5.1
	scale   float64            // observed over profiled, where there is a profile

	// Sums of a least-squares line through what was observed.
	n, x, y, xx, xy float64
	low, high       int32 // sizes observed

	errors float64 // mean square of the error of predictions, relative to them
}

type observed struct {
	mean  float64 // nanoseconds
	count int32
}

func newLearned(t InstanceType) learned {
	return learned{name: t.Name, profile: t.Latency, sizes: map[int32]observed{}, scale: 1}
}

// learn takes in that a query of that size took that long.
func (l *learned) learn(size int32, took dispatch.Time) {
	if took <= 0 {
		return
	}
	y, x := float64(took), float64(size)
	if expected := float64(l.predict(size)); expected > 0 && l.n > 0 {
		off := y/expected - 1
		l.errors += math.Max(learnWeight*learnWeight, 1/l.n) * (off*off - l.errors)
	}
	if at, known := l.sizes[size]; known || len(l.sizes) < learnSizes {
		at.count++
		at.mean += math.Max(learnWeight, 1/float64(at.count)) * (y - at.mean)
		l.sizes[size] = at
	}
	if expected := float64(l.profile.At(int(size))); expected > 0 {
		l.scale += learnWeight * (y/expected - l.scale)
	}
	if l.n == 0 {
		l.low, l.high = size, size
	}
	l.low, l.high = min(l.low, size), max(l.high, size)
	l.n, l.x, l.y, l.xx, l.xy = l.n+1, l.x+x, l.y+y, l.xx+x*x, l.xy+x*y
}

// spread is the error to expect, relative to a prediction.
func (l *learned) spread() float64 {
	if l.n < learnFirst {
		return 1
	}
	return math.Min(1, learnSpread*math.Sqrt(l.errors))
}

// predict is the latency expected of a query of that size; 0 where nothing is
// known of the type.
func (l *learned) predict(size int32) dispatch.Time {
	if len(l.sizes) > 0 {
		if at, known := l.sizes[size]; known {
			return dispatch.Time(at.mean)
		}
	}
	switch {
	case len(l.profile) > 0:
		return dispatch.Time(l.scale * float64(l.profile.At(int(size))))
	case l.low < l.high:
		return l.line(size)
	case l.n > 0: // of one size only: a smaller query takes no longer, a larger one in proportion
		return dispatch.Time(l.y / l.n * math.Max(1, float64(size)/float64(l.low)))
	}
	return 0
}

// knows reports whether a prediction for that size rests on what was seen of it, or of
// smaller and larger ones.
func (l *learned) knows(size int32) bool {
	_, seen := l.sizes[size]
	return seen || len(l.profile) > 0 || len(l.sizes) >= learnSizes || l.low < size && size < l.high
}

// doubt lets what was seen of a size count for less, so that one observation while
// something else held the instance up does not keep the size from it for good.
func (l *learned) doubt(size int32) {
	if at, seen := l.sizes[size]; seen {
		at.mean *= learnDoubt
		l.sizes[size] = at
	}
}

// line reads the least-squares line; a slope below zero counts as none.
func (l *learned) line(size int32) dispatch.Time {
	slope := (l.n*l.xy - l.x*l.y) / (l.n*l.xx - l.x*l.x)
	if !(slope > 0) {
		return dispatch.Time(l.y / l.n)
	}
	return dispatch.Time(math.Max(1, l.y/l.n+slope*(float64(size)-l.x/l.n)))
}

func (l *learned) describe() string {
	switch {
	case l.n > 0 && len(l.profile) > 0:
		return fmt.Sprintf("%d sizes seen, profile times %.2f", len(l.sizes), l.scale)
	case l.n > 0:
		return fmt.Sprintf("%d sizes seen, largest %d in %v", len(l.sizes), l.high, l.predict(l.high).Round(time.Microsecond))
	case len(l.profile) > 0:
		return fmt.Sprintf("profile of %d sizes", len(l.profile))
	}
	return "nothing known yet"
}

func (l learned) clone() learned {
	l.sizes = maps.Clone(l.sizes)
	return l
}

func sameProfile(a, b learned) bool { return slices.Equal(a.profile, b.profile) }

// Inherit takes over the latencies learned of types that have the same name and
// the same profile.
func (p *matching) Inherit(from dispatch.Policy) {
	old, ok := from.(*matching)
	if !ok {
		return
	}
	for i := range p.types {
		for _, was := range old.types {
			if was.name == p.types[i].name && sameProfile(was, p.types[i]) {
				p.types[i] = was.clone()
			}
		}
	}
}
