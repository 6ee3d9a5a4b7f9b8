package gateway

import (
	"context"
	"time"

	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// TraceInfo is how one request went.
type TraceInfo struct {
	RequestInfo
	Context        context.Context // that came with the request
	Arrived, Ended time.Time
	Budget         time.Duration // from arrival to deadline; 0 when there is none

	gateway *Gateway
	request *Request // nil when it was refused
}

// StepInfo is one run of a module for a request. Of a step that was not completed only
// the first three are known.
type StepInfo struct {
	Module       string
	Completed    bool
	Begin        time.Time // the end of what it waited for, or the arrival
	End          time.Time // its outputs were back
	Started      time.Time // its batch was handed to the executor
	Critical     bool      // on the request's critical path: such steps follow each other without a gap
	Queue, Wait  time.Duration
	Compute      time.Duration
	Size         int // of the batch
	Attempts     int // how often it was queued anew
	Executor     string
	Host, Device string
	Batch        any // the same for all that ran in one batch; nil where it is not known
}

// Steps are the runs of modules for the request, in the order in which they became
// ready. Call it while Traced runs.
func (t *TraceInfo) Steps() []StepInfo {
	if t.request == nil {
		return nil
	}
	runs := t.request.Steps()
	steps := make([]StepInfo, len(runs))
	at := func(d dispatch.Time) time.Time { return t.gateway.epoch.Add(d) }
	for i, r := range runs {
		s := &steps[i]
		s.Module, s.Completed, s.Begin = r.Module, r.Completed, at(r.Begin)
		if !r.Completed {
			continue
		}
		s.Critical, s.End, s.Started = r.Critical, at(r.Ended), at(r.Began)
		s.Queue, s.Wait, s.Compute, s.Size, s.Attempts = r.Queue, r.Wait, r.Compute, r.Size, r.Attempts
		if b := r.Batch; b != nil {
			s.Batch, s.Executor = b, b.Executor.Name
			if e, ok := b.Executor.Holder.(*executor); ok {
				s.Host, s.Device = e.hello.Host, e.hello.Device
			}
		}
	}
	return steps
}

// traced tells of a request that is over; r is nil where it was refused.
func (g *Gateway) traced(ctx context.Context, info RequestInfo, r *Request, arrival, now dispatch.Time) {
	o := g.options.Observer.Traced
	if o == nil {
		return
	}
	t := TraceInfo{RequestInfo: info, Context: ctx, Arrived: g.epoch.Add(arrival), Ended: g.epoch.Add(now), gateway: g, request: r}
	if r != nil && r.Deadline != 0 {
		t.Budget = r.Deadline - r.Arrival
	}
	o(t)
}
