package cli

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"
)

// Progress is shown that often: on a terminal in place, elsewhere as a line each
// quarter of the work.
const (
	showEvery = 200 * time.Millisecond
	quarters  = 4
)

// work runs n independent pieces on all cores, each core on a thread of its own,
// and shows on standard error how far it is. It ends early, with the context's error, when the context does;
// pieces that have begun are finished first.
func (d *Deps) work(ctx context.Context, what string, n int, do func(i int)) error {
	p := progress{deps: d, what: what, all: n}
	next := make(chan int)
	var wait sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), n) {
		wait.Go(func() {
			runtime.LockOSThread() // for CPUClock
			defer runtime.UnlockOSThread()
			for i := range next {
				do(i)
				p.step()
			}
		})
	}
	defer p.end()
	defer wait.Wait()
	defer close(next)
	for i := range n {
		select {
		case next <- i:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// progress counts finished pieces.
type progress struct {
	deps  *Deps
	what  string
	all   int
	mu    sync.Mutex
	done  int
	shown time.Duration
}

func (p *progress) step() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done++
	if !p.deps.Terminal {
		if at := p.done * quarters / p.all; at > (p.done-1)*quarters/p.all {
			fmt.Fprintf(p.deps.Stderr, "%s: %d of %d\n", p.what, p.done, p.all)
		}
		return
	}
	now := p.deps.now()
	if p.done == p.all || now-p.shown >= showEvery {
		p.shown = now
		fmt.Fprintf(p.deps.Stderr, "\r\x1b[K%s: %d of %d", p.what, p.done, p.all)
	}
}

// end clears the line of a terminal.
func (p *progress) end() {
	if p.deps.Terminal {
		fmt.Fprint(p.deps.Stderr, "\r\x1b[K")
	}
}

// benchClock is what solve times of benchmarks are read from.
func (d *Deps) benchClock() func() time.Duration {
	if d.CPUClock != nil {
		return d.CPUClock
	}
	return d.Clock
}

// now reads the clock of the program; without one, time stands still.
func (d *Deps) now() time.Duration {
	if d.Clock == nil {
		return 0
	}
	return d.Clock()
}
