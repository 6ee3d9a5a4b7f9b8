package serverless

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/harpagon/harpagon/gateway"
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/wire"
)

// request is one accepted request; the function's lock guards what changes.
type request struct {
	id       dispatch.RequestID
	app      *application
	inputs   []wire.NamedTensor
	arrival  dispatch.Time
	deadline dispatch.Time
	done     chan struct{} // closed when it is over

	over    bool
	end     dispatch.Time
	answer  []wire.NamedTensor
	err     *wire.Error
	outcome gateway.Outcome
	stage   wire.Stage
	version int // generation that served it
}

func (r *request) fault(now dispatch.Time, code wire.Code, reason string) *wire.Error {
	return &wire.Error{Code: code, Reason: reason, Stage: r.stage.Module, Budget: r.deadline - r.arrival, Elapsed: now - r.arrival}
}

// Infer sends one request of an application through its queue and waits for the
// answer. Every error is a *wire.Error. A deadline of ctx that comes before
// arrival plus SLO is the request's. A request that brings several is taken apart
// as a gateway's is, where the function declares its inputs.
func (s *Server) Infer(ctx context.Context, q *wire.InferRequest) (*wire.InferResponse, error) {
	arrival := s.now()
	name, application, _ := strings.Cut(q.Pipeline, "/")
	f := s.function(name)
	if f == nil {
		return nil, wire.Errorf(wire.CodeNotFound, "", "function %q is not served here", name)
	}
	if parts := f.parts(q, s.options.MaxInFlight); parts != nil {
		return gateway.InferParts(ctx, q, parts, func(ctx context.Context, one *wire.InferRequest) (*wire.InferResponse, error) {
			return s.infer(ctx, f, application, one, arrival)
		})
	}
	return s.infer(ctx, f, application, q, arrival)
}

// parts takes a batch apart that a client has made. One that is wrong is left as it
// is, for admission to say why.
func (f *function) parts(q *wire.InferRequest, most int) [][]wire.NamedTensor {
	f.mu.Lock()
	inputs := f.current.inputs
	f.mu.Unlock()
	if len(inputs) == 0 {
		return nil
	}
	parts, err := wire.Batch(inputs, q.Inputs)
	if err != nil || len(parts) > most {
		return nil
	}
	return parts
}

// infer runs one request.
func (s *Server) infer(ctx context.Context, f *function, application string, q *wire.InferRequest, arrival dispatch.Time) (*wire.InferResponse, error) {
	info := gateway.RequestInfo{ID: q.ID}
	r, calls, err := f.accept(ctx, arrival, application, q, &info)
	if err != nil && info.Pipeline == "" {
		return nil, err // nothing of that name: observers do not hear what callers invent
	}
	if err != nil {
		info.Outcome, info.AtDoor, info.Err, info.Elapsed = gateway.Refused, true, err, s.now()-arrival
		if err.Code == wire.CodeInvalid {
			info.Outcome = gateway.Invalid
		}
		s.requestEnd(info)
		return nil, err
	}
	if o := s.options.Observer.RequestBegin; o != nil {
		o(info)
	}
	f.launch(calls)
	select {
	case <-r.done:
	case <-ctx.Done():
		f.abandon(ctx, r)
	}
	return s.answer(q, r, info)
}

// accept admits the request and reports its arrival to the policy.
func (f *function) accept(ctx context.Context, arrival dispatch.Time, application string, q *wire.InferRequest, info *gateway.RequestInfo) (*request, []*call, *wire.Error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	g := f.current
	info.Generation = g.deployment.Generation
	a := g.app(application)
	if a == nil {
		return nil, nil, g.noApplication(f.name, application)
	}
	info.Pipeline = f.name + "/" + a.name
	inputs, err := g.arrange(q)
	if err == nil {
		a.ring.add(arrival) // a request that is wrong in itself is no load
		if most := int64(f.server.options.MaxInFlight); f.inFlight >= most {
			err = wire.Errorf(wire.CodeOverloaded, "", "%d requests of function %q are under way; send fewer", f.inFlight, f.name)
		} else if f.closed {
			err = wire.Errorf(wire.CodeUnavailable, "", "the gateway is stopping")
		}
		if err != nil {
			a.counts.Requests++
			a.counts.Refused++
			f.totals[gateway.Refused]++
		}
	}
	if err != nil {
		return nil, nil, err
	}
	f.lastID++
	r := &request{id: f.lastID, app: a, inputs: inputs, arrival: arrival, deadline: f.server.deadline(ctx, arrival, a.slo), done: make(chan struct{})}
	f.waiting[r.id] = r
	f.inFlight++
	a.counts.Requests++
	return r, f.step(max(arrival, f.server.now()), dispatch.Event{Kind: dispatch.Arrive, Request: r.seen()}), nil
}

