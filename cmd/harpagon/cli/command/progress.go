package command

import (
	"fmt"
	"time"

	"github.com/harpagon/harpagon/experiments/figure"
)

// Progress is shown that often: on a terminal in place, elsewhere as a line each
// quarter of the work.
const (
	showEvery = 200 * time.Millisecond
	quarters  = 4
)

// Env is what long work is run with: it shows on standard error how far it is.
func (d *Deps) Env() *figure.Env {
	var shown time.Duration
	e := &figure.Env{Clock: d.CPUClock}
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

// clearLine empties the line of a terminal.
const clearLine = "\r\x1b[K"

// now reads the clock of the program; without one, time stands still.
func (d *Deps) now() time.Duration {
	if d.Clock == nil {
		return 0
	}
	return d.Clock()
}
