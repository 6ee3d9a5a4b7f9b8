package workflows

import (
	"fmt"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	enumspb "go.temporal.io/api/enums/v1"

	"github.com/harpagon/harpagon/activities"
)

// Workflow types.
const (
	TypePipeline   = "pipeline"
	TypeProfile    = "profile"
	TypeReschedule = "reschedule"
	TypeExecutor   = "executor"
	TypeFleet      = activities.FleetWorkflow
	TypeHost       = "host"
	TypeFunction   = "function"
)

// Messages of the pipeline workflow. The function workflow has apply (a
// FunctionApply), drain, delete, status (a FunctionStatus), measures (a
// functions.Measures) and gateway-started.
const (
	UpdateApply   = "apply"   // ApplyRequest -> ChangeReply
	UpdateRescale = "rescale" // RescaleRequest -> ChangeReply
	UpdateProfile = "profile" // string: the reason -> ChangeReply; measures anew what has no profile on file
	UpdateDrain   = "drain"   // string: the reason -> ChangeReply
	UpdateDelete  = "delete"  // string: the reason -> ChangeReply

	QueryStatus  = "status"  // -> Status
	QueryPlan    = "plan"    // -> plan.Plan
	QueryHistory = "history" // -> []Decision

	SignalMeasures       = "measures"        // autoscale.Measures
	SignalFleetChanged   = "fleet-changed"   // FleetChange
	SignalExecutorEnded  = "executor-ended"  // ExecutorEnded
	SignalGatewayStarted = "gateway-started" // string: the gateway's address

	signalProgress = "progress"  // Phase, from the reschedule under way
	signalHostLost = "host-lost" // to the fleet: hostLost
)

// PipelineID is the workflow ID of a pipeline.
func PipelineID(name string) string { return "pipeline/" + name }

// FunctionID is the workflow ID of a function.
func FunctionID(name string) string { return "function/" + name }

// HostID is the workflow ID of a host.
func HostID(name string) string { return "host/" + name }

func rescheduleID(pipeline string, n int) string {
	return fmt.Sprintf("reschedule/%s/%d", pipeline, n)
}

func profileID(pipeline string, n int) string {
	return fmt.Sprintf("profile/%s/%d", pipeline, n)
}

// executorID is unique for every start of an executor, because an executor of
// the same name may still be draining.
func executorID(executor string, n int) string {
	return fmt.Sprintf("executor/%s/%d", executor, n)
}

// Attribute is a search attribute that pipelines set.
type Attribute struct {
	Name string
	Type enumspb.IndexedValueType
}

// The search attributes. A namespace must know them before a pipeline with
// Settings.SearchAttributes starts; see Attributes.
const (
	AttributePipeline    = "HarpagonPipeline"
	AttributeGeneration  = "HarpagonGeneration"
	AttributePhase       = "HarpagonPhase"
	AttributeCostPerHour = "HarpagonCostPerHour"
)

// Attributes lists the search attributes to register.
func Attributes() []Attribute {
	return []Attribute{
		{AttributePipeline, enumspb.INDEXED_VALUE_TYPE_KEYWORD},
		{AttributeGeneration, enumspb.INDEXED_VALUE_TYPE_INT},
		{AttributePhase, enumspb.INDEXED_VALUE_TYPE_KEYWORD},
		{AttributeCostPerHour, enumspb.INDEXED_VALUE_TYPE_DOUBLE},
	}
}

func searchAttributes(pipeline string, generation int, phase Phase, cost float64) []temporal.SearchAttributeUpdate {
	return []temporal.SearchAttributeUpdate{
		temporal.NewSearchAttributeKeyKeyword(AttributePipeline).ValueSet(pipeline),
		temporal.NewSearchAttributeKeyInt64(AttributeGeneration).ValueSet(int64(generation)),
		temporal.NewSearchAttributeKeyKeyword(AttributePhase).ValueSet(string(phase)),
		temporal.NewSearchAttributeKeyFloat64(AttributeCostPerHour).ValueSet(cost),
	}
}

// Register registers every workflow under its type name.
func Register(w worker.WorkflowRegistry) {
	for name, f := range map[string]any{
		TypePipeline: Pipeline, TypeProfile: Profile, TypeReschedule: Reschedule,
		TypeExecutor: Executor, TypeFleet: Fleet, TypeHost: Host, TypeFunction: Function,
	} {
		w.RegisterWorkflowWithOptions(f, workflow.RegisterOptions{Name: name})
	}
}
