package gateway

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/harpagon/harpagon/pipelines/quantity"
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/dispatch/admission"
	"github.com/harpagon/harpagon/wire"
)

// admit checks a request: its tensors, the rate of its token, and that every module has an
// executor or will soon. It returns the inputs in the order of the declaration.
func (g *Gateway) admit(gr *deployed, t *wire.Tenant, q *wire.InferRequest, now dispatch.Time) ([]wire.Tensor, *wire.Error) {
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
	for _, n := range gr.Nodes {
		since, down := g.queue.Down(gr.Generation, n.Index())
		if down && now-since > g.options.Grace {
			return nil, wire.Errorf(wire.CodeUnavailable, n.Name, "no executor is attached; look at the pipeline's status for why")
		}
	}
	return inputs, nil
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
		return inputs, nil // its answers say what outputs it has
	}
	for _, name := range q.Outputs {
		if !slices.ContainsFunc(gr.Outputs, func(o Output) bool { return o.Name == name }) {
			return nil, wire.Errorf(wire.CodeInvalid, "", "there is no output %q in pipeline %q", name, q.Pipeline)
		}
	}
	return inputs, nil
}

// measureQuery refuses queries that no profile says anything of.
func (gr *deployed) measureQuery(inputs []wire.Tensor) *wire.Error {
	largest := gr.Largest()
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

// crowded says why there is no time for a request that came at arrival: its caller
// gave it none, it was read too late, or others are before it.
func crowded(now, arrival, deadline dispatch.Time) *wire.Error {
	if deadline <= arrival {
		return &wire.Error{Code: wire.CodeDeadline, Reason: "its deadline had passed when it came"}
	}
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

// Crowded says why a request to the pipeline that has come then would be refused, and
// counts it as refused; nil where it would not. A zero time says now. Servers ask before
// they read what a request brings: under overload that is most of what a refusal costs.
// A name that is not served is no reason; Infer says so.
func (g *Gateway) Crowded(ctx context.Context, name string, came time.Time) *wire.Error {
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
	if gr.SLO == 0 || g.queue.Would(gr.Generation, now, arrival+gr.SLO) || p.shares.Owed(wire.TenantOf(ctx)) {
		return nil
	}
	err := crowded(now, arrival, arrival+gr.SLO)
	g.refuse(ctx, p, gr, nil, &wire.InferRequest{Pipeline: name}, arrival, err)
	return err
}

// takeIn decides whether a request is taken in, which others may have to make room for;
// paid says that they have. underWay are the pipeline's requests, this one among them.
func (g *Gateway) takeIn(p *pipeline, gr *deployed, t *wire.Tenant, underWay int64, now, arrival, deadline dispatch.Time) (paid bool, err *wire.Error) {
	most := int64(g.options.MaxInFlight)
	if !g.tenants.Any() {
		return false, g.fits(gr, underWay, most, 0, now, arrival, deadline)
	}
	return p.shares.TakeIn(t, underWay, &Admission{
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
// others. Where there are tenants, one that is due sooner than the objective says must
// leave room for those that are not: else whoever gives its requests little time would
// have all of the devices.
func (g *Gateway) fits(gr *deployed, underWay, most int64, left float64, now, arrival, deadline dispatch.Time) *wire.Error {
	if underWay > most {
		return wire.Errorf(wire.CodeOverloaded, "", "%d requests of %s are under way; send fewer or scale it up", underWay-1, gr.Title)
	}
	if all := arrival + gr.SLO; gr.SLO > 0 && g.tenants.Any() && (deadline < all || left > 0) {
		if all -= dispatch.Time(float64(all-now) * left); !g.queue.Would(gr.Generation, now, all) {
			return crowded(now, arrival, deadline)
		}
	}
	if !g.queue.Admit(gr.Generation, now, deadline) {
		return crowded(now, arrival, deadline)
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
