package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/harpagon/harpagon/workflows"
	"github.com/harpagon/harpagon/workflows/control"
)

// newRollbackCommand makes harpagon rollback.
func newRollbackCommand(d *Deps) *cobra.Command {
	var f applyFlags
	var to int
	c := &cobra.Command{
		Use:   "rollback NAME",
		Short: "Go back to what served before",
		Long: `Puts an earlier declaration of the service in force: the one that served before, or
that of --to. After a change that could not be carried out, it is the one that still
serves. Its models are those of then, by their digests. It is planned for the devices
that are there now, and no request is lost. A second rollback undoes the first.

harpagon history lists the declarations that are kept: the last five. Generations that
only followed a measured rate are not among them.`,
		Example: `  harpagon rollback traffic
  harpagon rollback traffic --to 3 --reason "the new detector misses trucks"`,
		Args: cobra.ExactArgs(1),
	}
	at := newTemporalAt(d, c)
	c.Flags().IntVar(&to, "to", 0, "`generation` to go back to; 0 is the one before")
	f.register(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		return at.With(c.Context(), func(commands *control.Control) error {
			return f.rollBack(c.Context(), d, commands, args[0], to)
		})
	}
	return c
}

// accepted is how long a service may take to take a change on.
const accepted = time.Minute

func (f *applyFlags) rollBack(ctx context.Context, d *Deps, commands *control.Control, name string, to int) error {
	asking, cancel := context.WithTimeout(ctx, accepted)
	defer cancel()
	status, err := commands.Status(asking, name)
	if err != nil {
		return err
	}
	expect := status.Generation
	if status.Requested != nil {
		expect = status.Requested.Generation
	}
	reply, err := commands.Rollback(asking, name, workflows.RollbackRequest{To: to, Expect: expect, Reason: f.reason})
	if err != nil {
		return err
	}
	one := newApplied(status.Kind, name, reply)
	if err := f.follow(ctx, d, commands, name, &one); err != nil {
		return err
	}
	return f.finish(d, []applied{one}, false)
}
