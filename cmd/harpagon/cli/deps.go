package cli

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/sdk/local/system"
)

// Deps is all that commands use of the world outside.
type Deps struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Environ        []string // as os.Environ gives it
	Version        string

	// Terminal says that standard output and standard error are looked at by
	// a person: findings are coloured and long work shows its progress.
	Terminal bool

	// Width is how many columns the terminal has; 0 means 100.
	Width int

	// Signatures tells what modules consume and produce. Nil leaves shapes
	// unchecked.
	Signatures pipelines.SignatureFunc

	// Clock reads a monotonic clock, for the time that planning took. Nil
	// leaves it zero.
	Clock func() time.Duration

	// CPUClock reads the processor time of the calling thread, for benchmarks
	// on machines that have other work as well. Nil takes Clock.
	CPUClock func() time.Duration

	// Running names what serves on the system of a state folder, for
	// completion. Nil asks the system.
	Running func(ctx context.Context, state string) ([]string, error)

	// Loosen lets the sleeps of a process that serves end late, and may start the
	// program anew in its place for that. Nil leaves them.
	Loosen func()

	// Follow keeps a process that serves or loads on as few processors as it needs until
	// ctx ends. Nil leaves them.
	Follow func(ctx context.Context)

	// Start starts a whole system, with Temporal in a process of its own. Nil says that this program
	// was built without it.
	Start func(context.Context, system.Options) (*system.System, error)

	// Temporal starts the embedded Temporal server alone. Nil says that this program
	// was built without it.
	Temporal func(context.Context, system.TemporalOptions) (system.Temporal, error)
}

// ErrNoServer is what commands answer that need Start.
var ErrNoServer = errors.New("this program was built without the embedded system; take the full one, or run the roles gateway, worker and control against a Temporal server")
