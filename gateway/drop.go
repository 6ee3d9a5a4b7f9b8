package gateway

import (
	"fmt"
	"sync"
	"time"

	"github.com/harpagon/harpagon/dispatcher"
	"github.com/harpagon/harpagon/pipelines/quantity"
	"github.com/harpagon/harpagon/scheduler/autoscale"
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/wire"
)

// Drop ends the request of an item that was given up; see dispatcher.Gateway.
func (g *Gateway) Drop(dropped *dispatcher.Item, why dispatcher.Drop) {
	it := itemOf(dropped)
	if o := g.options.Observer.Dropped; o != nil && why.Cause() != "" {
		o(DropInfo{Pipeline: it.Of.Graph.Deployment.Name(), Module: stageOf(it), Reason: why.Cause()})
	}
	if why == dispatcher.Refused && it.Of.LockUnlessOver() {
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

// failureKept is how long a failure of a module is told of.
const failureKept = time.Minute

// failures are what batches of modules lately failed of, so that whoever asks a minute
// later, or waited in vain meanwhile, is told the cause.
type failures struct {
	mu   sync.Mutex
	last map[moduleKey]failure
}

type moduleKey struct{ pipeline, module string }

type failure struct {
	at  dispatch.Time
	why string
}

// note remembers what a batch failed of. What callers got wrong, or gave up, is no
// failure of the module.
func (f *failures) note(now dispatch.Time, key moduleKey, err *wire.Error) {
	if err == nil || err.Code == wire.CodeInvalid || err.Code == wire.CodeDeadline || err.Code == wire.CodeCanceled {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for k, old := range f.last {
		if now-old.at > failureKept {
			delete(f.last, k)
		}
	}
	if f.last == nil {
		f.last = make(map[moduleKey]failure)
	}
	f.last[key] = failure{now, err.Reason}
}

// since is what a module last failed of at some time or later; empty for nothing.
func (f *failures) since(then dispatch.Time, key moduleKey) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if last, ok := f.last[key]; ok && last.at >= then {
		return last.why
	}
	return ""
}

// tell adds to measures what modules lately failed of.
func (f *failures) tell(now dispatch.Time, pipeline string, modules []autoscale.ModuleMeasures) {
	for i := range modules {
		modules[i].Failure = f.since(now-failureKept, moduleKey{pipeline, modules[i].Name})
	}
}
