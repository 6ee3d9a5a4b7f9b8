package workflows

import (
	"fmt"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/harpagon/harpagon/activities"
	"github.com/harpagon/harpagon/scheduler"
)

// TypeService is the workflow type of a service.
const TypeService = "service"

// Messages of the service workflow.
const (
	UpdateApply    = "apply"    // ApplyRequest -> ChangeReply
	UpdateRescale  = "rescale"  // RescaleRequest -> ChangeReply
	UpdateRollback = "rollback" // RollbackRequest -> ChangeReply
	UpdateProfile  = "profile"  // string: the reason -> ChangeReply; measures again what has no profile on file
	UpdateDrain    = "drain"    // string: the reason -> ChangeReply
	UpdateDelete   = "delete"   // string: the reason -> ChangeReply

	QueryStatus = "status"              // -> Status
	QueryState  = activities.QueryState // -> State

	SignalMeasures       = "measures"        // autoscale.Measures
	SignalGatewayStarted = "gateway-started" // string: address, of a gateway older than the fleet's members
	SignalMissing        = "missing"         // Missing
)

// ApplyRequest replaces the spec of a service.
type ApplyRequest struct {
	Spec   scheduler.Spec
	Beside []scheduler.Spec // that are applied together with it, as scheduler.Beside names them
	Expect int              // generation that must be the current one; 0 for any, ExpectNone for none
	Reason string           // for the history; empty means "applied"
	By     string           `json:",omitempty"` // the caller, by its own account: USER@HOST

	// Plan is carried out as it is, where it is set, and not made again until something
	// changes.
	Plan *scheduler.Plan `json:",omitempty"`
}

// ExpectNone means that nothing has been applied under the name before.
const ExpectNone = -1

// RescaleRequest changes the rate that a pipeline is planned for.
type RescaleRequest struct {
	Rate   float64 // requests per second
	Expect int     // as in ApplyRequest
	Reason string
}

// RollbackRequest goes back to a declaration that served before.
type RollbackRequest struct {
	To     int // its generation; 0 for the one that served before the one in force
	Expect int // as in ApplyRequest
	Reason string
	By     string `json:",omitempty"` // as in ApplyRequest
}

// ChangeReply answers an update as soon as the change is accepted.
type ChangeReply struct {
	Generation int
	Unchanged  bool // the spec was in force already
}

// ServiceID is the workflow ID of a service. Names are unique over all kinds.
func ServiceID(kind scheduler.Kind, name string) string { return string(kind) + "/" + name }

func rescheduleID(service string, n int) string {
	return fmt.Sprintf("reschedule/%s/%d", service, n)
}

// Attribute is a search attribute that services set.
type Attribute struct {
	Name string
	Type enumspb.IndexedValueType
}

// The search attributes. A namespace must have them before a service with
// Settings.SearchAttributes starts; see Attributes.
const (
	AttributeService     = "HarpagonService"
	AttributeGeneration  = "HarpagonGeneration"
	AttributePhase       = "HarpagonPhase"
	AttributeCostPerHour = "HarpagonCostPerHour"
)

// Attributes lists the search attributes to register.
func Attributes() []Attribute {
	return []Attribute{
		{AttributeService, enumspb.INDEXED_VALUE_TYPE_KEYWORD},
		{AttributeGeneration, enumspb.INDEXED_VALUE_TYPE_INT},
		{AttributePhase, enumspb.INDEXED_VALUE_TYPE_KEYWORD},
		{AttributeCostPerHour, enumspb.INDEXED_VALUE_TYPE_DOUBLE},
	}
}

func searchAttributes(service string, generation int, phase Phase, cost float64) []temporal.SearchAttributeUpdate {
	return []temporal.SearchAttributeUpdate{
		temporal.NewSearchAttributeKeyKeyword(AttributeService).ValueSet(service),
		temporal.NewSearchAttributeKeyInt64(AttributeGeneration).ValueSet(int64(generation)),
		temporal.NewSearchAttributeKeyKeyword(AttributePhase).ValueSet(string(phase)),
		temporal.NewSearchAttributeKeyFloat64(AttributeCostPerHour).ValueSet(cost),
	}
}

// fleetOptions are the options of activities that call the fleet's workflow, which takes
// milliseconds: a call lost with the control role that made it is soon repeated.
func fleetOptions(ctx workflow.Context, summary string) workflow.Context {
	return workflow.WithStartToCloseTimeout(shortOptions(ctx, summary), 20*time.Second)
}

// shortOptions are the options of activities that only compute.
func shortOptions(ctx workflow.Context, summary string) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:           activities.ControlQueue,
		StartToCloseTimeout: time.Minute,
		RetryPolicy:         &temporal.RetryPolicy{InitialInterval: time.Second, MaximumInterval: 10 * time.Second, MaximumAttempts: 10},
		Summary:             summary,
	})
}

const (
	// planTimeout bounds the search for a plan; the best that was found by then
	// is taken.
	planTimeout = 10 * time.Minute

	// planSilence is how long a search may go without heartbeats before another worker
	// makes it: it uses the whole processor, so that heartbeats may have to wait.
	planSilence = 30 * time.Second
)

// planOptions are those of a search for a plan.
func planOptions(ctx workflow.Context, summary string) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:           activities.ControlQueue,
		StartToCloseTimeout: planTimeout,
		HeartbeatTimeout:    planSilence,
		RetryPolicy:         &temporal.RetryPolicy{InitialInterval: time.Second, MaximumAttempts: 3},
		Summary:             summary,
	})
}
