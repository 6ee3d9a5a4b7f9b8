package world

import (
	"strings"

	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/workflow"
)

// The environment finds no activity of a workflow in whose ID there is a #, which those of
// executors have from the names of slots. In worlds these run with another sign in its place,
// which they do not see.
const (
	slotSign = "#"
	idSign   = "+"
)

func envID(id string) string { return strings.ReplaceAll(id, slotSign, idSign) }

// signs has workflows run so.
type signs struct {
	interceptor.WorkerInterceptorBase
}

func (*signs) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	return &signsIn{interceptor.WorkflowInboundInterceptorBase{Next: next}}
}

type signsIn struct {
	interceptor.WorkflowInboundInterceptorBase
}

func (s *signsIn) Init(next interceptor.WorkflowOutboundInterceptor) error {
	return s.Next.Init(&signsOut{interceptor.WorkflowOutboundInterceptorBase{Next: next}})
}

type signsOut struct {
	interceptor.WorkflowOutboundInterceptorBase
}

func (s *signsOut) ExecuteChildWorkflow(ctx workflow.Context, name string, args ...any) workflow.ChildWorkflowFuture {
	options := workflow.GetChildWorkflowOptions(ctx)
	options.WorkflowID = envID(options.WorkflowID)
	return s.Next.ExecuteChildWorkflow(workflow.WithChildOptions(ctx, options), name, args...)
}

func (s *signsOut) GetInfo(ctx workflow.Context) *workflow.Info {
	info := *s.Next.GetInfo(ctx)
	info.WorkflowExecution.ID = strings.ReplaceAll(info.WorkflowExecution.ID, idSign, slotSign)
	return &info
}

func (s *signsOut) SignalExternalWorkflow(ctx workflow.Context, id, run, name string, arg any) workflow.Future {
	return s.Next.SignalExternalWorkflow(ctx, envID(id), run, name, arg)
}

func (s *signsOut) RequestCancelExternalWorkflow(ctx workflow.Context, id, run string) workflow.Future {
	return s.Next.RequestCancelExternalWorkflow(ctx, envID(id), run)
}
