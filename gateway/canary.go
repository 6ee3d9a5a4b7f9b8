package gateway

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/rollout"
	"github.com/harpagon/harpagon/wire"
)

// A canary is another generation of a pipeline, deployed under a name of its own
// (rollout.Name), with executors and queues of its own. Package rollout decides which requests
// it gets.

// canary is what a pipeline keeps of one.
type canary struct {
	update  pipelines.Update
	to      *pipeline
	before  rollout.Tally // of the pipeline itself, when the canary began
	drawn   atomic.Int64  // requests
	shadows atomic.Int64  // under way

	compared, different atomic.Int64
}

// mostShadows bounds the copies of requests that are under way for one canary: beyond it
// none are made.
const mostShadows = 16

// Try gives the pipeline's canary, which is installed, its share of the requests from
// now on, or with a zero update none. It is idempotent.
func (g *Gateway) Try(name string, update pipelines.Update) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	p, to := g.pipeline(name), g.pipeline(rollout.Name(name))
	switch {
	case p == nil && !update.Tried():
		return nil
	case p == nil:
		return fmt.Errorf("gateway: pipeline %q is not served, so that nothing else can be tried on a share of its requests", name)
	case !update.Tried():
		p.canary.Store(nil)
		return nil
	case to == nil:
		return fmt.Errorf("gateway: another generation of pipeline %q is to be tried, and is not installed", name)
	}
	if c := p.canary.Load(); c == nil || c.to != to || c.update != update {
		p.canary.Store(&canary{update: update, to: to, before: p.tally()})
	}
	return nil
}

// tally counts what ended, but for what was the callers' doing.
func (p *pipeline) tally() (t rollout.Tally) {
	for how, n := range p.stats.Totals() {
		switch how {
		case Completed:
			t.InTime += n
			t.Requests += n
		case Late, Dropped, Refused, Failed:
			t.Requests += n
		}
	}
	return t
}

// seen is how both generations have fared.
func (c *canary) seen(p *pipeline) *rollout.Seen {
	now := p.tally()
	return &rollout.Seen{
		Generation: c.to.current.Load().Deployment.Generation, Canary: c.to.tally(),
		Stable:   rollout.Tally{Requests: now.Requests - c.before.Requests, InTime: now.InTime - c.before.InTime},
		Compared: c.compared.Load(), Different: c.different.Load(),
	}
}

// Trials is how the generations fare that are tried at the moment, by the name of their
// service.
func (g *Gateway) Trials() map[string]rollout.Seen {
	all := make(map[string]rollout.Seen)
	for name, p := range *g.pipelines.Load() {
		if c := p.canary.Load(); c != nil {
			all[name] = *c.seen(p)
		}
	}
	return all
}

// try runs a request at the generation that it is drawn for.
func (g *Gateway) try(ctx context.Context, p *pipeline, c *canary, q *wire.InferRequest, arrival dispatch.Time) (*wire.InferResponse, error) {
	draw := func() rollout.To { return rollout.Draw(c.drawn.Add(1), c.update) }
	to := rollout.Stable
	if t := turnOf(ctx); t != nil {
		to = t.of.draw(c, draw)
	} else {
		to = draw()
	}
	switch to {
	case rollout.Canary:
		return g.inferAt(ctx, c.to, "", q, arrival)
	case rollout.Shadow:
		if c.shadows.Add(1) <= mostShadows {
			return g.inferBoth(ctx, p, c, q, arrival)
		}
		c.shadows.Add(-1)
	}
	return g.inferAt(ctx, p, "", q, arrival)
}

// inferBoth answers by the old generation, and sends a copy to the new one, whose answer
// is compared. Nobody waits for that.
func (g *Gateway) inferBoth(ctx context.Context, p *pipeline, c *canary, q *wire.InferRequest, arrival dispatch.Time) (*wire.InferResponse, error) {
	copied := *q
	copied.Pipeline, copied.Inputs = c.to.name, cloned(q.Inputs)
	answer := make(chan []wire.NamedTensor, 1) // nil where there is none
	go func() {
		defer c.shadows.Add(-1)
		theirs, err := g.inferAt(context.WithoutCancel(ctx), c.to, "", &copied, arrival)
		ours := <-answer
		if err != nil || ours == nil {
			return
		}
		c.compared.Add(1)
		if !alike(ours, theirs.Outputs) {
			c.different.Add(1)
		}
	}()
	resp, err := g.inferAt(ctx, p, "", q, arrival)
	if err != nil {
		answer <- nil
		return nil, err
	}
	answer <- cloned(resp.Outputs)
	return resp, nil
}

// cloned has tensors of its own: their owner may use the memory again.
func cloned(all []wire.NamedTensor) []wire.NamedTensor {
	own := slices.Clone(all)
	for i := range own {
		own[i].Data = slices.Clone(own[i].Data)
		own[i].Shape = slices.Clone(own[i].Shape)
	}
	return own
}

// nearly is how far numbers may be apart, in terms of the larger one or of 1, and count
// as the same: batches of other sizes are summed up in another order.
const nearly = 1e-3

// alike reports whether two answers are the same.
func alike(a, b []wire.NamedTensor) bool {
	return slices.EqualFunc(a, b, func(x, y wire.NamedTensor) bool {
		if x.Name != y.Name || x.Datatype != y.Datatype || !slices.Equal(x.Shape, y.Shape) {
			return false
		}
		if v, err := x.Float32s(); err == nil {
			w, err := y.Float32s()
			return err == nil && slices.EqualFunc(v, w, func(a, b float32) bool { return near(float64(a), float64(b)) })
		}
		if v, err := x.Float64s(); err == nil {
			w, err := y.Float64s()
			return err == nil && slices.EqualFunc(v, w, near)
		}
		return string(x.Data) == string(y.Data)
	})
}

func near(a, b float64) bool {
	return a == b || a != a && b != b || max(a, b)-min(a, b) <= nearly*max(1, max(a, -a), max(b, -b))
}
