package cli

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/harpagon/harpagon/sdk/local/system"
	"github.com/harpagon/harpagon/workflows/control"
)

// newDownCommand makes harpagon down.
func newDownCommand(d *Deps) *cobra.Command {
	var wait time.Duration
	c := &cobra.Command{
		Use:   "down [NAME...]",
		Short: "Stop what up started, or delete services",
		Long: `Without a name it stops the system that runs on the state folder: requests under
way finish, and everything is kept for the next harpagon up. With names it deletes
these services, and the system goes on.`,
		Example: `  harpagon down
  harpagon down traffic`,
	}
	at := newTemporalAt(d, c)
	c.Flags().DurationVar(&wait, "wait", time.Minute, "how long to wait for the end")
	c.RunE = func(c *cobra.Command, args []string) error {
		ctx, cancel := context.WithTimeout(c.Context(), wait)
		defer cancel()
		if len(args) == 0 {
			return stopProcess(ctx, d, system.Folder(at.State))
		}
		return at.With(ctx, func(commands *control.Control) error {
			for _, name := range args {
				kind, err := commands.Delete(ctx, name, "deleted with harpagon down")
				if err != nil {
					return err
				}
				fmt.Fprintf(d.Stdout, "%s %s is deleted\n", kind, name)
			}
			return nil
		})
	}
	return c
}

// stopProcess signals the process of the state folder to end, and waits until it has.
func stopProcess(ctx context.Context, d *Deps, folder system.Folder) error {
	e, err := folder.Endpoints()
	if err != nil {
		return err
	}
	if err := syscall.Kill(e.PID, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("stopping process %d: %w", e.PID, err)
	}
	for folder.Running() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("process %d has not ended yet; it may still be finishing requests: look again, or wait longer with --wait", e.PID)
		case <-time.After(50 * time.Millisecond):
		}
	}
	fmt.Fprintf(d.Stdout, "process %d has stopped; harpagon up goes on where it was\n", e.PID)
	return nil
}
