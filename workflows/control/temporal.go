package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/harpagon/harpagon/activities"
	"github.com/harpagon/harpagon/internal/osutil"
	"github.com/harpagon/harpagon/scheduler"
	"github.com/harpagon/harpagon/workflows"
)

// find returns the kind of the running service of that name, or ErrNotFound. What was found
// once is cached.
func (c *Control) find(ctx context.Context, name string) (scheduler.Kind, error) {
	c.mu.Lock()
	kind, known := c.kinds[name]
	c.mu.Unlock()
	if known {
		return kind, nil
	}
	for _, kind := range scheduler.Kinds() {
		runs, err := c.runs(ctx, workflows.ServiceID(kind, name))
		if err != nil {
			return "", err
		}
		if runs {
			c.remember(name, kind)
			return kind, nil
		}
	}
	return "", fmt.Errorf("%q: %w", name, ErrNotFound)
}

// runs reports whether a service workflow of that ID runs, after it has been started again where
// somebody has terminated it. One of another type is an older program's.
func (c *Control) runs(ctx context.Context, id string) (bool, error) {
	var d *workflowservice.DescribeWorkflowExecutionResponse
	err := c.patiently(ctx, func() (err error) {
		d, err = c.client.DescribeWorkflowExecution(ctx, id, "")
		return err
	})
	if notFound(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	info := d.GetWorkflowExecutionInfo()
	if name := info.GetType().GetName(); activities.Goes(info.GetStatus()) && name != workflows.TypeService {
		return false, &OldError{IDs: []string{id}}
	}
	if activities.Goes(info.GetStatus()) {
		return true, nil
	}
	return c.restored(ctx, id, d)
}

func (c *Control) remember(name string, kind scheduler.Kind) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kinds[name] = kind
}

func (c *Control) forget(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.kinds, name)
}

// with does something with the workflow of a service. A service that was known
// and has gone is looked for once more: another kind may have its name now.
func (c *Control) with(ctx context.Context, name string, do func(id string) error) error {
	for {
		c.mu.Lock()
		_, known := c.kinds[name]
		c.mu.Unlock()
		kind, err := c.find(ctx, name)
		if err != nil {
			return err
		}
		if err = do(workflows.ServiceID(kind, name)); !notFound(err) {
			return err
		}
		c.forget(name)
		if !known {
			return fmt.Errorf("%s %q: %w", kind, name, ErrNotFound)
		}
	}
}

func notFound(err error) bool { return errors.As(err, new(*serviceerror.NotFound)) }

// patience is how long calls are repeated that the server has not answered within the
// client's timeout, ten seconds for most. A busy machine, such as one on which everything
// starts at once, may take longer; a server that is gone is given up by then.
const patience = time.Minute

// againAfter is the pause before a call is repeated.
const againAfter = 100 * time.Millisecond

// patiently repeats a call that may be repeated until it is answered in time, ctx ends,
// patience is over, or there is a hindrance.
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

// late reports that an answer has not come in time; the call may have taken effect. A
// workflow is not ready while what it did last is tried again, as after a worker was
// killed.
func late(err error) bool {
	return errors.As(err, new(*serviceerror.DeadlineExceeded)) || errors.As(err, new(*serviceerror.WorkflowNotReady)) ||
		errors.As(err, new(*client.WorkflowUpdateServiceTimeoutOrCanceledError))
}

func (c *Control) hindrance() error {
	if c.options.Hindrance == nil {
		return nil
	}
	return c.options.Hindrance()
}

// OldError means that workflows of an older program run, from before there was
// one type for services of all kinds. This program cannot go on with them.
type OldError struct {
	IDs []string
}

// Error names the workflows and the way out.
func (e *OldError) Error() string {
	return fmt.Sprintf("control: workflows of an older Harpagon run here, and this one cannot go on with them: %s. "+
		"Delete its pipelines and functions with that program (harpagon down NAME), end what is left with temporal workflow terminate --workflow-id ID, "+
		"and apply the declarations again; or use another namespace", strings.Join(e.IDs, ", "))
}

// CheckOld fails with an *OldError where such workflows run.
func (c *Control) CheckOld(ctx context.Context) error {
	all, err := c.list(ctx, "WorkflowType IN ('pipeline', 'function', 'fleet', 'host', 'executor')")
	if err != nil {
		return fmt.Errorf("control: looking for workflows of an older Harpagon: %w", err)
	}
	var ids []string
	for _, e := range all {
		if e.TaskQueue == activities.OldControlQueue {
			ids = append(ids, e.Execution.WorkflowId)
		}
	}
	if slices.Sort(ids); len(ids) > 0 {
		return &OldError{IDs: ids}
	}
	return nil
}
