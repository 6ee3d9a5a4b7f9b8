package gateway

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/harpagon/harpagon/dispatcher"
	"github.com/harpagon/harpagon/pipelines/quantity"
	"github.com/harpagon/harpagon/scheduler/autoscale"
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/dispatch/admission"
	"github.com/harpagon/harpagon/wire"
)

// validate checks a request: its tensors, the rate of its token, and that every module has an
// executor or will soon. It returns the inputs in the order of the declaration.
func (g *Gateway) validate(gr *deployed, t *wire.Tenant, q *wire.InferRequest, now dispatch.Time) ([]wire.Tensor, *wire.Error) {
	inputs, err := gr.arrange(q)
	if err != nil {
		return nil, err
	}
	if g.stopping.Load() {
		return nil, wire.Errorf(wire.CodeUnavailable, "", stopping)
	}
	if err := g.tenants.Allow(t, time.Now()); err != nil {
		return nil, err
	}
	return inputs, g.lacks(gr, now-g.options.Grace)
}

// lacks is the error of a module that has had no executor here since before that time; nil for none.
func (g *Gateway) lacks(gr *deployed, before dispatch.Time) *wire.Error {
	for _, n := range gr.Nodes {
		if since, down := g.queue.Unavailable(gr.Generation, n.Index()); down && since < before {
			return wire.Errorf(wire.CodeUnavailable, n.Name, "no executor is attached; look at the pipeline's status for why")
		}
	}
	return nil
}

func (gr *deployed) arrange(q *wire.InferRequest) ([]wire.Tensor, *wire.Error) {
	if gr.function != nil && len(gr.Inputs) == 0 {
		return nil, checkUndeclared(q.Inputs)
	}
	inputs, err := wire.Arrange(gr.Inputs, q.Inputs, gr.Title)
	if err != nil {
		return nil, err
	}
	if err := gr.measureQuery(inputs); err != nil {
		return nil, err
	}
	if gr.function != nil {
		return inputs, nil // its outputs are learned from its answers
	}
	for _, name := range q.Outputs {
		if !slices.ContainsFunc(gr.Outputs, func(o Output) bool { return o.Name == name }) {
			return nil, wire.Errorf(wire.CodeInvalid, "", "there is no output %q in pipeline %q", name, q.Pipeline)
		}
	}
	return inputs, nil
}

// measureQuery checks the number of rows of a query against its inputs and the profile.
func (gr *deployed) measureQuery(inputs []wire.Tensor) *wire.Error {
	largest := gr.LargestQuery()
	if largest == 0 {
		return nil
	}
	for i := range inputs {
		name, size := gr.Inputs[i].Name, inputs[i].Shape[0]
		switch {
		case size < 1:
			return wire.Errorf(wire.CodeInvalid, "", "input %q has no rows; a query has at least one item", name)
		case size > int64(largest):
			return wire.Errorf(wire.CodeInvalid, "", "a query of %d items is beyond the profile of pool %q, which ends at %d; split the query, or measure larger ones",
				size, gr.Deployment.Pipeline.Name, largest)
		case size != inputs[0].Shape[0]:
			return wire.Errorf(wire.CodeInvalid, "", "input %q has %d rows and input %q has %d; a query has as many of each", gr.Inputs[0].Name, inputs[0].Shape[0], name, size)
		}
	}
	return nil
}

// lapsed returns the error of a request whose caller's deadline had passed when it was read;
// nil where it had not, or where the objective ends first.
func lapsed(now, arrival, deadline dispatch.Time, slo time.Duration) *wire.Error {
	if deadline == 0 || deadline > now || slo > 0 && deadline >= arrival+slo {
		return nil
	}
	return &wire.Error{
		Code: wire.CodeDeadline, Budget: deadline - arrival, Elapsed: now - arrival,
		Reason: fmt.Sprintf("the caller's own timeout was over %s after the request came, before it was read; give it longer, or leave the timeout out", quantity.Duration(max(0, deadline-arrival))),
	}
}

