package shared

import "github.com/harpagon/harpagon/scheduler/dispatch"

// Schedulable states when deferred holds a batch to be ready.
type Schedulable uint8

// The two readings of Symphony's rule, and the one it argues against.
const (
	// FrontRun: at the last instant at which the batch could still take in
	// one more request and meet its first deadline, d - l(b+1). The authors'
	// code does this by default.
	FrontRun Schedulable = iota
	// BetaLambda: as soon as it holds beta·lambda requests, where waiting for
	// one more costs an executor as much as it saves; at the FrontRun instant
	// at the latest (Symphony, section 4.3).
	BetaLambda
	// AtOnce: with its first request. Work-conserving; see newEager.
	AtOnce
)

// DropRule states which requests deferred gives up when not all can be served.
type DropRule uint8

// The drop rules.
const (
	// WindowDrop keeps the newest requests that can run as one batch, and
	// takes older ones in where they still fit (the authors' code).
	WindowDrop DropRule = iota
	// EarlyDrop gives up everything before the first whole batch of the
	// target size that meets its deadline (Nexus, which the paper names).
	EarlyDrop
	// HeadDrop gives up only what cannot be served even alone, however small
	// the batches become (the paper's text).
	HeadDrop
)

// DeferredOptions configures the deferred policy.
type DeferredOptions struct {
	Options
	Ready Schedulable
	Drop  DropRule
}

// deferred is Symphony's policy: see NewDeferred.
type deferred struct {
	base
	Called string
	Rule   Schedulable
	Drop   DropRule
	Ready  dispatch.Agenda // models whose batch may start, by the last instant for it
}

// NewDeferred builds the deferred batch scheduling of Symphony (sections 4.2,
// 4.3 and appendix C; what the text leaves open follows the authors' code).
//
// Each model keeps one candidate batch. It is held back until it is ready (see
// Schedulable), so that it grows and executors stay idle rather than run small
// batches. A model whose batch becomes ready takes an idle executor if there
// is one. Otherwise it is remembered, and an executor that becomes free takes
// the remembered model with the least time left. Either way the batch is
// formed again for that executor.
//
// Two slips of the printed pseudocode are corrected: the instant from the
// beta-lambda test is kept and not overwritten by the front-run instant, and
// an executor that was granted counts as busy at once on both roads.
//
// A batch that has reached the end of its table is ready: waiting cannot
// improve it.
func NewDeferred(o DeferredOptions) dispatch.Policy { return newDeferred("deferred", o) }

func newDeferred(name string, o DeferredOptions) *deferred {
	p := &deferred{base: newBase(o.Options), Called: name, Rule: o.Ready, Drop: o.Drop}
	p.Ready = dispatch.NewAgenda(len(p.Models))
	for i := range p.Models {
		p.aim(&p.Models[i])
	}
	p.Fleet.Lead = p.lead()
	return p
}

// Name is the name that New was given, or that of the constructor: "deferred" or "eager".
func (p *deferred) Name() string { return p.Called }

// Step takes one event and appends the actions that follow from it.
func (p *deferred) Step(now dispatch.Time, ev dispatch.Event, out []dispatch.Action) []dispatch.Action {
	p.begin(now, &ev)
	switch ev.Kind {
	case dispatch.Arrive:
		out = p.arrive(&ev.Request, out)
	case dispatch.Cancel:
		if class := p.cancel(&ev.Request); class >= 0 {
			p.refresh(class)
		}
	default:
		p.change(&ev)
		for len(p.Parked) > 0 {
			p.refresh(p.unpark())
		}
	}
	for p.Wakes.Next() <= p.Now {
		p.refresh(p.Wakes.Top())
	}
	for p.Ready.Len() > 0 && p.Fleet.Opens > 0 {
		out = p.grant(p.Ready.Top(), out)
	}
	return p.arm(p.Wakes.Next(), p.settle(out))
}

