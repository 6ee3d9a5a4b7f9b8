package gateway

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/wire"
)

// minPatience is the least time that a late request is given to come home.
const minPatience = time.Second

// Infer runs one request through its pipeline and waits for the answer. Every
// error is a *wire.Error. The end of ctx takes the request out of all queues;
// a deadline of ctx that comes before arrival plus SLO is the request's.
//
// A request that brings several (see wire.Batch) is taken apart: each of its n
// requests counts as one, all have arrived at the same time and have the same
// deadline, and the answer has theirs in order. The failure of one is that of all.
func (g *Gateway) Infer(ctx context.Context, q *wire.InferRequest) (*wire.InferResponse, error) {
	arrival := g.arrival(q.Arrived)
	p, application := g.find(q.Pipeline)
	if p == nil {
		return nil, g.noPipeline(q.Pipeline)
	}
	switch gr := p.current.Load(); {
	case gr.hasStreams():
		return g.frame(ctx, p, gr, q, arrival)
	case !q.Frame.IsZero():
		err := wire.Errorf(wire.CodeInvalid, "", "%s has no streams: leave %s out, or declare a stream block", gr.Title, wire.SequenceID)
		g.refuse(ctx, p, gr, nil, q, arrival, err)
		return nil, err
	}
	return g.tryOrInfer(ctx, p, application, q, arrival)
}

// tryOrInfer runs a request at the generation that serves, or at one that is tried.
func (g *Gateway) tryOrInfer(ctx context.Context, p *pipeline, application string, q *wire.InferRequest, arrival dispatch.Time) (*wire.InferResponse, error) {
	if c := p.canary.Load(); c != nil {
		return g.try(ctx, p, c, q, arrival)
	}
	return g.inferAt(ctx, p, application, q, arrival)
}

// hasStreams reports whether requests are frames of streams.
func (gr *deployed) hasStreams() bool { return len(gr.rules) > 0 }

// frame runs a request to a pipeline whose requests are frames. One that had to wait counts for
// dispatch from when it goes in: what a plan proves is about frames in the order of these times.
func (g *Gateway) frame(ctx context.Context, p *pipeline, gr *deployed, q *wire.InferRequest, arrival dispatch.Time) (*wire.InferResponse, error) {
	owner := wire.TenantOf(ctx).Caller()
	stream := strings.Join([]string{owner, p.name, q.Frame.Stream}, "\x00")
	q, brought, asks, lacks := g.brings(ctx, p, gr, stream, q)
	if lacks != nil {
		g.refuseAs(ctx, p, gr, nil, q, arrival, lacks, Invalid)
		return nil, lacks
	}
	if parts, err := g.parts(gr, q); err != nil || len(parts) > 1 {
		if err == nil {
			err = wire.Errorf(wire.CodeInvalid, "", "a frame is one request, and this has %d; send one after the other", len(parts))
		}
		g.refuse(ctx, p, gr, nil, q, arrival, err)
		return nil, err
	}
	deadline := g.deadline(ctx, gr.SLO, arrival)
	in, err := g.enter(ctx, p, &frameOf{Frame: q.Frame, gr: gr, owner: owner, brought: brought, came: arrival, deadline: deadline, inLine: q.InLine})
	switch {
	case in.tooFast || in.known: // a mistake of its caller, and no load to plan for
		g.refuseAs(ctx, p, gr, nil, q, arrival, err, Invalid)
		return nil, err
	case err != nil:
		if g.refuse(ctx, p, gr, nil, q, arrival, err); err.Code != wire.CodeCanceled && err.Code != wire.CodeInvalid {
			p.streams.count(&in, false)
		}
		return nil, err
	}
	ctx = g.ofKind(ctx, gr, in.kind)
	if in.turn != nil {
		defer func() { goOn(in.turn.end()) }()
		ctx = withTurn(ctx, in.turn)
	}
	if in.waited {
		if arrival = g.now(); deadline != 0 {
			limited, cancel := context.WithDeadline(ctx, g.epoch.Add(deadline))
			defer cancel()
			ctx = limited
		}
	}
	answer, failed := g.tryOrInfer(ctx, p, "", q, arrival)
	var e *wire.Error
	switch {
	case failed == nil:
		answer.Shift = in.shift
		p.shown.keep(gr.Deployment.Pipeline.Overlay, in.stream, time.Now(), q, answer)
		if asks && in.turn != nil {
			answer.Outputs = append(answer.Outputs, carries(g.seal, stream, in.turn))
		}
		p.streams.count(&in, deadline == 0 || g.now() <= deadline)
	case !errors.As(failed, &e) || e.Code != wire.CodeCanceled && !gr.mistaken(e):
		p.streams.count(&in, false)
	}
	return answer, failed
}

