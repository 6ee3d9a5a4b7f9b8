package gateway

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/harpagon/harpagon/dispatcher"
	"github.com/harpagon/harpagon/executors/serverless"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/autoscale"
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/functions"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/attach"
)

// function is what a graph has where a provider's functions serve it: one module,
// whose executors are calls, one for each group of the plan. Requests name an
// application of the function, which has an objective of its own.
type function struct {
	deployment functions.Deployment
	inputs     []pipelines.Port // empty where undeclared
	outputs    []pipelines.Port
	apps       []*application // by class
	executors  []*executor    // by group

	mu          sync.Mutex
	groups      []functions.GroupMeasures
	unreachable string // why the last call could not be made; empty where it could
}

// application is one source of requests of a function, for one generation.
type application struct {
	name  string
	label string // FUNCTION/APPLICATION
	class int32  // its index in policy grouped
	group int    // of the plan
	stage string // name of the group
	slo   time.Duration
	rate  float64 // as planned
	stats dispatcher.ApplicationStats
}

// describeTime is how long Install waits for a provider to describe its
// functions.
const describeTime = 2 * time.Second

// function makes what a deployment needs to call its functions. Whether the
// provider answers matters to Prepare only: what served goes on being served, since
// the provider may be back for the first request.
func (g *Gateway) function(ctx context.Context, d *functions.Deployment, mustAnswer bool) (*function, error) {
	if err := d.Check(); err != nil {
		return nil, err
	}
	f := &function{deployment: *d, inputs: d.Function.Inputs}
	if !mustAnswer {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, describeTime)
		defer cancel()
	}
	for i, name := range groupNames(&d.Plan) {
		t, err := g.options.Invoker.Target(*d, i)
		if err != nil {
			return nil, err
		}
		switch m, err := t.Describe(ctx); {
		case err == nil:
			f.outputs = m.Outputs
			if len(f.inputs) == 0 {
				f.inputs = m.Inputs
			}
		case mustAnswer && !errors.Is(err, serverless.ErrUnknown):
			return nil, fmt.Errorf("gateway: function %q cannot be reached: %w; is the provider there? examples/functions stands in for one on this machine", d.Function.Name, err)
		}
		f.executors = append(f.executors, g.caller(f, i, name, t))
		f.groups = append(f.groups, functions.GroupMeasures{Name: name, Errors: map[string]int64{}})
		for _, share := range d.Plan.Groups[i].Applications {
			f.apps = append(f.apps, g.application(f, share, i, name))
		}
	}
	return f, nil
}

func (g *Gateway) application(f *function, share functions.Share, group int, stage string) *application {
	a := &application{
		name: share.Name, label: f.deployment.Function.Name + "/" + share.Name, class: int32(len(f.apps)),
		group: group, stage: stage, slo: share.SLO, rate: share.Rate,
	}
	a.stats.Init(g.options.functionSpan, g.now())
	return a
}

// groupNames describe the groups of a plan: the size, and the applications where
// two groups have the same.
func groupNames(p *functions.Plan) []string {
	count := map[string]int{}
	for _, g := range p.Groups {
		count[g.Describe()]++
	}
	all := make([]string, len(p.Groups))
	for i, g := range p.Groups {
		if all[i] = g.Describe(); count[all[i]] > 1 {
			var apps []string
			for _, a := range g.Applications {
				apps = append(apps, a.Name)
			}
			all[i] += " (" + strings.Join(apps, ", ") + ")"
		}
	}
	return all
}

// asPipeline is the function as a pipeline of one module, which is how a graph
// runs it. Its answers have the outputs that the provider gives, whatever they are;
// see functionRequest.
func (f *function) asPipeline() pipelines.Pipeline {
	const answer = "answer"
	name := f.deployment.Function.Name
	m := pipelines.Module{Name: name}
	for _, in := range f.inputs {
		m.Inputs = append(m.Inputs, pipelines.Binding{Name: in.Name, From: pipelines.Ref{Port: in.Name}})
	}
	p := pipelines.Pipeline{
		Name: name, Inputs: f.inputs, Modules: []pipelines.Module{m},
		Outputs: []pipelines.Output{{Name: answer, From: pipelines.Ref{Module: name, Port: answer}}},
	}
	for _, a := range f.apps {
		p.SLO = max(p.SLO, a.slo)
	}
	return p
}

// application of that name; the only one where none is named.
func (f *function) application(name string) (*application, *wire.Error) {
	if name == "" && len(f.apps) == 1 {
		return f.apps[0], nil
	}
	for _, a := range f.apps {
		if a.name == name {
			return a, nil
		}
	}
	var all []string
	for _, a := range f.apps {
		all = append(all, a.label)
	}
	function := f.deployment.Function.Name
	if name == "" {
		return nil, wire.Errorf(wire.CodeInvalid, "", "function %q has several applications, each with an objective of its own; address one of %s", function, strings.Join(all, ", "))
	}
	return nil, wire.Errorf(wire.CodeNotFound, "", "function %q has no application %q; there is %s", function, name, strings.Join(all, ", "))
}

