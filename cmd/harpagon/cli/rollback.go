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
		Long: `Makes an earlier declaration of the service the one in force: the one that served
before the one that serves, or that of --to; after a change that could not be carried
out, the one that serves still. Its models are those of then, by their
digests. It is planned for the devices that are there now; no request is lost on the
way. A second rollback goes forth again.

harpagon history lists the declarations that are kept: the last five. Generations in
between that followed a measured rate are no declarations.`,
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
