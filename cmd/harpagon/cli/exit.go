package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// Exit codes of the program.
const (
	ExitOK      = 0
	ExitError   = 1
	ExitChanges = 2 // with --detailed-exitcode: it worked, and something differs

	ExitInterrupted = 130 // as shells say it of programs that Ctrl-C ended
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
	if strings.HasPrefix(text, "unknown command") {
		fmt.Fprintln(w, "Run harpagon --help for the commands that there are.")
	}
	return ExitError
}

// wrongUse adds to an error about flags or arguments where their use is told.
func wrongUse(c *cobra.Command, err error) error {
	return fmt.Errorf("%w; %s --help tells how it is used", err, c.CommandPath())
}