// brings takes the state out of a frame; asks reports whether there is an input for it, which is empty where the
// frame brings none and asks for that after it. Such a frame is an error where nothing is kept of its stream here,
// as after a start of the gateway, unless it begins one. What no gateway has sealed for this stream is none.
func (g *Gateway) brings(ctx context.Context, p *pipeline, gr *deployed, stream string, q *wire.InferRequest) (rest *wire.InferRequest, state map[string]moduleState, asks bool, lacks *wire.Error) {
	at := slices.IndexFunc(q.Inputs, func(in wire.NamedTensor) bool { return in.Name == wire.SequenceState })
	if at < 0 || slices.ContainsFunc(gr.Inputs, func(in pipelines.Port) bool { return in.Name == wire.SequenceState }) {
		return q, nil, false, nil
	}
	without := *q
	without.Inputs = slices.Delete(slices.Clone(q.Inputs), at, at+1)
	if len(q.Inputs[at].Data) == 0 {
		if gr.stateful && !q.Frame.First && q.Frame.Stream != "" && !p.streams.keeps(wire.TenantOf(ctx).Caller()+"\x00"+q.Frame.Stream) {
			lacks = wire.Errorf(wire.CodeUnavailable, "", "this gateway has no state of the stream; send the frame with that of the last answer in %s, or with %s", wire.SequenceState, wire.SequenceStart)
			lacks.Cause = wire.CauseNoState
		}
		return &without, nil, true, lacks
	}
	if q.Frame.First {
		return &without, nil, true, nil
	}
	return &without, carriedIn(g.seal, stream, q.Inputs[at].Data), true, nil
}

// inferAt runs a request, or the several that it brings, at a pipeline.
func (g *Gateway) inferAt(ctx context.Context, p *pipeline, application string, q *wire.InferRequest, arrival dispatch.Time) (*wire.InferResponse, error) {
	gr := p.current.Load()
	parts, err := g.parts(gr, q)
	switch {
	case err != nil:
		g.refuse(ctx, p, gr, nil, q, arrival, err)
		return nil, err
	case parts != nil:
		return inferParts(ctx, q, parts, func(ctx context.Context, one *wire.InferRequest) (*wire.InferResponse, error) {
			return g.infer(ctx, p, application, one, arrival)
		})
	}
	return g.infer(ctx, p, application, q, arrival)
}

// infer runs one request.
func (g *Gateway) infer(ctx context.Context, p *pipeline, named string, q *wire.InferRequest, arrival dispatch.Time) (*wire.InferResponse, error) {
	gr, underWay := p.enter()
	if gr == nil {
		return nil, g.noPipeline(q.Pipeline)
	}
	defer gr.InFlight.Add(-1)
	defer p.accepted.Add(-1)
	slo := gr.SLO
	var app *application
	if gr.function != nil {
		var err *wire.Error
		if app, err = gr.function.application(named); err != nil {
			return nil, err // nothing of that name: nobody is told of what callers invent
		}
		slo = app.slo
	}
	now := g.now()
	tenant := wire.TenantOf(ctx)
	inputs, err := g.validate(gr, tenant, q, now)
	if err != nil {
		g.refuse(ctx, p, gr, app, q, arrival, err)
		return nil, err
	}
	deadline := g.deadline(ctx, slo, arrival)
	paid, err := false, lapsed(now, arrival, deadline, slo)
	if err == nil {
		paid, err = g.admit(p, gr, tenant, underWay, now, arrival, deadline)
	}
	if err != nil {
		g.refuse(ctx, p, gr, app, q, arrival, err)
		return nil, err
	}
	p.stats.Arrive(now, arrival)
	if app != nil {
		app.stats.Begin(now)
	}
	if o := g.options.Observer.RequestBegin; o != nil {
		o(RequestInfo{Pipeline: labelOf(app, q), ID: q.ID, Caller: tenant.Caller(), Generation: gr.Deployment.Generation})
	}
	var r *Request
	if app != nil {
		r = g.newFunctionRequest(gr.Graph, app, inputs, q.Inputs, arrival, deadline)
	} else {
		r = newRequest(gr.Graph, inputs, arrival, deadline)
		r.turn = turnOf(ctx)
	}
	r.Produced = g.options.Bytes.Begin(p.name)
	defer r.Produced.Release()
	r.Share.Holder, r.splits = r, &p.stats
	p.shares.Enter(tenant, &r.Share, paid)
	r.Begin()
	g.wait(ctx, r, now)
	return g.answer(ctx, p, r, tenant, q)
}