// seen is the request as the policy sees it.
func (r *request) seen() dispatch.Request {
	return dispatch.Request{ID: r.id, Class: r.app.class, Arrival: r.arrival, Deadline: r.deadline}
}

func (s *Server) deadline(ctx context.Context, arrival dispatch.Time, slo time.Duration) dispatch.Time {
	deadline := arrival + slo
	if at, ok := ctx.Deadline(); ok {
		deadline = min(deadline, max(at.Sub(s.epoch)+1, 1))
	}
	return deadline
}

// arrange checks the inputs as far as anybody knows what they should be.
func (g *generation) arrange(q *wire.InferRequest) ([]wire.NamedTensor, *wire.Error) {
	if len(g.inputs) == 0 {
		if len(q.Inputs) == 0 {
			return nil, wire.Errorf(wire.CodeInvalid, "", "the request has no inputs")
		}
		for i := range q.Inputs {
			if err := q.Inputs[i].Validate(); err != nil {
				return nil, wire.Errorf(wire.CodeInvalid, "", "input %q: %s", q.Inputs[i].Name, strings.TrimPrefix(err.Error(), "wire: "))
			}
		}
		return q.Inputs, nil
	}
	tensors, err := wire.Arrange(g.inputs, q.Inputs, "the function")
	if err != nil {
		return nil, err
	}
	named := make([]wire.NamedTensor, len(tensors))
	for i, t := range tensors {
		named[i] = wire.NamedTensor{Name: g.inputs[i].Name, Tensor: t}
	}
	return named, nil
}

// abandon ends the request of a caller who has gone. In a call it runs on, and
// nobody looks at its answer.
func (f *function) abandon(ctx context.Context, r *request) {
	f.mu.Lock()
	now := f.server.now()
	var calls []*call
	if f.waiting[r.id] != nil {
		calls = f.step(now, dispatch.Event{Kind: dispatch.Cancel, Request: r.seen()})
	}
	code, reason := wire.CodeCanceled, "the caller has gone"
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		code, reason = wire.CodeDeadline, "the caller's deadline has passed"
	}
	f.settle(now, r, nil, r.fault(now, code, reason))
	f.mu.Unlock()
	f.launch(calls)
}

// answer is what the caller gets of a request that is over.
func (s *Server) answer(q *wire.InferRequest, r *request, info gateway.RequestInfo) (*wire.InferResponse, error) {
	info.Outcome, info.Err, info.Elapsed = r.outcome, r.err, r.end-r.arrival
	if r.err != nil {
		s.requestEnd(info)
		return nil, r.err
	}
	stage := r.stage
	stage.Transfer = info.Elapsed - stage.Queue - stage.Wait - stage.Compute
	info.Stages = []wire.Stage{stage}
	s.requestEnd(info)
	out := &wire.InferResponse{ID: q.ID, Pipeline: q.Pipeline, Generation: r.version, Elapsed: info.Elapsed, Stages: info.Stages}
	for _, name := range q.Outputs {
		if !named(r.answer, name) {
			return nil, wire.Errorf(wire.CodeInvalid, "", "there is no output %q of %s", name, q.Pipeline)
		}
	}
	for _, t := range r.answer {
		if len(q.Outputs) == 0 || contains(q.Outputs, t.Name) {
			out.Outputs = append(out.Outputs, t)
		}
	}
	return out, nil
}

func named(all []wire.NamedTensor, name string) bool {
	for _, t := range all {
		if t.Name == name {
			return true
		}
	}
	return false
}

func contains(all []string, name string) bool {
	for _, n := range all {
		if n == name {
			return true
		}
	}
	return false
}

func (s *Server) requestEnd(info gateway.RequestInfo) {
	if o := s.options.Observer.RequestEnd; o != nil {
		o(info)
	}
}
