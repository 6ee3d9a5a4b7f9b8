package workflows

import (
	"github.com/harpagon/harpagon/workflows/fleet"
	"github.com/harpagon/harpagon/workflows/profiling"
	"github.com/harpagon/harpagon/workflows/rescheduling"
	"github.com/harpagon/harpagon/workflows/running"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// Register registers every workflow under its type name.
func Register(w worker.WorkflowRegistry) {
	for name, f := range map[string]any{
		TypeService: Service, profiling.TypeProfile: profiling.Profile, TypeReschedule: rescheduling.Reschedule,
		running.TypeExecutor: running.Executor, fleet.TypeFleet: fleet.Fleet, fleet.TypeHost: fleet.Host, fleet.TypeMember: fleet.Member,
	} {
		w.RegisterWorkflowWithOptions(f, workflow.RegisterOptions{Name: name})
	}
}