func (p *deferred) arrive(r *dispatch.Request, out []dispatch.Action) []dispatch.Action {
	out, ok := p.admit(r, out)
	if r.Class < 0 || int(r.Class) >= len(p.Models) {
		return out
	}
	if m := &p.Models[r.Class]; m.Meter.Hit(p.Now) {
		p.aim(m)
	}
	if ok {
		p.refresh(r.Class)
	}
	return out
}

// aim sets the target batch by the rate.
func (p *deferred) aim(m *modelState) {
	if m.Meter.Known() {
		m.Target = staggered(m.Plan, p.Delay, m.SLO-p.Margin, m.Meter.Rate)
	} else {
		m.Target = half(m.Plan, p.Delay, m.SLO-p.Margin)
	}
}

// refresh forms the candidate of a model again: it drops what no batch worth
// running could serve, and notes when the candidate becomes ready.
func (p *deferred) refresh(class int32) {
	q, m := &p.Lines[class], &p.Models[class]
	if q.N > 0 {
		s := p.planned(class)
		c := p.cut(q, &s, m.Target)
		if c.drop > 0 {
			p.dropFirst(class, c.drop)
		}
		if c.size > 0 {
			p.schedule(class, c.size)
			return
		}
	}
	p.Wakes.Drop(class)
	p.Ready.Drop(class)
}

func (p *deferred) cut(q *line, s *offer, target int) cut {
	switch p.Drop {
	case EarlyDrop:
		return cutEarly(q, s, target)
	case HeadDrop:
		return cutHead(q, s, 0)
	}
	return cutWindow(q, s, target)
}

// schedule notes when the candidate of the first size requests is ready, and
// until when it can be sent.
func (p *deferred) schedule(class int32, size int) {
	q, m := &p.Lines[class], &p.Models[class]
	due := q.due(0)
	last := due - m.Plan.of(size) - p.Delay.Of(size)
	at := due - m.Plan.of(size+1) - p.Delay.Of(size+1) - p.early(class)
	if size >= len(m.Plan) || p.Rule == AtOnce || p.Rule == BetaLambda && float64(size) >= p.betaLambda(m, size) {
		at = p.Now
	}
	if at <= p.Now {
		p.Ready.Set(class, last)
		p.Wakes.Set(class, last+1)
		return
	}
	p.Ready.Drop(class)
	p.Wakes.Set(class, at)
}

// betaLambda is the batch from which on waiting for one more request costs
// more than it saves, with beta from the chord of the profile between the
// batch and the target.
func (p *deferred) betaLambda(m *modelState, size int) float64 {
	x := max(size+1, m.Target)
	each := float64(m.Plan.of(x)-m.Plan.of(size)) / float64(x-size)
	fixed := float64(m.Plan.of(x)) - each*float64(x)
	return fixed / 1e9 * m.Meter.Rate
}

// grant gives an open executor to the model.
func (p *deferred) grant(class int32, out []dispatch.Action) []dispatch.Action {
	q, m := &p.Lines[class], &p.Models[class]
	id, best := p.pick(class, func(s *offer) cut { return p.cut(q, s, m.Target) })
	if best.size == 0 {
		p.Ready.Drop(class)
		p.Parked = append(p.Parked, class)
		return out
	}
	if best.drop > 0 {
		p.dropFirst(class, best.drop)
	}
	out = p.start(class, id, best.size, out)
	p.refresh(class)
	return out
}

// Describe draws the policy for logs and golden transcripts.
func (p *deferred) Describe() string { return p.describe(p.Called) }

// newEager builds the work-conserving baseline: no executor idles while a
// request waits. An executor that is free takes the model whose first request
// leaves the least time, and of it as many requests as that one allows.
// Requests are given up only when they cannot be served even alone.
//
// It is what Symphony compares itself with in section 4.3, in its stronger form.
// The authors' code drops by the window there, too, which suits batches that are
// held back; New calls that eager:window.
func newEager(o Options) dispatch.Policy {
	return newDeferred("eager", DeferredOptions{Options: o, Ready: AtOnce, Drop: HeadDrop})
}
