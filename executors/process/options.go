package process

import (
	"io"
	"time"

	"github.com/harpagon/harpagon/executors"
)

// Options say how commands are started. The zero value is ready to use.
type Options struct {
	// Supervisor starts a program whose main calls Supervise first; empty: this program.
	Supervisor []string

	// Output gets what commands print, line by line, each with a prefix that
	// names the module; nil means os.Stderr. Several commands may write at once.
	Output io.Writer

	StartTimeout time.Duration // until the model is ready; 0 means 2 min
	RunTimeout   time.Duration // of one batch; 0 means 1 min
	StopTimeout  time.Duration // between SIGTERM and SIGKILL; 0 means 5 s
	HealthPeriod time.Duration // see remote.Options
	MaxAnswer    int           // see remote.Options

	Retry executors.Backoff // between starts; zero means the executors' own

	endTime time.Duration // for a command to end that has failed a batch; 0 means 2 s
}

// The defaults of Options.
const (
	defaultStartTimeout = 2 * time.Minute
	defaultRunTimeout   = time.Minute
	defaultStopTimeout  = 5 * time.Second

	// One that ends takes a few milliseconds, and more on a busy machine: taken for one
	// that goes on, it would lose the next batch, too, and not say why.
	defaultEndTime = 2 * time.Second
)

func (o Options) withDefaults() Options {
	orElse := func(d *time.Duration, otherwise time.Duration) {
		if *d <= 0 {
			*d = otherwise
		}
	}
	orElse(&o.StartTimeout, defaultStartTimeout)
	orElse(&o.RunTimeout, defaultRunTimeout)
	orElse(&o.StopTimeout, defaultStopTimeout)
	orElse(&o.endTime, defaultEndTime)
	return o
}
