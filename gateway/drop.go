package gateway

import (
	"fmt"
	"time"

	"github.com/harpagon/harpagon/dispatcher"
	"github.com/harpagon/harpagon/pipelines/quantity"
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
	err := refusal(g.now(), it, why)
	if cause := g.failures.since(it.Of.Arrival, moduleKey{it.Of.Graph.Deployment.Name(), err.Stage}); cause != "" {
		err.Reason += "; meanwhile this failed there: " + cause
	}
	it.Of.Fail(err)
}

// refusal tells the caller why an item was given up.
func refusal(now dispatch.Time, it *Item, why dispatcher.Drop) *wire.Error {
	e := timed(it.Of, now, wire.CodeUnavailable, "")
	e.Stage = stageOf(it)
	switch why {
	case dispatcher.Full:
		e.Code, e.Reason = wire.CodeOverloaded, "the queue is full; send fewer requests or scale the pipeline up"
	case dispatcher.Lost:
		e.Reason = "its executor was lost and there is no time left for another; the pipeline's status says why it was"
	case dispatcher.NoExecutor:
		e.Reason = "no executor is attached; look at the pipeline's status for why"
	case dispatcher.CallsFull:
		e.Code, e.Reason = wire.CodeOverloaded, "as many calls run as the provider allows, and the deadline can no longer be met; send fewer requests, or raise the provider's concurrency"
	case dispatcher.LostTwice:
		e.Reason = "two executors were lost while they held the request, which may be more than their engine bears; the pipeline's status says why they were"
	case dispatcher.Unserved:
		e.Stage, e.Reason = "", "its application is not served any more; list what is with GET /v2/models"
	case dispatcher.Refused:
		e = overloaded(e.Budget)
	case dispatcher.Stopping:
		e.Stage, e.Reason = "", stopping
	default:
		e.Code, e.Reason = wire.CodeDeadline, tooLate(now, it)
	}
	return e
}

// tooLate tells a queue that is too long from modules above that took too long.
func tooLate(now dispatch.Time, it *Item) string {
	waited, before := now-it.Ready, it.Ready-it.Of.Arrival
	where := fmt.Sprintf("it waited %s for a device here", quantity.Duration(waited))
	if before > waited {
		where = fmt.Sprintf("it was here %s after it came, and waited %s for a device", quantity.Duration(before), quantity.Duration(waited))
	}
	return "the deadline can no longer be met: " + where + "; send fewer requests, scale the pipeline up, or give it longer"
}

// stageOf is the name under which the item's module is reported: of a function, that
// of the group.
func stageOf(it *Item) string {
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
	if err != nil {
		it := itemOf(b.Items[0])
		g.failures.note(now, moduleKey{it.Of.Graph.Deployment.Name(), stageOf(it)}, err)
	}
	if o := g.options.Observer.BatchEnd; o != nil {
		i := batchInfo(b)
		i.Waited, i.Compute, i.Elapsed, i.Err = waited, compute, now-b.At, err
		o(i)
	}
}

func batchInfo(b *dispatcher.Batch) BatchInfo {
	return BatchInfo{Pipeline: itemOf(b.Items[0]).Of.Graph.Deployment.Name(), Module: stageOf(itemOf(b.Items[0])), Executor: b.Executor.Name, Size: b.Rows}
}
