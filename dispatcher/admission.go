package dispatcher

import (
	"sync"

	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/dispatch/admission"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/scheduler/plan/timing"
)

// accounts drives admission control. Every generation is a service of its own there, so
// that requests of older ones count while they are under way.
type accounts struct {
	mu      sync.Mutex
	control admission.Controller
}

// unguarded is the number of a generation that takes in every request: a pool's, a
// function's or a cluster's, whose policy gives up requests by itself.
const unguarded = 0

// decidesElsewhere says whether another dispatcher decides for a deployment.
func (d *Dispatcher) decidesElsewhere(of *placement.Deployment) bool {
	return d.options.Elsewhere && of.Function == nil
}

// guard enters the generation, or renews what is known of its executors.
// Dispatcher.mu is held.
func (d *Dispatcher) guard(g *Generation) {
	of := &g.Deployment
	if of.Pool != nil || of.Function != nil || of.Cluster != nil || d.options.Elsewhere {
		return
	}
	var modules []string
	for i := range g.Nodes {
		modules = append(modules, g.Nodes[i].Module)
	}
	s := timing.Admission(&of.Pipeline, &of.Plan, modules, func(module string, group int) (devices []int) {
		for _, slot := range of.Slots {
			if e := d.executors[slot.Executor]; e != nil && slot.Module == module && slot.Group == group {
				devices = append(devices, e.device.number)
			}
		}
		return devices
	})
	d.accounts.mu.Lock()
	defer d.accounts.mu.Unlock()
	if g.number == unguarded {
		g.number = d.accounts.control.Add(s)
		return
	}
	d.accounts.control.Change(g.number, s)
}

// Forget takes a generation out of the accounts that has no requests any more. That of a
// part of a cluster goes with the last of its pipelines.
func (d *Dispatcher) Forget(g *Generation) {
	if g.whole != nil {
		if g = g.whole; g.left.Add(-1) > 0 {
			return
		}
	}
	d.eachLink(func(l *Link) { l.forget(g) })
	if g.number == unguarded {
		return
	}
	d.accounts.mu.Lock()
	defer d.accounts.mu.Unlock()
	d.accounts.control.Remove(g.number)
}

// Admit decides whether a request that comes now can be answered by its deadline. One
// that it takes in must Leave.
func (d *Dispatcher) Admit(g *Generation, now, deadline dispatch.Time) bool {
	if g.number == unguarded {
		return true
	}
	d.accounts.mu.Lock()
	defer d.accounts.mu.Unlock()
	return d.accounts.control.Admit(now, g.number, deadline)
}

// Would says what Admit would, and changes nothing.
func (d *Dispatcher) Would(g *Generation, now, deadline dispatch.Time) bool {
	if g.number == unguarded {
		return true
	}
	d.accounts.mu.Lock()
	defer d.accounts.mu.Unlock()
	return d.accounts.control.Would(now, g.number, deadline)
}

// Fits says whether n items of a request, of which this is the first, can be in time at
// their module, where they have not come to yet.
func (d *Dispatcher) Fits(it *Item, n int) bool {
	r := it.Request
	if r.Generation.number == unguarded || r.Deadline == 0 {
		return true
	}
	now := d.Now()
	d.accounts.mu.Lock()
	defer d.accounts.mu.Unlock()
	if d.accounts.control.Fits(now, r.Generation.number, int(it.Index), n, max(1, r.Deadline-r.Generation.Nodes[it.Index].Keep.Least)) {
		return true
	}
	it.Ready, r.spent = now, 0 // nobody could have known at the door
	return false
}

// Leave counts an admitted request out.
func (d *Dispatcher) Leave(r *Request, now dispatch.Time, how admission.End) {
	if r.link != nil {
		r.link.leave(r, how)
	}
	number := r.Generation.number
	if number == unguarded {
		return
	}
	d.accounts.mu.Lock()
	defer d.accounts.mu.Unlock()
	r.enter(&d.accounts.control)
	d.accounts.control.Leave(now, number, r.Deadline, how)
	r.left = true
	d.accounts.control.Spent(now, number, r.spent, how == admission.InTime)
}

// enter has the request counted by its items from now on. The lock of the accounts is
// held.
func (r *Request) enter(c *admission.Controller) {
	if !r.entered {
		r.entered = true
		c.Enter(r.Generation.number)
	}
}

// wait counts an item into the queue of its module, or out of it where n is
// negative.
func (b *accounts) wait(it *Item, n int) {
	number := it.Request.Generation.number
	if number == unguarded {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.control.Wait(number, int(it.Index), n)
	it.Request.enter(&b.control)
}

// start notes that items have left their queue for an executor.
func (b *accounts) start(items []*Item) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, it := range items {
		if number := it.Request.Generation.number; number != unguarded {
			b.control.Start(number, int(it.Index), 1)
		}
	}
}

// end notes that the items of a batch are back; compute is zero where the batch
// tells nothing of how long others will take.
func (b *accounts) end(batch *Batch, group int32, now, compute dispatch.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, it := range batch.Items {
		number := it.Request.Generation.number
		if number == unguarded {
			continue
		}
		b.control.Returned(number, int(it.Index), 1)
		if took := compute / dispatch.Time(len(batch.Items)); it.Request.left {
			b.control.Spent(now, number, took, false)
		} else {
			it.Request.spent += took
		}
		if i == 0 && compute > 0 {
			b.control.Learn(now, number, int(it.Index), int(group), len(batch.Items), compute, now-batch.At)
		}
	}
}
