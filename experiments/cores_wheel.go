package experiments

import "github.com/harpagon/harpagon/scheduler/dispatch"

const (
	spoke  = dispatch.Time(50e3) // ends are late by up to this
	spokes = 4096                // further than the longest batch
)

// wheel holds the ends of batches by time.
type wheel[T any] struct {
	at   [spokes][]T
	turn int64 // the next spoke to be looked at
}

// newWheel makes room, so that measurements do not count its growth.
func newWheel[T any](executors int) wheel[T] {
	var w wheel[T]
	for i := range w.at {
		w.at[i] = make([]T, 0, 32+executors/64)
	}
	return w
}

func (w *wheel[T]) add(of T, at dispatch.Time) {
	t := max(w.turn, int64((at+spoke-1)/spoke))
	w.at[t%spokes] = append(w.at[t%spokes], of)
}

// ended calls free with all batches that have ended.
func (w *wheel[T]) ended(now dispatch.Time, free func(T)) {
	for ; dispatch.Time(w.turn)*spoke <= now; w.turn++ {
		s := &w.at[w.turn%spokes]
		for _, of := range *s {
			free(of)
		}
		*s = (*s)[:0]
	}
}