// metadata adds what is known of the function, or of one of its applications.
func (f *function) metadata(m *wire.Metadata, application string) *wire.Error {
	f.mu.Lock()
	m.Ready, m.Reason = f.unreachable == "", f.unreachable
	f.mu.Unlock()
	m.Outputs = slices.Clone(f.outputs)
	for _, a := range f.apps {
		m.Applications = append(m.Applications, pipelines.Application{Name: a.name, SLO: a.slo, Rate: a.rate})
	}
	if application == "" {
		return nil
	}
	a, err := f.application(application)
	if err == nil {
		m.SLO, m.Rate, m.Applications = a.slo, a.rate, nil
	}
	return err
}

// functionRequest is what a request of a function has besides.
type functionRequest struct {
	app        *application // of the generation that has it; under the request's lock
	inputs     []wire.NamedTensor
	answer     []wire.NamedTensor
	generation int  // that served it
	cold       bool // its call met a cold start
}

// functionOf is what a request of a function has besides; nil for any other.
func functionOf(r *Request) *functionRequest {
	if !r.Graph.Whole {
		return nil
	}
	return r.Own.(*functionRequest)
}

// newFunctionRequest makes a request of a function and names its tensors: in the
// order of the function's inputs where they are known, and as they were given where
// not.
func (g *Gateway) newFunctionRequest(gr *Graph, a *application, inputs []wire.Tensor, given []wire.NamedTensor, arrival, deadline dispatch.Time) *Request {
	both := &struct {
		Request
		function functionRequest
	}{function: functionRequest{app: a, inputs: given}}
	r, f := &both.Request, &both.function
	if len(gr.Inputs) > 0 {
		f.inputs = make([]wire.NamedTensor, len(inputs))
		for i, t := range inputs {
			f.inputs[i] = wire.NamedTensor{Name: gr.Inputs[i].Name, Tensor: t}
		}
	}
	r.Init(gr, inputs, arrival, deadline)
	r.Own, r.Class, r.Form = f, a.class, g.formOf(f.inputs)
	return r
}

// checkUndeclared checks the inputs of a function that declares none.
func checkUndeclared(given []wire.NamedTensor) *wire.Error {
	if len(given) == 0 {
		return wire.Errorf(wire.CodeInvalid, "", "the request has no inputs")
	}
	for i := range given {
		if err := given[i].Validate(); err != nil {
			return wire.Errorf(wire.CodeInvalid, "", "input %q: %s", given[i].Name, strings.TrimPrefix(err.Error(), "wire: "))
		}
	}
	return nil
}

// answered returns the outputs that the caller requested.
func (f *functionRequest) answered(q *wire.InferRequest) ([]wire.NamedTensor, *wire.Error) {
	if len(q.Outputs) == 0 {
		return f.answer, nil
	}
	for _, name := range q.Outputs {
		if !slices.ContainsFunc(f.answer, func(t wire.NamedTensor) bool { return t.Name == name }) {
			return nil, wire.Errorf(wire.CodeInvalid, "", "there is no output %q of %s", name, q.Pipeline)
		}
	}
	var all []wire.NamedTensor
	for _, t := range f.answer {
		if wants(q, t.Name) {
			all = append(all, t)
		}
	}
	return all, nil
}

// measure reports what was seen of the function, and adds it to m.
func (f *function) measure(now dispatch.Time, m *autoscale.Measures) *functions.Measures {
	all := &functions.Measures{Function: m.Pipeline, Generation: m.Generation, From: m.To, To: m.To}
	for _, a := range f.apps {
		one, from := a.stats.MeasureApplication(a.name, now, m.To)
		all.Applications = append(all.Applications, one)
		if from.Before(all.From) {
			all.From = from
		}
	}
	m.From, m.Offered = all.From, all.Offered()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, g := range f.groups {
		g.Errors = maps.Clone(g.Errors)
		all.Groups = append(all.Groups, g)
	}
	return all
}

// The executor of a group of a function is not attached: every batch is a call of
// its own to the provider.

// caller makes the executor of a group.
func (g *Gateway) caller(f *function, group int, name string, t *serverless.Target) *executor {
	e := &executor{gateway: g, function: f, target: t}
	e.hello = attach.Hello{Executor: t.URL, Pipeline: f.deployment.Function.Name, Module: name, Hardware: name, Concurrency: 1}
	e.registration = g.queue.NewCaller(t.URL, name, group, e)
	return e
}

// callers are the function's executors as registered at the dispatcher; none of a nil function.
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
	defer g.queue.CallDone()
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
	if !r.LockUnlessOver() {
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
	if !r.LockUnlessOver() {
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

const stopping = "the gateway is stopping; send the request to another, or again when it is back"
