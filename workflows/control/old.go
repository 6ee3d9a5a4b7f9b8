package control

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/harpagon/harpagon/activities"
)

// OldError says that workflows of an older program run, from before there was
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