// noTimeLeft reports why there is no time for a request that came at arrival: it was read too
// late, or others are before it.
func noTimeLeft(now, arrival, deadline dispatch.Time) *wire.Error {
	err := overloaded(deadline - arrival)
	if deadline <= now {
		err.Reason = fmt.Sprintf("it had been here for %s when it was read: this machine cannot keep up with reading; send fewer requests, or give the gateway more processors, or a second gateway", quantity.Duration(now-arrival))
	}
	return err
}

func overloaded(budget dispatch.Time) *wire.Error {
	return &wire.Error{
		Code: wire.CodeOverloaded, Budget: budget,
		Reason: "the requests before this one leave no time for it; send fewer, or scale the pipeline up",
	}
}

// RejectEarly returns why a request to the pipeline that arrived at came is refused, and counts
// it as refused; nil where it is not. A zero time means now. Servers call it before they read a
// request's body: under overload, reading is most of what a refusal costs. A name that is not
// served passes; Infer refuses it.
func (g *Gateway) RejectEarly(ctx context.Context, name string, came time.Time) *wire.Error {
	p, _ := g.find(name)
	if p == nil {
		return nil
	}
	gr, _ := p.enter()
	if gr == nil {
		return nil
	}
	defer gr.InFlight.Add(-1)
	defer p.accepted.Add(-1)
	arrival := g.arrival(came)
	now := g.now()
	if gr.hasStreams() { // which frame of which stream it is, its body states
		return nil
	}
	if gr.SLO == 0 || g.queue.Peek(gr.Generation, now, arrival+gr.SLO) || p.shares.Owed(wire.TenantOf(ctx)) {
		return nil
	}
	g.queue.Reject(gr.Generation, now)
	err := noTimeLeft(now, arrival, arrival+gr.SLO)
	g.refuse(ctx, p, gr, nil, &wire.InferRequest{Pipeline: name}, arrival, err)
	return err
}

// admit decides whether a request is taken in, which others may have to make room for;
// paid reports that they have. underWay are the pipeline's requests, this one among them.
func (g *Gateway) admit(p *pipeline, gr *deployed, t *wire.Tenant, underWay int64, now, arrival, deadline dispatch.Time) (paid bool, err *wire.Error) {
	most := int64(g.options.MaxInFlight)
	if !g.tenants.Any() {
		return false, g.fits(gr, underWay, most, 0, now, arrival, deadline)
	}
	return p.shares.Admit(t, underWay, &Admission{
		Now: now, Deadline: deadline, Soon: deadline != 0 && deadline < arrival+gr.SLO, Most: most,
		Fits: func(underWay, most int64, left float64) *wire.Error {
			return g.fits(gr, underWay, most, left, now, arrival, deadline)
		},
		Drop: func(holder any) {
			r := holder.(*Request)
			r.Fail(timed(r, g.now(), wire.CodeOverloaded, "it has made room for a caller that is below its share, while this one is above; send fewer requests, or scale the pipeline up"))
		},
	})
}

// fits admits a request for which there is room beside a part of it that must be left to
// others. Where there are tenants, one that is due before the objective ends must leave room
// for those that are not: else whoever gives its requests little time would have all of the
// devices.
func (g *Gateway) fits(gr *deployed, underWay, most int64, left float64, now, arrival, deadline dispatch.Time) *wire.Error {
	if underWay > most {
		return wire.Errorf(wire.CodeOverloaded, "", "%d requests of %s are under way; send fewer or scale it up", underWay-1, gr.Title)
	}
	if all := arrival + gr.SLO; gr.SLO > 0 && g.tenants.Any() && (deadline < all || left > 0) {
		if all -= dispatch.Time(float64(all-now) * left); !g.queue.Peek(gr.Generation, now, all) {
			g.queue.Reject(gr.Generation, now)
			return noTimeLeft(now, arrival, deadline)
		}
	}
	if !g.queue.Admit(gr.Generation, now, deadline) {
		return noTimeLeft(now, arrival, deadline)
	}
	return nil
}

