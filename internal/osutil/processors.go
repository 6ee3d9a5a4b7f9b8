package osutil

import (
	"context"
	"os"
	"runtime"
	"slices"
	"time"
)

const (
	interval   = 100 * time.Millisecond // between looks at the time used
	remembered = 20                     // intervals; a process has fewer processors after these at the earliest
)

// most is what the runtime took when the program began: what the machine has, or the limits
// of its container or GOMAXPROCS.
var most = runtime.GOMAXPROCS(0)

// MostProcessors is how many processors there are for this process, whatever it takes just now.
func MostProcessors() int { return most }

// Cores is how many processors may compute side by side without end: those of MostProcessors,
// and no more than the quota of the container has whole ones, but one. (The runtime takes
// two at least of any quota, and rounds up, so that some of them stand still for a part of
// each period.)
func Cores() int { return cores(MostProcessors(), Quota(os.DirFS("/"))) }

func cores(most int, quota float64) int {
	if quota > 0 && quota < float64(most) {
		return max(1, int(quota))
	}
	return most
}

// FollowProcessors lets the runtime take as many processors as are needed, one to begin with, until
// ctx ends; then it takes all again. It does nothing where GOMAXPROCS is set in the
// environment or the time that the process has used is unknown. One at a time in a process.
func FollowProcessors(ctx context.Context) {
	if ProcessorTime() == 0 || os.Getenv("GOMAXPROCS") != "" || most == 1 {
		return
	}
	l := newLimit(most)
	runtime.GOMAXPROCS(l.now)
	go func() {
		defer runtime.GOMAXPROCS(most)
		follow(ctx, &l)
	}()
}

func follow(ctx context.Context, l *limit) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	at, before := time.Now(), ProcessorTime()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now, total := time.Now(), ProcessorTime()
		if passed := now.Sub(at); passed > 0 {
			if was := l.now; l.Next(float64(total-before)/float64(passed)) != was {
				runtime.GOMAXPROCS(l.now)
			}
			at, before = now, total
		}
	}
}

// share of the processors that a process may use before it takes one more.
const share = 0.8

// limit decides how many processors a process takes: what the busiest of the last intervals
// used, and one. It is a plain value, for one goroutine.
type limit struct {
	now, most int
	used      [remembered]float64 // in the last intervals
	next      int                 // place in used
}

// newLimit begins with one processor. most is how many there are; less than 1 counts as 1.
func newLimit(most int) limit { return limit{now: 1, most: max(1, most)} }

// Next takes in how many processors were used in the last interval, on average over it, and
// returns how many to take.
func (l *limit) Next(used float64) int {
	l.used[l.next] = used
	l.next = (l.next + 1) % len(l.used)
	l.now = min(1+int(slices.Max(l.used[:])/share), l.most)
	return l.now
}