// arrival is the time of a request's coming, on the gateway's clock.
func (g *Gateway) arrival(came time.Time) dispatch.Time {
	now := g.now()
	if came.IsZero() {
		return now
	}
	return now - max(0, time.Since(came))
}

// enter counts a request into the current graph, and reports how many of the
// pipeline are under way with it. Release relies on the count of the graph: once
// current has changed, that of an older graph only falls. nil where the pipeline has been
// removed since the request found it.
func (p *pipeline) enter() (gr *deployed, underWay int64) {
	underWay = p.accepted.Add(1)
	if p.gone.Load() {
		p.accepted.Add(-1)
		return nil, 0
	}
	for {
		gr := p.current.Load()
		gr.InFlight.Add(1)
		if p.current.Load() == gr {
			return gr, underWay
		}
		gr.InFlight.Add(-1)
	}
}

// labelOf is the name under which observers are told of a request.
func labelOf(a *application, q *wire.InferRequest) string {
	if a != nil {
		return a.label
	}
	return q.Pipeline
}

func (g *Gateway) deadline(ctx context.Context, slo time.Duration, arrival dispatch.Time) dispatch.Time {
	deadline := dispatch.Time(0)
	if slo > 0 {
		deadline = arrival + slo
	}
	if at, ok := ctx.Deadline(); ok {
		callers := max(at.Sub(g.epoch)+1, 1)
		if deadline == 0 || callers < deadline {
			deadline = callers
		}
	}
	return deadline
}

// wait blocks until the request is over, its caller has gone, or its deadline has passed
// and its batch is stuck, or patience has run out with an executor that does not answer.
// Calls of functions end by themselves. It is now, or was a moment ago.
func (g *Gateway) wait(ctx context.Context, r *Request, now dispatch.Time) {
	var lapsed <-chan time.Time
	var timer *time.Timer
	if r.Deadline != 0 && !r.Graph.Whole {
		timer = g.timer(r.Deadline - now)
		defer g.timers.Put(timer)
		defer timer.Stop()
		lapsed = timer.C
	}
	for {
		select {
		case <-r.Done:
			return
		case <-ctx.Done():
			r.Fail(g.abandoned(ctx, r))
		case <-lapsed:
			if it := r.turn.held(); it != nil { // no dispatcher has it, to give it up
				e := timed(r, g.now(), wire.CodeDeadline, "it waited for the frame before of its stream, which is not answered yet; scale the pipeline up, or look at the log of its worker")
				e.Stage = it.Node.Name
				r.Fail(e)
				break
			}
			late, why := r.Deadline+patience(r), "an executor has not answered in twice the time that the request had; look at the log of its worker"
			if stuck := r.Stuck(); stuck < late {
				late, why = stuck, "an engine takes far longer for its batch than its profile says; look at the log of its worker"
			}
			now = g.now()
			if now < late {
				timer.Reset(late - now)
				continue
			}
			e := timed(r, now, wire.CodeDeadline, why)
			e.Stage = strings.Join(r.Pending(), ", ")
			r.Fail(e)
		}
		<-r.Done
		return
	}
}

// timer is one that is over after d. It goes back to g.timers when it has been stopped.
func (g *Gateway) timer(d time.Duration) *time.Timer {
	if t, ok := g.timers.Get().(*time.Timer); ok {
		t.Reset(d)
		return t
	}
	return time.NewTimer(d)
}

// patience is how long a request that an engine holds is waited for when it is late: as long again.
func patience(r *Request) time.Duration {
	return max(r.Deadline-r.Arrival, minPatience)
}

func (g *Gateway) abandoned(ctx context.Context, r *Request) *wire.Error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		e := timed(r, g.now(), wire.CodeDeadline, "the caller's deadline has passed while it waited or was computed; give it longer, or send fewer requests")
		e.Stage = strings.Join(r.Pending(), ", ")
		return e
	}
	return timed(r, g.now(), wire.CodeCanceled, "the caller has gone")
}

func timed(r *Request, now dispatch.Time, code wire.Code, reason string) *wire.Error {
	e := &wire.Error{Code: code, Reason: reason, Elapsed: now - r.Arrival}
	if r.Deadline != 0 {
		e.Budget = r.Deadline - r.Arrival
	}
	return e
}

