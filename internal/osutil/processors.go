package osutil

import (
	"context"
	"os"
	"runtime"
	"time"
)

// interval is how often the time used is looked at. Work that comes at once has one
// processor for two of them at the most.
const interval = 50 * time.Millisecond

// most is what the runtime took when the program began: what the machine has, or what the
// limits of its container or GOMAXPROCS say.
var most = runtime.GOMAXPROCS(0)

// MostProcessors is how many processors there are for this process, whatever it takes just now.
func MostProcessors() int { return most }

// FollowProcessors lets the runtime take as many processors as are needed, one to begin with, until
// ctx ends; then it takes all again. It does nothing where GOMAXPROCS is set in the
// environment or the time that the process has used cannot be told. One at a time in a
// process.
func FollowProcessors(ctx context.Context) {
	if ProcessorTime() == 0 || os.Getenv("GOMAXPROCS") != "" || most == 1 {
		return
	}
	l := newLimit(most)
	runtime.GOMAXPROCS(l.Now())
	go func() {
		defer runtime.GOMAXPROCS(most)
		follow(ctx, &l)
	}()
}

func follow(ctx context.Context, l *limit) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	at, before := time.Now(), ProcessorTime()
	waits := newWaits()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now, total := time.Now(), ProcessorTime()
		passed := now.Sub(at)
		if passed <= 0 {
			continue
		}
		was := l.Now()
		if n := l.Next(float64(total-before)/float64(passed), waits.next(), passed); n != was {
			runtime.GOMAXPROCS(n)
		}
		at, before = now, total
	}
}