// leave counts an admitted request out.
func (g *Gateway) leave(r *Request, now dispatch.Time, o Outcome) {
	how := admission.InTime
	switch o {
	case Late:
		how = admission.Late
	case Dropped:
		how = admission.GivenUp
	}
	g.queue.Leave(&r.Request, now, how)
}

// mostDisplaced is how many requests one may take the place of, where it needs more than
// one of them does.
const mostDisplaced = 4

// Tenants are those of a gateway. The zero value has none yet; it is safe for concurrent
// use.
type Tenants struct {
	some   atomic.Bool
	mu     sync.Mutex               // also of the shares of all services and of the entries of requests
	limits map[string]*rate.Limiter // by token
}

// Service is what they share; see Init.
type Service struct {
	of       *Tenants
	underWay *atomic.Int64
	shares   admission.Shares
}

// Init begins a service, of which so many requests are under way at any time.
func (s *Service) Init(of *Tenants, underWay *atomic.Int64) { s.of, s.underWay = of, underWay }

// Admission is the gateway's own admission of one request.
type Admission struct {
	Now, Deadline dispatch.Time // no deadline is 0
	Soon          bool          // its deadline is before the objective's end
	Most          int64         // requests under way, this one among them

	// Fits admits the request if there is room beside the part that must be left to others, and
	// returns why otherwise. underWay is the count to go by.
	Fits func(underWay, most int64, left float64) *wire.Error

	// Drop ends a request that makes room, the holder of an entry.
	Drop func(holder any)
}

// weightOf is the name and the weight of a tenant; nil is the one without a name.
func weightOf(t *wire.Tenant) (name string, weight float64) {
	if t == nil {
		return "", 1
	}
	if name = t.Name; t.Part != "" {
		name += "\x00" + t.Part
	}
	return name, cmp.Or(t.Weight, 1)
}

// ofKind is the context of a frame of one of several kinds of streams. Where devices can't do all, kinds share them
// as tenants do: by weight, in the proportions of the frames that are planned for.
func (g *Gateway) ofKind(ctx context.Context, gr *deployed, kind string) context.Context {
	rules := gr.kind(kind)
	if len(gr.rules) < 2 || rules == nil {
		return ctx
	}
	var part wire.Tenant
	if t := wire.TenantOf(ctx); t != nil {
		part = *t
	}
	part.Part, part.Weight = kind, cmp.Or(part.Weight, 1)*cmp.Or(rules.Weight, 1)*rules.Total()
	g.tenants.some.Store(true)
	return wire.WithTenant(ctx, &part)
}

// Any reports whether a named token has come yet.
func (s *Tenants) Any() bool { return s.some.Load() }

// Allow counts a request of a tenant, nil for none, against the rate that its token may
// send.
func (s *Tenants) Allow(t *wire.Tenant, now time.Time) *wire.Error {
	if t == nil {
		return nil
	}
	s.some.Store(true)
	if t.Rate == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.limits[t.Name]
	if l == nil || l.Limit() != rate.Limit(t.Rate) {
		if s.limits == nil {
			s.limits = make(map[string]*rate.Limiter)
		}
		l = rate.NewLimiter(rate.Limit(t.Rate), max(1, int(t.Rate))) // a second's worth at once
		s.limits[t.Name] = l
	}
	if !l.AllowN(now, 1) {
		return wire.Errorf(wire.CodeOverloaded, "", "token %q may send %g requests a second; send fewer, or have its rate raised in the file of --tokens", t.Name, t.Rate)
	}
	return nil
}

