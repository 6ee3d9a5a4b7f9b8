package control

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"github.com/harpagon/harpagon/internal/osutil"
)

// patience is how long a server is asked again that has not answered within the time that
// its client gives a call, ten seconds for most. A machine on which everything starts at once,
// or that has much else to do, may take longer; a server that is gone is given up by then.
const patience = time.Minute

// againAfter is the pause before it is asked again.
const againAfter = 100 * time.Millisecond

// patiently asks what may be asked twice until it is answered in time, ctx ends, or patience
// is over, or something is known to be in the way.
func (c *Control) patiently(ctx context.Context, ask func() error) error {
	for began := time.Now(); ; {
		err := ask()
		if late(err) {
			if why := c.hindrance(); why != nil {
				return why
			}
		}
		if !late(err) || time.Since(began) >= patience || osutil.SleepTimer(ctx, againAfter) != nil {
			return err
		}
	}
}

// Explain adds to an error what may be its reason where the server has not answered in time.
func Explain(err error) error {
	if late(err) {
		return fmt.Errorf("the Temporal server does not answer in time: it is overloaded, or cannot write its state, as on a full disk; its log says which, and what serves goes on serving (%w)", err)
	}
	return err
}

// late says that an answer has not come in time; what was asked for may have been done.
func late(err error) bool {
	return errors.As(err, new(*serviceerror.DeadlineExceeded)) || errors.As(err, new(*client.WorkflowUpdateServiceTimeoutOrCanceledError))
}

func (c *Control) hindrance() error {
	if c.options.Hindrance == nil {
		return nil
	}
	return c.options.Hindrance()
}
