package cores

import "github.com/harpagon/harpagon/scheduler/dispatch"

const (
	spoke  = dispatch.Time(50e3) // ends are late by up to this
	spokes = 4096                // further than the longest batch
)

// wheel holds the ends of batches by time.
type wheel struct {
	at   [spokes][]dispatch.ExecutorID
	turn int64 // the next spoke to be looked at
}

// newWheel makes room, so that measurements do not count its growth.
func newWheel(executors int) wheel {
	var w wheel
	for i := range w.at {
		w.at[i] = make([]dispatch.ExecutorID, 0, 32+executors/64)
	}
	return w
}

func (w *wheel) add(id dispatch.ExecutorID, at dispatch.Time) {
	t := max(w.turn, int64((at+spoke-1)/spoke))
	w.at[t%spokes] = append(w.at[t%spokes], id)
}

// ended calls free for all batches that have ended.
func (w *wheel) ended(now dispatch.Time, free func(dispatch.ExecutorID)) {
	for ; dispatch.Time(w.turn)*spoke <= now; w.turn++ {
		s := &w.at[w.turn%spokes]
		for _, id := range *s {
			free(id)
		}
		*s = (*s)[:0]
	}
}
