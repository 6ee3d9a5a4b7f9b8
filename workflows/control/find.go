package control

import (
	"context"
	"errors"
	"fmt"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/harpagon/harpagon/activities"
	"github.com/harpagon/harpagon/scheduler"
	"github.com/harpagon/harpagon/workflows"
)

// find tells the kind of the service of that name that runs; the error is
// ErrNotFound when none does. What was found once is remembered.
func (c *Control) find(ctx context.Context, name string) (scheduler.Kind, error) {
	c.mu.Lock()
	kind, known := c.kinds[name]
	c.mu.Unlock()
	if known {
		return kind, nil
	}
	for _, kind := range []scheduler.Kind{scheduler.KindPipeline, scheduler.KindPool, scheduler.KindFunction, scheduler.KindCluster} {
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

// runs says whether a service workflow of that ID runs, after it has been started again where
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
