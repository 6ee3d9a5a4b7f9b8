// Command harpagon declares, plans, runs and watches pipelines of neural
// networks. It wires packages together and decides nothing; see package cli for its
// commands.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/harpagon/harpagon/cmd/harpagon/cli"
	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/executors/onnxruntime"
	"github.com/harpagon/harpagon/executors/steps"
	"github.com/harpagon/harpagon/internal/osutil"
	"github.com/harpagon/harpagon/sdk/local"
	"github.com/harpagon/harpagon/sdk/local/embedded"
)

func main() {
	local.ChildMain() // networks and Temporal run in children of this program
	os.Exit(run())
}

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the program at once
	start := time.Now()
	d := cli.Deps{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Environ:         os.Environ(),
		Version:         version(),
		Terminal:        term.IsTerminal(int(os.Stdout.Fd())) && term.IsTerminal(int(os.Stderr.Fd())),
		Width:           width(),
		Signatures:      executors.Signatures(steps.New(steps.Builtin()), onnxruntime.New(onnxruntime.Options{})),
		Clock:           func() time.Duration { return time.Since(start) },
		CPUClock:        threadClock(),
		RelaxTimerSlack: relaxTimerSlack,
		TuneProcessors:  osutil.FollowProcessors,
	}
	if !embedded.LeftOut {
		d.Start, d.Temporal = local.Start, local.Temporal
	}
	return cli.Run(ctx, d, os.Args[1:])
}

// width of the terminal; 0 when standard output is none.
func width() int {
	columns, _, err := term.GetSize(int(os.Stdout.Fd()))
	if err != nil {
		return 0
	}
	return columns
}

// version is that of the module, which the Go tool notes when it builds.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "devel"
}
