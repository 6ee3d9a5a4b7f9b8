package dispatcher

import (
	"time"

	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// ring keeps a figure per second for the last seconds, so that Measures looks
// back on a span that slides.
type ring[T any] struct {
	seconds []T
	last    int64    // second that was touched last
	reset   func(*T) // empties a figure, and keeps its memory
}

func (r *ring[T]) init(span time.Duration, reset func(*T)) {
	r.seconds, r.reset = make([]T, max(1, int(span/time.Second))+1), reset
	for i := range r.seconds {
		reset(&r.seconds[i])
	}
}

// at is the figure of the current second; those passed over start anew.
func (r *ring[T]) at(now dispatch.Time) *T {
	r.advance(now)
	return &r.seconds[r.last%int64(len(r.seconds))]
}

func (r *ring[T]) advance(now dispatch.Time) {
	second := int64(now / time.Second)
	if second-r.last > int64(len(r.seconds)) {
		r.last = second - int64(len(r.seconds))
	}
	for r.last < second {
		r.last++
		r.reset(&r.seconds[r.last%int64(len(r.seconds))])
	}
}

// span is what the ring looks back on at now: whole seconds and the current
// one, but not before the beginning of time.
func (r *ring[T]) span(now dispatch.Time) time.Duration {
	first := max(0, int64(now/time.Second)-int64(len(r.seconds))+1)
	return now - time.Duration(first)*time.Second
}
