package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/harpagon/harpagon/experiments"
)

// Progress is shown that often: on a terminal in place, elsewhere as a line each
// quarter of the work.
const (
	showEvery = 200 * time.Millisecond
	quarters  = 4
)

// Env is what long work is run with: it shows on standard error how far it is.
func (d *Deps) Env() *experiments.Env {
	var shown time.Duration
	e := &experiments.Env{Clock: d.CPUClock}
	if e.Clock == nil {
		e.Clock = d.Clock
	}
	e.Progress = func(what string, done, all int) {
		if !d.Terminal {
			if at := done * quarters / all; at > (done-1)*quarters/all {
				fmt.Fprintf(d.Stderr, "%s: %d of %d\n", what, done, all)
			}
			return
		}
		now := d.now()
		if done == all || now-shown >= showEvery {
			shown = now
			fmt.Fprintf(d.Stderr, clearLine+"%s: %d of %d", what, done, all)
		}
		if done == all {
			fmt.Fprint(d.Stderr, clearLine)
		}
	}
	return e
}

// quiet is how long a search may take before a terminal shows that it goes on.
const quiet = time.Second

// Searching is what a search asks whether to stop. While it asks, a terminal shows for
// how long it has gone on; done clears that away, before
// anything else is printed.
func (d *Deps) Searching(ctx context.Context, what string) (stop func() bool, done func()) {
	begin := d.now()
	shown := begin
	stop = func() bool {
		if now := d.now(); d.Terminal && now-begin >= quiet && now-shown >= showEvery {
			shown = now
			fmt.Fprintf(d.Stderr, clearLine+"%s for %d s; Ctrl-C ends it", what, int((now - begin).Seconds()))
		}
		return ctx.Err() != nil
	}
	return stop, func() {
		if shown != begin {
			fmt.Fprint(d.Stderr, clearLine)
			shown = begin
		}
	}
}

// clearLine empties the line of a terminal.
const clearLine = "\r\x1b[K"

// now reads the clock of the program; without one, time stands still.
func (d *Deps) now() time.Duration {
	if d.Clock == nil {
		return 0
	}
	return d.Clock()
}
