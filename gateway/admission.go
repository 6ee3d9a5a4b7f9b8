package gateway

import (
	"sync"

	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/dispatch/admission"
	"github.com/harpagon/harpagon/scheduler/plan/timing"
	"github.com/harpagon/harpagon/wire"
)

// door drives admission control. Every graph is a service of its own there, so
// that requests of older generations count while they are under way.
type door struct {
	mu      sync.Mutex
	control admission.Controller
}

// unguarded is the number of a graph that takes in every request: a pool's or a
// function's, whose policy gives up requests by itself.
const unguarded = 0

// guard enters the graph, or renews what is known of its executors. Gateway.mu is
// held.
func (g *Gateway) guard(gr *graph) {
	if gr.deployment.Pool != nil || gr.function != nil {
		return
	}
	d := &gr.deployment
	var modules []string
	for _, n := range gr.nodes {
		modules = append(modules, n.Module)
	}
	s := timing.Admission(&d.Pipeline, &d.Plan, modules, func(module string, group int) (devices []int) {
		for _, slot := range d.Slots {
			if e := g.executors[slot.Executor]; e != nil && slot.Module == module && slot.Group == group {
				devices = append(devices, e.device.number)
			}
		}
		return devices
	})
	g.door.mu.Lock()
	defer g.door.mu.Unlock()
	if gr.number == unguarded {
		gr.number = g.door.control.Add(s)
		return
	}
	g.door.control.Change(gr.number, s)
}

// forget takes out a graph that has no requests any more.
func (d *door) forget(gr *graph) {
	if gr.number == unguarded {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.control.Remove(gr.number)
}

// admit decides whether a request can be answered by its deadline.
func (d *door) admit(gr *graph, now, deadline dispatch.Time) *wire.Error {
	if gr.number == unguarded {
		return nil
	}
	d.mu.Lock()
	ok := d.control.Admit(now, gr.number, deadline)
	d.mu.Unlock()
	if ok {
		return nil
	}
	return crowded(deadline - now)
}

func crowded(budget dispatch.Time) *wire.Error {
	return &wire.Error{
		Code: wire.CodeOverloaded, Budget: budget,
		Reason: "the requests before this one leave no time for it; send fewer, or scale the pipeline up",
	}
}

// Crowded says why a request to the pipeline that came now would be refused, and
// counts it as refused; nil where it would not. Servers ask before they read what
// a request brings: under overload that is most of what a refusal costs. A name
// that is not served is no reason; Infer says so.
func (g *Gateway) Crowded(name string) *wire.Error {
	p, _ := g.find(name)
	if p == nil {
		return nil
	}
	gr, _ := p.enter()
	defer gr.inFlight.Add(-1)
	defer p.accepted.Add(-1)
	now := g.now()
	if gr.number == unguarded || gr.slo == 0 {
		return nil
	}
	g.door.mu.Lock()
	ok := g.door.control.Would(now, gr.number, now+gr.slo)
	g.door.mu.Unlock()
	if ok {
		return nil
	}
	err := crowded(gr.slo)
	g.refuse(p, gr, nil, &wire.InferRequest{Pipeline: name}, now, err)
	return err
}

// leave counts an admitted request out.
func (d *door) leave(r *request, now dispatch.Time, o Outcome) {
	gr := r.graph
	if gr.number == unguarded {
		return
	}
	how := admission.InTime
	switch o {
	case Late:
		how = admission.Late
	case Dropped:
		how = admission.GivenUp
	}
	d.mu.Lock()
	r.enter(&d.control)
	d.control.Leave(now, gr.number, r.deadline, how)
	d.mu.Unlock()
}

// enter has the request counted by its items from now on. The lock of the books is
// held.
func (r *request) enter(c *admission.Controller) {
	if !r.entered {
		r.entered = true
		c.Enter(r.graph.number)
	}
}

// wait counts an item into the queue of its module, or out of it where n is
// negative, and returns the pressure of its pipeline.
func (d *door) wait(it *item, n int) float64 {
	gr := it.req.graph
	if gr.number == unguarded {
		return 0
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.control.Wait(gr.number, it.node.index, n)
	it.req.enter(&d.control)
	return d.control.Pressure(gr.number)
}

// start notes that items have left their queue for an executor.
func (d *door) start(items []*item) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, it := range items {
		if number := it.req.graph.number; number != unguarded {
			d.control.Start(number, it.node.index, 1)
		}
	}
}

// end notes that the items of a batch are back; compute is zero where the batch
// tells nothing of how long others will take.
func (d *door) end(f *flight, group int32, now, compute dispatch.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, it := range f.items {
		number := it.req.graph.number
		if number == unguarded {
			continue
		}
		d.control.Back(number, it.node.index, 1)
		if i == 0 && compute > 0 {
			d.control.Learn(now, number, it.node.index, int(group), len(f.items), compute, now-f.at)
		}
	}
}
