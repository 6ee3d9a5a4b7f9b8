package serverless

import (
	"strings"
	"sync"
	"time"

	"github.com/harpagon/harpagon/executors/invoke"
	"github.com/harpagon/harpagon/gateway"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/autoscale"
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/functions"
	"github.com/harpagon/harpagon/wire"
)

// function drives the policy of one function. It outlives its generations.
type function struct {
	server *Server
	name   string

	mu          sync.Mutex
	current     *generation
	policy      dispatch.Policy
	doors       []door // by group
	running     int    // calls, of all generations
	waiting     map[dispatch.RequestID]*request
	lastID      dispatch.RequestID
	inFlight    int64
	totals      [gateway.Invalid + 1]int64
	timer       *time.Timer
	actions     []dispatch.Action
	unreachable string // why the last call could not be made
	closed      bool
}

// door is how a group's executor stands with the policy.
type door uint8

const (
	unannounced door = iota // the policy does not know of it
	open
	shut // a batch went through, and no more calls may run
)

// generation is one plan in force.
type generation struct {
	deployment functions.Deployment
	targets    []*invoke.Target
	inputs     []pipelines.Port // empty where nobody knows
	outputs    []pipelines.Port
	apps       []*application // by class
	groups     []functions.GroupMeasures
	limit      int // calls at once
}

// app of that name; nil where there is none, or where none is named and there
// are several.
func (g *generation) app(name string) *application {
	if name == "" && len(g.apps) == 1 {
		return g.apps[0]
	}
	for _, a := range g.apps {
		if a.name == name {
			return a
		}
	}
	return nil
}

func (g *generation) noApplication(function, name string) *wire.Error {
	var all []string
	for _, a := range g.apps {
		all = append(all, function+"/"+a.name)
	}
	if name == "" {
		return wire.Errorf(wire.CodeInvalid, "", "function %q has several applications, each with an objective of its own; ask as one of %s", function, strings.Join(all, ", "))
	}
	return wire.Errorf(wire.CodeNotFound, "", "function %q has no application %q; there is %s", function, name, strings.Join(all, ", "))
}

// step reports an event to the policy and carries out its actions. It returns
// the calls to launch once the lock is released. f.mu is held.
func (f *function) step(now dispatch.Time, ev dispatch.Event) []*call {
	var calls []*call
	var used []int32
	f.actions = f.policy.Step(now, ev, f.actions[:0])
	for i := range f.actions {
		switch a := &f.actions[i]; a.Act {
		case dispatch.SetTimer:
			f.arm(a.At - now)
		case dispatch.Drop:
			f.drop(now, a)
		case dispatch.Start:
			calls = append(calls, f.start(now, a)...)
			used = append(used, a.Group)
		}
	}
	for _, group := range used {
		f.doors[group] = shut
	}
	return append(calls, f.admitCalls(now)...)
}

// admitCalls opens doors while another call may run.
func (f *function) admitCalls(now dispatch.Time) []*call {
	var calls []*call
	for i := range f.doors {
		if f.doors[i] == open || f.running >= f.current.limit {
			continue
		}
		ev := dispatch.Event{Kind: dispatch.ExecutorFree, Executor: dispatch.ExecutorID(i), Group: int32(i)}
		if f.doors[i] == unannounced {
			ev.Kind = dispatch.ExecutorUp
		}
		f.doors[i] = open
		calls = append(calls, f.step(now, ev)...)
	}
	return calls
}

func (f *function) arm(d time.Duration) {
	if f.timer == nil {
		f.timer = time.AfterFunc(d, f.tick)
		return
	}
	f.timer.Reset(d)
}

func (f *function) tick() {
	f.mu.Lock()
	var calls []*call
	if !f.closed {
		calls = f.step(f.server.now(), dispatch.Event{Kind: dispatch.Timer})
	}
	f.mu.Unlock()
	f.launch(calls)
}

func (f *function) drop(now dispatch.Time, a *dispatch.Action) {
	r := f.waiting[a.Request]
	if r == nil {
		return
	}
	code, reason, why := wire.CodeDeadline, "the deadline can no longer be met", autoscale.DropLate
	switch {
	case a.Reason == dispatch.Full:
		why = autoscale.DropFull
		code, reason = wire.CodeOverloaded, "the queue is full; send fewer requests"
	case f.running >= f.current.limit:
		code, reason = wire.CodeOverloaded, "as many calls run as the provider allows, and the deadline can no longer be met"
	}
	if o := f.server.options.Observer.Dropped; o != nil {
		o(gateway.DropInfo{Pipeline: f.name, Module: f.current.groups[r.app.group].Name, Reason: why})
	}
	f.settle(now, r, nil, r.fault(now, code, reason))
}

// settle ends a request; the first end counts.
func (f *function) settle(now dispatch.Time, r *request, answer []wire.NamedTensor, err *wire.Error) {
	if r.over {
		return
	}
	delete(f.waiting, r.id)
	r.over, r.end, r.answer, r.err = true, now, answer, err
	r.outcome = outcomeOf(err)
	if err == nil && now > r.deadline {
		r.outcome = gateway.Late
	}
	f.inFlight--
	f.totals[r.outcome]++
	r.app.ended(r)
	close(r.done)
}

func outcomeOf(err *wire.Error) gateway.Outcome {
	if err == nil {
		return gateway.Completed
	}
	switch err.Code {
	case wire.CodeInvalid:
		return gateway.Invalid // a function computes what the caller brought
	case wire.CodeDeadline, wire.CodeOverloaded:
		return gateway.Dropped
	case wire.CodeCanceled:
		return gateway.Cancelled
	}
	return gateway.Failed
}

// close fails what waits; calls under way end by themselves.
func (f *function) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	if f.timer != nil {
		f.timer.Stop()
	}
	now := f.server.now()
	for _, r := range f.waiting {
		f.settle(now, r, nil, r.fault(now, wire.CodeUnavailable, "the gateway is stopping"))
	}
}
