package serverless

import (
	"fmt"
	"slices"
	"strings"

	"github.com/harpagon/harpagon/executors/invoke"
	"github.com/harpagon/harpagon/gateway"
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/wire"
)

// call is one invocation.
type call struct {
	generation *generation
	group      int32
	requests   []*request
	at         dispatch.Time
}

// start makes the call of a batch. Requests whose tensors do not fit together
// go in calls of their own.
func (f *function) start(now dispatch.Time, a *dispatch.Action) []*call {
	var calls []*call
	group := &f.current.groups[a.Group]
	for _, id := range a.Batch {
		r := f.waiting[id]
		delete(f.waiting, id)
		r.version = f.current.deployment.Generation
		r.stage = wire.Stage{Module: group.Name, Items: 1, Critical: true, Wait: now - r.arrival}
		i := slices.IndexFunc(calls, func(c *call) bool { return alike(c.requests[0].inputs, r.inputs) })
		if i < 0 {
			i, calls = len(calls), append(calls, &call{generation: f.current, group: a.Group, at: now})
		}
		calls[i].requests = append(calls[i].requests, r)
	}
	f.running += len(calls)
	return calls
}

func alike(a, b []wire.NamedTensor) bool {
	return slices.EqualFunc(a, b, func(x, y wire.NamedTensor) bool {
		return x.Name == y.Name && x.Datatype == y.Datatype && slices.Equal(x.Shape, y.Shape)
	})
}

// launch sends calls; no lock may be held.
func (f *function) launch(calls []*call) {
	for _, c := range calls {
		f.server.calls.Go(func() { f.run(c) })
	}
}

func (f *function) run(c *call) {
	info := gateway.BatchInfo{
		Pipeline: f.name, Module: c.generation.groups[c.group].Name, Executor: c.generation.targets[c.group].URL, Size: len(c.requests),
	}
	observer := &f.server.options.Observer
	if observer.BatchBegin != nil {
		observer.BatchBegin(info)
	}
	b := invoke.Batch{Items: make([][]wire.NamedTensor, len(c.requests))}
	latest := dispatch.Time(0)
	for i, r := range c.requests {
		b.Items[i] = r.inputs
		latest = max(latest, r.deadline)
	}
	b.Latest = f.server.epoch.Add(latest)
	out := c.generation.targets[c.group].Call(f.server.life, b)
	f.land(c, out)
	if observer.CallEnd != nil {
		observer.CallEnd(gateway.CallInfo{
			Function: f.name, Group: info.Module, Requests: len(c.requests), Kind: string(out.Kind), Cold: out.Cold,
			Again: out.Attempts - 1, Ran: out.Ran, Billed: out.Billed, Cost: out.Cost,
		})
	}
	if observer.BatchEnd != nil {
		info.Waited, info.Compute, info.Elapsed, info.Err = out.Init, out.Run, out.Elapsed, out.Err
		observer.BatchEnd(info)
	}
}

// land counts a call that has ended, ends its requests, and lets the next one
// run.
func (f *function) land(c *call, out invoke.Outcome) {
	f.mu.Lock()
	now := f.server.now()
	f.running--
	count(c, out)
	switch {
	case out.Kind == invoke.Unreachable:
		f.unreachable = out.Err.Reason
	case out.Ran:
		f.unreachable = ""
	}
	for i, r := range c.requests {
		r.stage.Batch, r.stage.Queue, r.stage.Compute = len(c.requests), out.Init, min(out.Run, now-c.at-out.Init)
		if out.Err != nil {
			e := *out.Err
			e.Stage, e.Budget, e.Elapsed = r.stage.Module, r.deadline-r.arrival, now-r.arrival
			f.settle(now, r, nil, &e)
			continue
		}
		if f.settle(now, r, out.Items[i], nil); out.Cold && r.outcome == gateway.Late {
			r.app.counts.LateCold++
		}
	}
	var calls []*call
	if !f.closed {
		calls = f.admitCalls(now)
	}
	f.mu.Unlock()
	f.launch(calls)
}

func count(c *call, out invoke.Outcome) {
	g := &c.generation.groups[c.group]
	g.Requests += int64(len(c.requests))
	g.Retries += int64(max(0, out.Attempts-1))
	if out.Ran {
		g.Calls++
		g.Billed += out.Billed
		g.Spent += out.Cost
	}
	if out.Cold {
		g.ColdStarts++
	}
	if out.Ran && out.Estimated {
		g.Estimated++
	}
	if out.Err != nil {
		g.Errors[string(out.Kind)]++
	}
}

// names describe the groups of a plan: the size, and the applications where two
// groups have the same.
func names(sizes []string, apps [][]string) []string {
	all := make([]string, len(sizes))
	for i, size := range sizes {
		all[i] = size
		if n := len(slices.DeleteFunc(slices.Clone(sizes), func(s string) bool { return s != size })); n > 1 {
			all[i] = fmt.Sprintf("%s (%s)", size, strings.Join(apps[i], ", "))
		}
	}
	return all
}