// Admit decides whether a request is taken in, for which others may have to make room;
// paid reports that they have.
func (s *Service) Admit(t *wire.Tenant, underWay int64, a *Admission) (paid bool, err *wire.Error) {
	left, most := s.room(t, a)
	for tries := 0; ; tries++ {
		if err = a.Fits(underWay, most, left); err == nil {
			return paid, nil
		}
		if a.Deadline != 0 && a.Deadline <= a.Now || tries == mostDisplaced || !s.displace(t, a) {
			break
		}
		paid = true
		underWay-- // of one that is about to leave
	}
	if !a.Soon { // too little time is not a lack of room
		s.of.mu.Lock()
		defer s.of.mu.Unlock()
		s.lost(t, a.Now)
	}
	return paid, err
}

// room is the part of it that a tenant must leave to others, and how many requests may be
// under way, one more of the tenant's among them.
func (s *Service) room(t *wire.Tenant, a *Admission) (left float64, most int64) {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	name, weight := weightOf(t)
	left, full := s.shares.Room(a.Now, name, weight)
	if left > 0 {
		return left, max(1, int64(min(float64(a.Most), full)*(1-left)))
	}
	return 0, a.Most
}

// displace has a request make room for one of the tenant, if one should.
func (s *Service) displace(t *wire.Tenant, a *Admission) bool {
	s.of.mu.Lock()
	e := s.shares.Displace(weightOf(t))
	s.of.mu.Unlock()
	if e != nil {
		a.Drop(e.Holder)
	}
	return e != nil
}

// lost notes that a tenant has lost a request. The lock is held.
func (s *Service) lost(t *wire.Tenant, now dispatch.Time) {
	name, weight := weightOf(t)
	s.shares.Refused(now, name, weight, s.underWay.Load())
}

// Owed reports whether another request would make room for one of the tenant.
func (s *Service) Owed(t *wire.Tenant) bool {
	if !s.of.Any() {
		return false
	}
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	return s.shares.Owed(weightOf(t))
}

// Enter counts a request that was taken in.
func (s *Service) Enter(t *wire.Tenant, e *admission.Entry, paid bool) {
	if !s.of.Any() {
		return
	}
	name, weight := weightOf(t)
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	s.shares.Enter(name, weight, e, paid)
}

// Leave notes that a request is over; lost means that it was late, or given up for lack of
// room.
func (s *Service) Leave(t *wire.Tenant, e *admission.Entry, lost bool, now dispatch.Time) {
	if !s.of.Any() {
		return
	}
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	if lost {
		s.lost(t, now)
	}
	e.End()
}

// Begun notes that a request runs: it makes no room for others any more.
func (s *Tenants) Begun(e *admission.Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.Leave()
}

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

// refusal is the error for the caller of an item that was given up.
func refusal(now dispatch.Time, it *Item, why dispatcher.Drop) *wire.Error {
	e := timed(it.Of, now, wire.CodeUnavailable, "")
	e.Stage = stageOf(it)
	switch why {
	case dispatcher.Full:
		e.Code, e.Reason = wire.CodeOverloaded, "the queue is full; send fewer requests or scale the pipeline up"
	case dispatcher.Lost:
		e.Reason = "its executor was lost and there is no time left for another; see the pipeline's status for the cause"
	case dispatcher.NoExecutor:
		e.Reason = "no executor is attached; look at the pipeline's status for why"
	case dispatcher.CallsFull:
		e.Code, e.Reason = wire.CodeOverloaded, "as many calls run as the provider allows, and the deadline can no longer be met; send fewer requests, or raise the provider's concurrency"
	case dispatcher.LostTwice:
		e.Reason = "two executors were lost while they held the request, so it may be what crashes their engine; see the pipeline's status for the cause"
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

// tooLate distinguishes a queue that is too long from modules upstream that took too long.
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

// failureKept is how long a failure of a module is reported.
const failureKept = time.Minute

// failures holds why batches of modules failed lately, so that the status and requests that
// waited in vain can name the cause a minute later.
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

// report adds the latest failures of modules to their measures.
func (f *failures) report(now dispatch.Time, pipeline string, modules []autoscale.ModuleMeasures) {
	for i := range modules {
		modules[i].Failure = f.since(now-failureKept, moduleKey{pipeline, modules[i].Name})
	}
}
