package processors

import "time"

// Shares of the processors that a process takes at which their number changes. Beyond busy
// what is ready waits too long for its turn; a process that used less than easy of one fewer
// can do with one fewer, and with that used would not be busy at once.
const (
	full = 0.95 // in two intervals running
	busy = 0.80 // on average
	easy = 0.70 // on average, for patience
)

// Waits of goroutines that are ready, on average, at which the number changes. On a machine
// that others keep busy a process is not given what it would use, and with more threads it
// is given more. A batch whose results are there wakes as many goroutines as it has requests:
// beside a network whose batches fill, waits are 1 to 3 ms with one processor and with two.
const (
	longWait  = 10 * time.Millisecond
	shortWait = 5 * time.Millisecond
)

const (
	smoothing = 300 * time.Millisecond // of the average
	patience  = 2 * time.Second
)

// Limit decides how many processors a process takes. It is a plain value, for one goroutine.
type Limit struct {
	now, most int
	last      float64       // processors used in the last interval
	average   float64       // of them
	waited    float64       // average of the waits, in nanoseconds
	eased     time.Duration // for how long both averages have been low
}

// NewLimit begins with one processor. most is how many there are; less than 1 counts as 1.
func NewLimit(most int) Limit { return Limit{now: 1, most: max(1, most)} }

// Now is how many processors to take.
func (l *Limit) Now() int { return l.now }

// Next takes in how many processors were used in the last interval and for how long
// goroutines waited that were ready, both on average over it, and returns how many to take. A
// process that uses all it has gets twice as many, one that is busy on average or whose
// goroutines wait long one more, one that has long been at ease one fewer.
func (l *Limit) Next(used float64, waited, interval time.Duration) int {
	weight := min(1, float64(interval)/float64(smoothing))
	l.average += (used - l.average) * weight
	l.waited += (float64(waited) - l.waited) * weight
	if l.average < easy*float64(l.now-1) && l.waited < float64(shortWait) {
		l.eased += interval
	} else {
		l.eased = 0
	}
	last := l.last
	l.last = used
	switch {
	case min(used, last) > full*float64(l.now):
		l.take(2 * l.now)
	case l.average > busy*float64(l.now), l.waited > float64(longWait):
		l.take(l.now + 1)
	case l.eased >= patience:
		l.take(l.now - 1)
	}
	return l.now
}

func (l *Limit) take(n int) {
	l.now, l.eased = min(max(n, 1), l.most), 0
}
