package child

import (
	"io"
	"time"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/pipelines"
)

// Options say how children are started. The zero value is ready to use.
type Options struct {
	Command []string // program and arguments; empty: this program without arguments

	// Env is added to this process's environment. GOMAXPROCS=1 comes before it:
	// a device of hardware "cpu" is one core.
	Env []string

	// Output gets what children print, line by line, each with a prefix that
	// names engine and module; nil means os.Stderr. Children of one engine may
	// write at once, so it must be safe for concurrent use, as a file is.
	Output io.Writer

	StartTimeout time.Duration // until a child says hello; 0 means 20 s
	LoadTimeout  time.Duration // of loading and warming up; 0 means 5 min
	RunTimeout   time.Duration // of one batch; 0 means 1 min
	CloseTimeout time.Duration // until a child that was told to end is killed; 0 means 2 s

	Retry       executors.Backoff // between attempts to load again
	MaxAttempts int               // failures to load in a row before an instance gives up; 0 means 6
	MaxMessage  int               // bytes of one batch or result; 0 means 256 MiB
	Version     string            // of the inner engine; empty: a child is asked once
	Pipe        bool              // send tensors through the pipes even where memory can be shared
}

// The defaults of Options.
const (
	defaultStartTimeout = 20 * time.Second
	defaultLoadTimeout  = 5 * time.Minute
	defaultRunTimeout   = time.Minute
	defaultCloseTimeout = 2 * time.Second
	defaultMaxAttempts  = 6
	defaultMaxMessage   = 256 << 20
	largestMaxMessage   = 1<<31 - 1
)

func (o Options) withDefaults() Options {
	o.StartTimeout = orElse(o.StartTimeout, defaultStartTimeout)
	o.LoadTimeout = orElse(o.LoadTimeout, defaultLoadTimeout)
	o.RunTimeout = orElse(o.RunTimeout, defaultRunTimeout)
	o.CloseTimeout = orElse(o.CloseTimeout, defaultCloseTimeout)
	o.MaxAttempts = orElse(o.MaxAttempts, defaultMaxAttempts)
	o.MaxMessage = min(orElse(o.MaxMessage, defaultMaxMessage), largestMaxMessage)
	return o
}

func orElse[T int | time.Duration](v, otherwise T) T {
	if v > 0 {
		return v
	}
	return otherwise
}

// hello is a child's first word.
type hello struct {
	Protocol int
	Engines  []engineInfo
}

type engineInfo struct{ Name, Version string }

type loadRequest struct {
	Engine     string
	Model      executors.Model
	MaxMessage int
	Shared     int // bytes of the shared memory; 0: there is none
}

type loadReply struct {
	Signature pipelines.Signature
	Memory    int64
	Shared    bool // the child sees the shared memory
}
