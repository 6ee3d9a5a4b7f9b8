package gateway

import (
	"hash/maphash"

	"github.com/harpagon/harpagon/dispatcher"
	"github.com/harpagon/harpagon/executors/serverless"
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/attach"
)

// The executor of a group of a function is not attached: every batch is a call of
// its own to the provider.

// caller makes the executor of a group.
func (g *Gateway) caller(f *function, group int, name string, t *serverless.Target) *executor {
	e := &executor{gateway: g, function: f, target: t}
	e.hello = attach.Hello{Executor: t.URL, Pipeline: f.deployment.Function.Name, Module: name, Hardware: name, Concurrency: 1}
	e.registration = g.queue.NewCaller(t.URL, name, group, e)
	return e
}

// callers are the executors of a function as the dispatcher knows them; of a nil
// function none.
func (f *function) callers() (all []*dispatcher.Executor) {
	if f != nil {
		for _, e := range f.executors {
			all = append(all, e.registration)
		}
	}
	return all
}

// formOf is a hash of what decides whether tensors can go in one call: requests of
// equal names, datatypes and shapes have the same.
func (g *Gateway) formOf(inputs []wire.NamedTensor) uint64 {
	var h maphash.Hash
	h.SetSeed(g.forms)
	for i := range inputs {
		t := &inputs[i]
		_, _ = h.WriteString(t.Name)
		_ = h.WriteByte(0)
		_, _ = h.WriteString(string(t.Datatype))
		for _, n := range t.Shape {
			maphash.WriteComparable(&h, n)
		}
		_ = h.WriteByte(0)
	}
	return h.Sum64()
}

// call sends a batch to the provider and waits for the answers. No lock may be held.
func (e *executor) call(b *dispatcher.Batch) {
	g := e.gateway
	defer g.queue.CallOver()
	g.batchBegin(b)
	batch := serverless.Batch{Items: make([][]wire.NamedTensor, len(b.Items))}
	latest := dispatch.Time(0)
	for i, it := range b.Items {
		r := itemOf(it).Of
		e.function.take(r)
		batch.Items[i] = functionOf(r).inputs
		latest = max(latest, r.Deadline)
	}
	batch.Latest = g.epoch.Add(latest)
	out := e.target.Call(g.life, batch)
	report := dispatcher.Report{Waited: out.Init, Compute: out.Run}
	if out.Err != nil {
		report.Failed = len(b.Items)
	}
	e.function.count(e.registration.Group(), len(b.Items), &out)
	now := g.queue.Done(b, report)
	if o := g.options.Observer.CallEnd; o != nil {
		o(CallInfo{
			Function: e.hello.Pipeline, Group: e.hello.Module, Requests: len(b.Items), Kind: string(out.Kind), Cold: out.Cold,
			Again: out.Attempts - 1, Ran: out.Ran, Billed: out.Billed, Cost: out.Cost,
		})
	}
	g.batchEnd(b, now, out.Init, out.Run, out.Err)
	for i, it := range b.Items {
		it := itemOf(it)
		if out.Err != nil {
			it.Of.Fail(staged(out.Err, e.hello.Module, it, now))
			continue
		}
		keep(it.Of, out.Items[i], out.Cold)
		it.Of.Complete(it, b, wire.Tensors(out.Items[i]))
	}
}

// take notes that a request runs by this generation of the function, which may be a
// later one than it came to, unless the request is over.
func (f *function) take(r *Request) {
	if !r.Unless() {
		return
	}
	defer r.Unlock()
	own := functionOf(r)
	own.generation = f.deployment.Generation
	if to, err := f.application(own.app.name); err == nil && to != own.app {
		own.app.stats.HandOver(&to.stats)
		own.app = to
	}
}

// keep notes the answer of a call, unless the request is over.
func keep(r *Request, answer []wire.NamedTensor, cold bool) {
	if !r.Unless() {
		return
	}
	defer r.Unlock()
	f := functionOf(r)
	f.answer, f.cold = answer, cold
}

// count counts a call of a group that has ended.
func (f *function) count(group, requests int, out *serverless.Outcome) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case out.Kind == serverless.Unreachable:
		f.unreachable = out.Err.Reason
	case out.Ran:
		f.unreachable = ""
	}
	g := &f.groups[group]
	g.Requests += int64(requests)
	g.Retries += int64(max(0, out.Attempts-1))
	if out.Ran {
		g.Calls++
		g.Billed += out.Billed
		g.Spent += out.Cost
		if out.Told {
			g.Told++
			g.Charged += out.Charged
			g.Declared += out.Cost
		}
		if out.Estimated {
			g.Estimated++
		}
	}
	if out.Cold {
		g.ColdStarts++
	}
	if out.Err != nil {
		g.Errors[string(out.Kind)]++
	}
}

const stopping = "the gateway is stopping; ask another, or again when it is back"
