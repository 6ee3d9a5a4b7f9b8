package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/harpagon/harpagon/experiments"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/sdk/local/system"
)

// Deps is all that commands use of the world outside.
type Deps struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Environ        []string // as os.Environ gives it
	Version        string

	// Terminal means that standard output and standard error are looked at by
	// a person: findings are coloured and long work shows its progress.
	Terminal bool

	// Width is how many columns the terminal has; 0 means 100.
	Width int

	// Signatures states what modules consume and produce. Nil leaves shapes
	// unchecked.
	Signatures pipelines.SignatureFunc

	// Clock reads a monotonic clock, for the time that planning took. Nil
	// leaves it zero.
	Clock func() time.Duration

	// CPUClock reads the processor time of the calling thread, for benchmarks
	// on machines that have other work as well. Nil takes Clock.
	CPUClock func() time.Duration

	// Running names what serves on the system of a state folder, for
	// completion. Nil queries the system.
	Running func(ctx context.Context, state string) ([]string, error)

	// RelaxTimerSlack lets the sleeps of a process that serves end late, and may start the
	// program again in its place for that. Nil leaves them.
	RelaxTimerSlack func()

	// TuneProcessors keeps a process that serves or loads on as few processors as it needs until
	// ctx ends. Nil leaves them.
	TuneProcessors func(ctx context.Context)

	// Start starts a whole system, with Temporal in a process of its own. Nil means that this program
	// was built without it.
	Start func(context.Context, system.Options) (*system.System, error)

	// Temporal starts the embedded Temporal server alone. Nil means that this program
	// was built without it.
	Temporal func(context.Context, system.TemporalOptions) (system.Temporal, error)
}

// ErrNoServer is what commands answer that need Start.
var ErrNoServer = errors.New("this program was built without the embedded system; take the full one, or run the roles gateway, worker and control against a Temporal server")

// Exit codes of the program.
const (
	ExitOK      = 0
	ExitError   = 1
	ExitChanges = 2 // with --detailed-exitcode: it worked, and something differs

	ExitInterrupted = 130 // as in shells for programs that Ctrl-C ended
)

// ErrReported ends a command with ExitError where what is wrong stands on the
// terminal already.
var ErrReported = errors.New("reported")

// ErrChanges ends a command with ExitChanges.
var ErrChanges = errors.New("changes")

// Report prints an error, once, and gives its exit code.
func Report(w io.Writer, err error) int {
	switch {
	case err == nil:
		return ExitOK
	case errors.Is(err, ErrChanges):
		return ExitChanges
	case errors.Is(err, ErrReported):
		return ExitError
	}
	text := strings.TrimPrefix(strings.TrimSpace(err.Error()), "harpagon: ")
	fmt.Fprintf(w, "harpagon: %s\n", text)
	if strings.HasPrefix(text, `unknown command "provider"`) {
		fmt.Fprintln(w, "The stand-in for a provider of functions is an example: go run ./examples/functions PATH...")
	} else if strings.HasPrefix(text, "unknown command") {
		fmt.Fprintln(w, "Run harpagon --help for the commands that there are.")
	}
	return ExitError
}

// wrongUse adds to an error about flags or arguments where their use is described.
func wrongUse(c *cobra.Command, err error) error {
	return fmt.Errorf("%w; see %s --help", err, c.CommandPath())
}

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

// Searching makes a search's stop function. While the search polls it, a terminal shows for
// how long it has gone on; done clears that line, before anything else is printed.
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