// answer counts the one outcome of an accepted request.
func (g *Gateway) answer(ctx context.Context, p *pipeline, r *Request, tenant *wire.Tenant, q *wire.InferRequest) (*wire.InferResponse, error) {
	info := RequestInfo{Pipeline: q.Pipeline, ID: q.ID, Caller: tenant.Caller(), Generation: r.Graph.Deployment.Generation}
	resp, err := g.response(r, q)
	if err == nil {
		err = g.spoken(r, q, resp)
	}
	f := functionOf(r)
	if f != nil {
		info.Pipeline = f.app.label
	}
	now := g.now()
	info.Elapsed = now - r.Arrival
	if err == nil {
		resp.Elapsed = info.Elapsed
		resp.Stages, resp.Fresh = r.Stages(now), r.fresh()
		if f != nil {
			resp.Stages[0].Module = f.app.stage
		}
		info.Stages = resp.Stages
	}
	info.Err, info.Outcome = err, outcome(r, err)
	if err == nil && r.Deadline != 0 && now > r.Deadline {
		info.Outcome = Late
	}
	p.stats.End(now, info.Outcome, info.Elapsed)
	if f != nil {
		f.app.stats.Finish(now, info.Outcome, info.Elapsed, f.cold)
	}
	g.leave(r, now, info.Outcome)
	lost := info.Outcome == Late || info.Outcome == Dropped || info.Outcome == Refused
	p.shares.Leave(tenant, &r.Share, lost, now)
	if o := g.options.Observer.RequestEnd; o != nil {
		o(info)
	}
	g.traced(ctx, info, r, r.Arrival, now)
	if err != nil {
		return nil, err
	}
	return resp, nil
}

// refuse counts a request that was turned away. One that is wrong in itself is
// no load and says nothing of the service, so Measures counts only that it was
// wrong; observers are told of either.
func (g *Gateway) refuse(ctx context.Context, p *pipeline, gr *deployed, app *application, q *wire.InferRequest, arrival dispatch.Time, err *wire.Error) {
	end := Invalid
	if err.Code != wire.CodeInvalid {
		end = Refused
		p.stats.Arrive(g.now(), arrival)
	}
	if err.Code == wire.CodeCanceled {
		end = Cancelled
	}
	g.refuseAs(ctx, p, gr, app, q, arrival, err, end)
}

// refuseAs is refuse with an outcome.
func (g *Gateway) refuseAs(ctx context.Context, p *pipeline, gr *deployed, app *application, q *wire.InferRequest, arrival dispatch.Time, err *wire.Error, end Outcome) {
	now := g.now()
	p.stats.End(now, end, now-arrival)
	if app != nil {
		app.stats.Refuse(now, end)
	}
	info := RequestInfo{Pipeline: labelOf(app, q), ID: q.ID, Caller: wire.TenantOf(ctx).Caller(), Generation: gr.Deployment.Generation, Outcome: end, Unaccepted: true, Elapsed: now - arrival, Err: err}
	if o := g.options.Observer.RequestEnd; o != nil {
		o(info)
	}
	g.traced(ctx, info, nil, arrival, now)
}

// outcome is how the request ended. What an engine refuses of a module that
// receives an input of the pipeline as it came is the caller's mistake.
func outcome(r *Request, err *wire.Error) Outcome {
	switch {
	case err == nil:
		return Completed
	case r.Refused:
		return Refused
	}
	switch err.Code {
	case wire.CodeInvalid:
		if r.Graph.mistaken(err) {
			return Invalid
		}
	case wire.CodeDeadline, wire.CodeOverloaded:
		return Dropped
	case wire.CodeCanceled:
		return Cancelled
	}
	return Failed
}

// mistaken reports whether a request was wrong in itself: what a module refuses that others feed is
// the pipeline's own.
func (gr *Graph) mistaken(err *wire.Error) bool {
	n := gr.Node(err.Stage)
	return err.Code == wire.CodeInvalid && (n == nil || n.TakesRequestInput())
}

// response gathers the outputs that the caller wants.
func (g *Gateway) response(r *Request, q *wire.InferRequest) (*wire.InferResponse, *wire.Error) {
	if err := r.Err(); err != nil {
		return nil, err
	}
	gr := r.Graph
	if f := functionOf(r); f != nil {
		outputs, err := f.answered(q)
		return &wire.InferResponse{ID: q.ID, Pipeline: q.Pipeline, Generation: f.generation, Outputs: outputs}, err
	}
	made := new(struct {
		wire.InferResponse
		one [1]wire.NamedTensor // room for the outputs of most
	})
	resp := &made.InferResponse
	resp.ID, resp.Pipeline, resp.Generation, resp.Outputs = q.ID, q.Pipeline, gr.Deployment.Generation, made.one[:0]
	for _, o := range gr.Outputs {
		if !wants(q, o.Name) {
			continue
		}
		t, err := r.Output(o)
		if err != nil {
			return nil, err
		}
		resp.Outputs = append(resp.Outputs, wire.NamedTensor{Name: o.Name, Tensor: t})
	}
	return resp, nil
}

