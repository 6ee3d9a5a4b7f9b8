package workflows

import (
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// Register registers every workflow under its type name.
func Register(w worker.WorkflowRegistry) {
	for name, f := range map[string]any{
		TypeService: Service, TypeProfile: Profile, TypeReschedule: Reschedule,
		TypeExecutor: Executor, TypeFleet: Fleet, TypeHost: Host, TypeMember: Member,
	} {
		w.RegisterWorkflowWithOptions(f, workflow.RegisterOptions{Name: name})
	}
}
