package dispatcher

import (
	"slices"
	"sync"

	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/dispatch/admission"
	"github.com/harpagon/harpagon/scheduler/flow"
	"github.com/harpagon/harpagon/scheduler/placement"
)

// account drives admission control for services that have devices in common, now or
// before: those that have none never wait for each other's. Every generation is a service
// of its own there, so that requests of older ones count while they are under way.
type account struct {
	mu      sync.Mutex
	control admission.Controller
	into    *account // that it has become a part of
}

// lock locks the account that this one is a part of by now.
func (a *account) lock() *account {
	for {
		a.mu.Lock()
		next := a.into
		if next == nil {
			return a
		}
		a.mu.Unlock()
		a = next
	}
}

// accountBits is how far the numbers of generations of one account are from another's.
const accountBits = 24

// account is that of a service, joined with those of the devices that it uses.
// Dispatcher.mu is held.
func (d *Dispatcher) account(v *service, devices []*device) *account {
	if v.account == nil {
		d.accounts++
		v.account = &account{control: admission.NewAfter(d.accounts << accountBits)}
	}
	a := v.account.lock()
	for _, device := range devices {
		if device.account != nil {
			a = a.join(device.account)
		}
		device.account = a
	}
	v.account = a
	a.mu.Unlock()
	return a
}

// join makes one of two accounts, the first of which is locked, as is what it returns.
// Dispatcher.mu is held: no other caller locks two.
func (a *account) join(other *account) *account {
	for other.into != nil {
		other = other.into
	}
	if other == a {
		return a
	}
	other.mu.Lock()
	defer other.mu.Unlock()
	a.control.Merge(&other.control)
	other.into = a
	return a
}

// unguarded is the number of a generation that admits every request: a pool's, a function's or
// a cluster's, whose policy gives up requests by itself.
const unguarded = 0

// decidesElsewhere reports whether another dispatcher decides for a deployment.
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
	var used []*device
	s := flow.AdmissionService(&of.Pipeline, &of.Plan, modules, func(module string, group int) (devices []int) {
		for _, slot := range of.Slots {
			if e := d.executors[slot.Executor]; e != nil && slot.Module == module && slot.Group == group {
				devices, used = append(devices, slices.Repeat([]int{e.device.number}, e.concurrency)...), append(used, e.device)
			}
		}
		return devices
	})
	a := d.account(d.services[of.Name()], used).lock()
	defer a.mu.Unlock()
	if g.number == unguarded {
		g.account, g.number = a, a.control.Add(s)
		return
	}
	a.control.Change(g.number, s)
}

// Forget takes a generation out of the accounts that has no requests any more. That of a
// part of a cluster goes with the last of its pipelines.
func (d *Dispatcher) Forget(g *Generation) {
	if g.whole != nil {
		if g = g.whole; g.left.Add(-1) > 0 {
			return
		}
	}
	d.mu.Lock()
	g.forgotten = true
	if v := d.services[g.Deployment.Name()]; v != nil {
		v.older = slices.DeleteFunc(v.older, func(other *Generation) bool { return other == g })
	}
	d.mu.Unlock()
	d.eachLink(func(l *Link) { l.forget(g) })
	if g.number == unguarded {
		return
	}
	a := g.account.lock()
	defer a.mu.Unlock()
	a.control.Remove(g.number)
}

// Admit decides whether a request that comes now can be answered by its deadline. One that it
// admits must Leave.
func (d *Dispatcher) Admit(g *Generation, now, deadline dispatch.Time) bool {
	if g.number == unguarded {
		return true
	}
	a := g.account.lock()
	defer a.mu.Unlock()
	return a.control.Admit(now, g.number, deadline)
}

// Peek reports what Admit would, and counts nothing.
func (d *Dispatcher) Peek(g *Generation, now, deadline dispatch.Time) bool {
	if g.number == unguarded {
		return true
	}
	a := g.account.lock()
	defer a.mu.Unlock()
	return a.control.Peek(now, g.number, deadline)
}

// Reject counts a request that comes now as refused, without Admit.
func (d *Dispatcher) Reject(g *Generation, now dispatch.Time) {
	if g.number == unguarded {
		return
	}
	a := g.account.lock()
	defer a.mu.Unlock()
	a.control.Reject(now, g.number)
}

// Fits reports whether n items of a request, of which this is the first, can be in time at
// their module, where they have not come to yet.
func (d *Dispatcher) Fits(it *Item, n int) bool {
	r := it.Request
	g := r.Generation
	if g.number == unguarded || r.Deadline == 0 {
		return true
	}
	now := d.Now()
	a := g.account.lock()
	defer a.mu.Unlock()
	if a.control.Fits(now, g.number, int(it.Index), n, max(1, r.Deadline-g.Nodes[it.Index].Keep.Least)) {
		return true
	}
	it.Ready = now
	return false
}

// Leave counts an admitted request out.
func (d *Dispatcher) Leave(r *Request, now dispatch.Time, how admission.End) {
	r.leave(how)
	number := r.Generation.number
	if number == unguarded {
		return
	}
	a := r.Generation.account.lock()
	defer a.mu.Unlock()
	r.enter(&a.control)
	a.control.Leave(now, number, r.Deadline, how)
	r.left = true
	a.control.Spent(now, number, r.spent, how == admission.InTime)
}

// enter has the request counted by its items from now on. The lock of the account is
// held.
func (r *Request) enter(c *admission.Controller) {
	if !r.entered {
		r.entered = true
		c.Enter(r.Generation.number)
	}
}

// accountWait counts an item into the queue of its module, or out of it where n is
// negative.
func (it *Item) accountWait(n int) {
	g := it.Request.Generation
	if g.number == unguarded {
		return
	}
	a := g.account.lock()
	defer a.mu.Unlock()
	a.control.AddWaiting(g.number, int(it.Index), n)
	it.Request.enter(&a.control)
}

// lockAccount locks the account of the batch's items, which are all of one service; nil
// where there is none.
func (b *Batch) lockAccount() *account {
	g := b.Items[0].Request.Generation
	if g.number == unguarded {
		return nil
	}
	return g.account.lock()
}

// accountStart notes that the items have left their queue for an executor.
func (b *Batch) accountStart() {
	a := b.lockAccount()
	if a == nil {
		return
	}
	defer a.mu.Unlock()
	b.each(func(number, module, n int) { a.control.Start(b.At, number, module, int(b.group), n) })
}

// each calls f for every run of n items of the same generation, by number, and module.
func (b *Batch) each(f func(number, module, n int)) {
	for i, n := 0, 1; i < len(b.Items); i, n = i+n, 1 {
		number, index := b.Items[i].Request.Generation.number, b.Items[i].Index
		for i+n < len(b.Items) && b.Items[i+n].Request.Generation.number == number && b.Items[i+n].Index == index {
			n++
		}
		f(number, int(index), n)
	}
}

// accountEnd notes that the items, which ran for that group, are back; compute is zero where it
// predicts nothing for other batches.
func (b *Batch) accountEnd(group int32, now, compute dispatch.Time) {
	a := b.lockAccount()
	if a == nil {
		return
	}
	defer a.mu.Unlock()
	b.each(func(number, module, n int) { a.control.Returned(number, module, n, b.At) })
	if first := b.Items[0]; compute > 0 {
		a.control.Learn(now, first.Request.Generation.number, int(first.Index), int(group), len(b.Items), compute, now-b.At)
	}
	took := compute / dispatch.Time(len(b.Items))
	for _, it := range b.Items {
		if it.Request.left {
			a.control.Spent(now, it.Request.Generation.number, took, false)
		} else {
			it.Request.spent += took
		}
	}
}