// spoken is the failure of a network that has answered what is no number, as JSON is wanted.
// It is found before the request counts as answered.
func (g *Gateway) spoken(r *Request, q *wire.InferRequest, resp *wire.InferResponse) *wire.Error {
	for i := 0; q.Textual != nil && i < len(resp.Outputs); i++ {
		o := &resp.Outputs[i]
		if !q.Textual(o.Name) {
			continue
		}
		if v, found := o.Tensor.NotFinite(); found {
			stage, code := "", wire.CodeInvalid // what the caller has sent
			for _, out := range r.Graph.Outputs {
				if out.Name == o.Name && out.From != nil {
					stage, code = out.From.Name, wire.CodeInternal
				}
			}
			err := wire.Errorf(code, stage, "output %q holds %v, which is no number that JSON has; whoever wants it as it is asks for binary data", o.Name, v)
			if stage != "" {
				g.failures.note(g.now(), moduleKey{r.Graph.Deployment.Name(), stage}, err)
			}
			return err
		}
	}
	return nil
}

func wants(q *wire.InferRequest, name string) bool {
	return len(q.Outputs) == 0 || slices.Contains(q.Outputs, name)
}

// inferParts answers a batch that a client has made, taken apart by wire.Batch:
// every part is a request of its own to infer, all at once, and the answers are
// joined in order. The first that fails is the failure of the whole and reports which
// request it was; the others are taken back.
func inferParts(ctx context.Context, q *wire.InferRequest, parts [][]wire.NamedTensor, infer func(context.Context, *wire.InferRequest) (*wire.InferResponse, error)) (*wire.InferResponse, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	answers := make([]*wire.InferResponse, len(parts))
	var failed error
	var once sync.Once
	var under sync.WaitGroup
	for i, part := range parts {
		under.Go(func() {
			one := *q
			one.Inputs = part
			var err error
			if answers[i], err = infer(ctx, &one); err != nil {
				once.Do(func() {
					failed = err
					var e *wire.Error
					if errors.As(err, &e) {
						failed = wire.OfBatch(e, i, len(parts))
					}
					stop()
				})
			}
		})
	}
	under.Wait()
	if failed != nil {
		return nil, failed
	}
	joined, err := wire.Join(answers)
	if err != nil {
		return nil, err
	}
	return joined, nil
}

// parts takes a batch apart that a client has made; nil for any other request.
func (g *Gateway) parts(gr *deployed, q *wire.InferRequest) ([][]wire.NamedTensor, *wire.Error) {
	parts, err := wire.Batch(gr.Inputs, q.Inputs)
	if err != nil || parts == nil {
		return nil, err
	}
	if len(parts) > g.options.MaxInFlight {
		return nil, wire.Errorf(wire.CodeInvalid, "", "a batch of %d requests is more than the %d that the gateway takes at a time; send smaller ones", len(parts), g.options.MaxInFlight)
	}
	// What is wrong with all of them is said once, and nothing is begun.
	one := *q
	one.Inputs = parts[0]
	if _, err := gr.arrange(&one); err != nil {
		return nil, err
	}
	return parts, nil
}

// traced reports a request that is over; r is nil where it was refused.
func (g *Gateway) traced(ctx context.Context, info RequestInfo, r *Request, arrival, now dispatch.Time) {
	o := g.options.Observer.Traced
	if o == nil {
		return
	}
	t := TraceInfo{RequestInfo: info, Context: ctx, Arrived: g.epoch.Add(arrival), Ended: g.epoch.Add(now)}
	if r != nil {
		t.steps = func() []StepInfo { return g.stepsOf(r) }
	}
	if r != nil && r.Deadline != 0 {
		t.Budget = r.Deadline - r.Arrival
	}
	o(t)
}

// stepsOf are the steps of a request, as observers are told.
func (g *Gateway) stepsOf(r *Request) []StepInfo {
	runs := r.Steps()
	steps := make([]StepInfo, len(runs))
	at := func(d dispatch.Time) time.Time { return g.epoch.Add(d) }
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
