package gateway

import (
	"time"

	"github.com/harpagon/harpagon/dispatcher"
	"github.com/harpagon/harpagon/gateway/graph"
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/wire"
)

// Drop ends the request of an item that was given up; see dispatcher.Gateway.
func (g *Gateway) Drop(dropped *dispatcher.Item, why dispatcher.Drop) {
	it := itemOf(dropped)
	if o := g.options.Observer.Dropped; o != nil && why.Word() != "" {
		o(DropInfo{Pipeline: it.Of.Graph.Deployment.Name(), Module: stageOf(it), Reason: why.Word()})
	}
	if why == dispatcher.Refused && it.Of.Unless() {
		it.Of.Refused = true
		it.Of.Unlock()
	}
	it.Of.Fail(refusal(g.now(), it, why))
}

// refusal tells the caller why an item was given up.
func refusal(now dispatch.Time, it *graph.Item, why dispatcher.Drop) *wire.Error {
	e := timed(it.Of, now, wire.CodeUnavailable, "")
	e.Stage = stageOf(it)
	switch why {
	case dispatcher.Full:
		e.Code, e.Reason = wire.CodeOverloaded, "the queue is full; send fewer requests or scale the pipeline up"
	case dispatcher.Lost:
		e.Reason = "its executor was lost and there is no time left for another"
	case dispatcher.NoExecutor:
		e.Reason = "no executor is attached"
	case dispatcher.CallsFull:
		e.Code, e.Reason = wire.CodeOverloaded, "as many calls run as the provider allows, and the deadline can no longer be met"
	case dispatcher.LostTwice:
		e.Reason = "two executors were lost while they held the request"
	case dispatcher.Unserved:
		e.Stage, e.Reason = "", "its application is not served any more"
	case dispatcher.Refused:
		e = overloaded(e.Budget)
	case dispatcher.Stopping:
		e.Stage, e.Reason = "", stopping
	default:
		e.Code, e.Reason = wire.CodeDeadline, "the deadline can no longer be met"
	}
	return e
}

// stageOf is the name under which the item's module is reported: of a function, that
// of the group.
func stageOf(it *graph.Item) string {
	if f := functionOf(it.Of); f != nil {
		return f.app.stage
	}
	return it.Node.Name
}

func (g *Gateway) batchBegin(b *dispatcher.Batch) {
	if o := g.options.Observer.BatchBegin; o != nil {
		o(batchInfo(b))
	}
}

func (g *Gateway) batchEnd(b *dispatcher.Batch, now dispatch.Time, waited, compute time.Duration, err *wire.Error) {
	if o := g.options.Observer.BatchEnd; o != nil {
		i := batchInfo(b)
		i.Waited, i.Compute, i.Elapsed, i.Err = waited, compute, now-b.At, err
		o(i)
	}
}

func batchInfo(b *dispatcher.Batch) BatchInfo {
	return BatchInfo{Pipeline: b.Service(), Module: stageOf(itemOf(b.Items[0])), Executor: b.Executor.Name, Size: b.Rows}
}
