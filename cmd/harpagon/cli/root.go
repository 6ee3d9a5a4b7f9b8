// Package cli is the command line: it reads flags, calls one entry point of a
// room below, and prints what comes back as text or as JSON. It decides
// nothing, so everything that it can do, a Go program can do too.
//
// A command is made by a function newXCommand in the file of its name, which gets
// the outside world as one value, Deps, and is listed in root.go under the stage
// of a user's journey that it belongs to. A command returns its error; Run prints
// it once and turns it into the exit code. Results go to standard output,
// everything else to standard error.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// stage is a part of a user's journey, in the order of the help text.
type stage struct {
	title    string
	commands []*cobra.Command
}

// stages lists every command. A new one is a line here.
func stages(d *Deps) []stage {
	return []stage{
		{"Declare a pipeline:", []*cobra.Command{newInitCommand(d), newImportCommand(d), newFmtCommand(d), newValidateCommand(d)}},
		{"Know what it will take:", []*cobra.Command{newDoctorCommand(d), newEnginesCommand(d), newProfileCommand(d), newPlanCommand(d), newSimulateCommand(d), newReplayCommand(d), newCompareCommand(d), newReproduceCommand(d)}},
		{"Run it:", []*cobra.Command{newUpCommand(d), newApplyCommand(d), newStatusCommand(d), newExplainCommand(d), newHistoryCommand(d), newRollbackCommand(d), newDownCommand(d)}},
		{"Use what runs:", []*cobra.Command{newInferCommand(d), newLoadCommand(d), newFeedCommand(d)}},
		{"See it all at once:", []*cobra.Command{newDemoCommand(d)}},
		{"Run the roles on hosts of their own:", []*cobra.Command{newGatewayCommand(d), newDispatcherCommand(d), newWorkerCommand(d), newControlCommand(d), newTemporalCommand(d)}},
		{"About this program:", []*cobra.Command{newVersionCommand(d), newSchemaCommand(d)}},
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
	complete(root, &d)
	// Cobra breaks no line of its own accord.
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), ".FlagUsages", fmt.Sprintf(".FlagUsagesWrapped %d", lineWidth)))
	others := root.HelpFunc()
	root.SetHelpFunc(func(c *cobra.Command, args []string) {
		if c != root {
			others(c, args)
			return
		}
		writeStages(d.Stdout, root, journey)
	})
	return root
}

// writeStages is the help of the program. Cobra's own would sort commands by
// name within a group; people look for what comes next.
func writeStages(w io.Writer, root *cobra.Command, journey []stage) {
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
	fmt.Fprintf(w, "\nharpagon COMMAND --help explains a command, with examples. Exit codes: 0 it\nworked, 1 an error, 2 it worked and something changes (with\n--detailed-exitcode), 130 interrupted. harpagon completion bash (zsh, fish,\npowershell) prints a script that completes commands, names and values.\n")
}

// graceTime is how long a command may go on after it was interrupted that holds
// nothing which must be given back.
const graceTime = 2 * time.Second

// Run runs one command line, without the name of the program, and returns the
// exit code. When ctx ends, commands that started something stop it first;
// others, which may be deep in a search, are left after a moment.
func Run(ctx context.Context, d Deps, args []string) int {
	width := d.Width
	if width <= 0 || !d.Terminal {
		width = lineWidth
	}
	out := &fitter{to: d.Stdout, width: width}
	d.Stdout = out
	root := New(d)
	args = asInTerraform(args)
	root.SetArgs(args)
	root.PersistentPreRun = func(c *cobra.Command, _ []string) { out.whole, out.atOnce = forPrograms(c), cleansUp(c.Name()) }
	done := make(chan int, 1)
	go func() {
		c, err := root.ExecuteContextC(ctx)
		done <- Report(d.Stderr, errors.Join(namePort(c, err), out.flush()))
	}()
	select {
	case code := <-done:
		return code
	case <-ctx.Done():
	}
	if c, _, err := root.Find(args); err == nil && cleansUp(c.Name()) {
		return <-done
	}
	select {
	case code := <-done:
		return code
	case <-time.After(graceTime):
		fmt.Fprintln(d.Stderr, "harpagon: interrupted")
		return ExitInterrupted
	}
}

// asInTerraform lets -var and -var-file be written with one hyphen, too.
func asInTerraform(args []string) []string {
	args = slices.Clone(args)
	for i, a := range args {
		name, _, _ := strings.Cut(a, "=")
		switch name {
		case "--":
			return args
		case "-var", "-var-file":
			args[i] = "-" + a
		}
	}
	return args
}

// forPrograms reports whether a command's output is read by programs.
func forPrograms(c *cobra.Command) bool {
	for _, name := range []string{"json", "markdown"} {
		if f := c.Flags().Lookup(name); f != nil && f.Value.String() == "true" {
			return true
		}
	}
	return slices.Contains([]string{"fmt", "init", "schema", cobra.ShellCompRequestCmd, cobra.ShellCompNoDescRequestCmd}, c.Name()) ||
		c.HasParent() && c.Parent().Name() == "completion"
}

// cleansUp reports whether a command leaves something behind when it is cut off.
func cleansUp(command string) bool {
	return slices.Contains([]string{"up", "demo", "gateway", "dispatcher", "worker", "control", "temporal", "profile", "load", "apply", "down", "reproduce"}, command)
}
