package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

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

	// Signatures tells what modules consume and produce. Nil leaves shapes
	// unchecked.
	Signatures pipelines.SignatureFunc

	// Clock reads a monotonic clock, for the time that planning took. Nil
	// leaves it zero.
	Clock func() time.Duration

	// CPUClock reads the processor time of the calling thread, for benchmarks
	// on machines that have other work as well. Nil takes Clock.
	CPUClock func() time.Duration

	// Start starts a whole system in this process. Nil says that this program
	// was built without it.
	Start func(context.Context, system.Options) (*system.System, error)
}

// errNoServer is what commands answer that need Start.
var errNoServer = errors.New("this program was built without the embedded system; run the roles gateway, worker and control against a Temporal server instead")

// stage is a part of a user's journey, in the order of the help text.
type stage struct {
	title    string
	commands []*cobra.Command
}

// stages lists every command. A new one is a line here.
func stages(d *Deps) []stage {
	return []stage{
		{"Declare a pipeline:", []*cobra.Command{newInitCommand(d), newFmtCommand(d), newValidateCommand(d)}},
		{"Know what it will take:", []*cobra.Command{newEnginesCommand(d), newProfileCommand(d), newPlanCommand(d), newSimulateCommand(d), newCompareCommand(d), newBenchCommand(d)}},
		{"Run it:", []*cobra.Command{newUpCommand(d), newApplyCommand(d), newStatusCommand(d), newExplainCommand(d), newDownCommand(d)}},
		{"Use what runs:", []*cobra.Command{newInferCommand(d), newLoadCommand(d)}},
		{"See it all at once:", []*cobra.Command{newDemoCommand(d)}},
		{"Run the roles on hosts of their own:", []*cobra.Command{newGatewayCommand(d), newWorkerCommand(d), newControlCommand(d), newProviderCommand(d)}},
	}
}

// New makes the command harpagon.
func New(d Deps) *cobra.Command {
	root := &cobra.Command{
		Use:   "harpagon",
		Short: "Serve pipelines of neural networks for the least money that keeps their latency objective",
		Long: `Harpagon serves pipelines of several neural networks, a DAG of modules under one
end-to-end latency objective, for the least money that keeps the objective.

A pipeline is declared in HCL: harpagon init writes one to start from.`,
		Version:                    d.Version,
		SilenceErrors:              true, // Run prints them, once
		SilenceUsage:               true,
		SuggestionsMinimumDistance: 2,
		CompletionOptions:          cobra.CompletionOptions{HiddenDefaultCmd: true},
	}
	root.SetIn(d.Stdin)
	root.SetOut(d.Stdout)
	root.SetErr(d.Stderr)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return wrongUse(c, err) })
	journey := stages(&d)
	for _, s := range journey {
		root.AddCommand(s.commands...)
	}
	others := root.HelpFunc()
	root.SetHelpFunc(func(c *cobra.Command, args []string) {
		if c != root {
			others(c, args)
			return
		}
		writeJourney(d.Stdout, root, journey)
	})
	return root
}

// writeJourney is the help of the program. Cobra's own would sort commands by
// name within a group; people look for what comes next.
func writeJourney(w io.Writer, root *cobra.Command, journey []stage) {
	fmt.Fprintf(w, "%s\n\nUsage:\n  %s COMMAND\n", root.Long, root.Name())
	for _, s := range journey {
		if len(s.commands) == 0 {
			continue
		}
		fmt.Fprintf(w, "\n%s\n", s.title)
		for _, c := range s.commands {
			fmt.Fprintf(w, "  %-10s %s\n", c.Name(), c.Short)
		}
	}
	fmt.Fprintf(w, "\nharpagon COMMAND --help tells more, with examples. Exit codes: 0 it worked, 1 an\nerror, 2 it worked and something changes (with --detailed-exitcode).\n")
}

// Run runs one command line, without the name of the program, and returns the
// exit code.
func Run(ctx context.Context, d Deps, args []string) int {
	root := New(d)
	root.SetArgs(args)
	return report(d.Stderr, root.ExecuteContext(ctx))
}
