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
	Name    string
	Profile pipelines.Latency
	Sizes   map[int32]observed // the lookup table of section 5.1
	Scale   float64            // observed over profiled, where there is a profile

	// Sums of a least-squares line through what was observed.
	N, X, Y, Xx, Xy float64
	Low, High       int32 // sizes observed

	Errors float64 // mean square of the error of predictions, relative to them
}

type observed struct {
	Mean  float64 // nanoseconds
	Count int32
}

func newLearned(t InstanceType) learned {
	return learned{Name: t.Name, Profile: t.Latency, Sizes: map[int32]observed{}, Scale: 1}
}

// learn takes in that a query of that size took that long.
func (l *learned) learn(size int32, took dispatch.Time) {
	if took <= 0 {
		return
	}
	y, x := float64(took), float64(size)
	if expected := float64(l.predict(size)); expected > 0 && l.N > 0 {
		off := y/expected - 1
		l.Errors += math.Max(learnWeight*learnWeight, 1/l.N) * (off*off - l.Errors)
	}
	if at, known := l.Sizes[size]; known || len(l.Sizes) < learnSizes {
		at.Count++
		at.Mean += math.Max(learnWeight, 1/float64(at.Count)) * (y - at.Mean)
		l.Sizes[size] = at
	}
	if expected := float64(l.Profile.At(int(size))); expected > 0 {
		l.Scale += learnWeight * (y/expected - l.Scale)
	}
	if l.N == 0 {
		l.Low, l.High = size, size
	}
	l.Low, l.High = min(l.Low, size), max(l.High, size)
	l.N, l.X, l.Y, l.Xx, l.Xy = l.N+1, l.X+x, l.Y+y, l.Xx+x*x, l.Xy+x*y
}

// spread is the error to expect, relative to a prediction.
func (l *learned) spread() float64 {
	if l.N < learnFirst {
		return 1
	}
	return math.Min(1, learnSpread*math.Sqrt(l.Errors))
}

// predict is the latency expected of a query of that size; 0 where nothing is
// known of the type.
func (l *learned) predict(size int32) dispatch.Time {
	if len(l.Sizes) > 0 {
		if at, known := l.Sizes[size]; known {
			return dispatch.Time(at.Mean)
		}
	}
	switch {
	case len(l.Profile) > 0:
		return dispatch.Time(l.Scale * float64(l.Profile.At(int(size))))
	case l.Low < l.High:
		return l.line(size)
	case l.N > 0: // of one size only: a smaller query takes no longer, a larger one in proportion
		return dispatch.Time(l.Y / l.N * math.Max(1, float64(size)/float64(l.Low)))
	}
	return 0
}

// knows reports whether a prediction for that size rests on queries of that size, or of
// smaller and larger ones.
func (l *learned) knows(size int32) bool {
	_, seen := l.Sizes[size]
	return seen || len(l.Profile) > 0 || len(l.Sizes) >= learnSizes || l.Low < size && size < l.High
}

// doubt lets what was seen of a size count for less, so that one observation while
// something else held the instance up does not keep the size from it for good.
func (l *learned) doubt(size int32) {
	if at, seen := l.Sizes[size]; seen {
		at.Mean *= learnDoubt
		l.Sizes[size] = at
	}
}

// line reads the least-squares line; a slope below zero counts as none.
func (l *learned) line(size int32) dispatch.Time {
	slope := (l.N*l.Xy - l.X*l.Y) / (l.N*l.Xx - l.X*l.X)
	if !(slope > 0) {
		return dispatch.Time(l.Y / l.N)
	}
	return dispatch.Time(math.Max(1, l.Y/l.N+slope*(float64(size)-l.X/l.N)))
}

func (l *learned) describe() string {
	switch {
	case l.N > 0 && len(l.Profile) > 0:
		return fmt.Sprintf("%d sizes seen, profile times %.2f", len(l.Sizes), l.Scale)
	case l.N > 0:
		return fmt.Sprintf("%d sizes seen, largest %d in %v", len(l.Sizes), l.High, l.predict(l.High).Round(time.Microsecond))
	case len(l.Profile) > 0:
		return fmt.Sprintf("profile of %d sizes", len(l.Profile))
	}
	return "nothing known yet"
}

func (l learned) clone() learned {
	l.Sizes = maps.Clone(l.Sizes)
	return l
}

func sameProfile(a, b learned) bool { return slices.Equal(a.Profile, b.Profile) }

// Inherit takes over the latencies learned of types that have the same name and
// the same profile.
func (p *matching) Inherit(from dispatch.Policy) {
	old, ok := from.(*matching)
	if !ok {
		return
	}
	for i := range p.Types {
		for _, was := range old.Types {
			if was.Name == p.Types[i].Name && sameProfile(was, p.Types[i]) {
				p.Types[i] = was.clone()
			}
		}
	}
}
