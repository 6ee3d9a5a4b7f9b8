package experiments

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"time"

	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/dispatch/shared"
)

// shepherd is the name of Shepherd's policy.
const shepherd = "shepherd"

// preemptAt is how many times as large as the batch that runs another must be to end it
// (Shepherd, NSDI 2023: the best competitive ratio; in the program of Symphony's authors, too).
const preemptAt = 3.03

// flex is Shepherd's online algorithm, as the authors of Symphony programmed it: a device takes, of
// all models, the largest batch that can be done in time, and gives up the batch that it runs
// where the model of a request that comes has one at least preemptAt times as large. What is given
// up waits again, as long as it can be done.
//
// No driver can take back a batch. So flex plays the devices itself, and starts a batch as it
// ends, on an executor that takes no time (Network of instant).
type flex struct {
	models  []shared.Model
	delay   dispatch.Delay
	queues  [][]flexRequest // by model, the one due first at the head
	devices []flexDevice
	waiting int
}

type flexRequest struct {
	id  dispatch.RequestID
	due dispatch.Time
}

// flexDevice is what a device runs, until when; nothing where batch is empty.
type flexDevice struct {
	up    bool
	class int32
	batch []flexRequest
	end   dispatch.Time
}

// newFlex takes the models with their true durations.
func newFlex(models []shared.Model, delay dispatch.Delay) *flex {
	return &flex{models: models, delay: delay, queues: make([][]flexRequest, len(models))}
}

func (p *flex) Name() string     { return shepherd }
func (p *flex) Len() int         { return p.waiting }
func (p *flex) Describe() string { return fmt.Sprintf("shepherd: %d waiting\n", p.waiting) }

// takes is how long a batch of the model is on a device.
func (p *flex) takes(class int32, b int) dispatch.Time {
	return p.delay.Of(b) + p.models[class].Durations[b-1]
}

// Step takes one event and appends the actions that follow from it.
func (p *flex) Step(now dispatch.Time, ev dispatch.Event, out []dispatch.Action) []dispatch.Action {
	switch ev.Kind {
	case dispatch.ExecutorUp:
		for int(ev.Executor) >= len(p.devices) {
			p.devices = append(p.devices, flexDevice{})
		}
		p.devices[ev.Executor].up = true
	case dispatch.Arrive:
		r := ev.Request
		p.queues[r.Class] = append(p.queues[r.Class], flexRequest{r.ID, cmp.Or(r.Deadline, r.Arrival+p.models[r.Class].SLO) - 1})
		p.waiting++
	case dispatch.Cancel:
		c := ev.Request.Class
		before := len(p.queues[c])
		p.queues[c] = slices.DeleteFunc(p.queues[c], func(r flexRequest) bool { return r.id == ev.Request.ID })
		p.waiting -= before - len(p.queues[c])
	}
	for i := range p.devices {
		if d := &p.devices[i]; len(d.batch) > 0 && d.end <= now {
			ids := make([]dispatch.RequestID, len(d.batch))
			for k, r := range d.batch {
				ids[k] = r.id
			}
			out = append(out, dispatch.Action{Act: dispatch.Start, Executor: dispatch.ExecutorID(i), Class: d.class, Batch: ids})
			p.waiting -= len(ids)
			d.batch = nil
		}
	}
	for c := range p.queues {
		out = p.expire(now, int32(c), out)
	}
	out = p.fill(now, out)
	if ev.Kind == dispatch.Arrive {
		p.preempt(now, ev.Request.Class)
	}
	return p.arm(out)
}

// expire gives up requests that cannot be done even alone.
func (p *flex) expire(now dispatch.Time, class int32, out []dispatch.Action) []dispatch.Action {
	q, late := p.queues[class], 0
	for late < len(q) && now+p.takes(class, 1) > q[late].due {
		out = append(out, dispatch.Action{Act: dispatch.Drop, Request: q[late].id, Reason: dispatch.Late})
		late++
	}
	p.queues[class], p.waiting = q[late:], p.waiting-late
	return out
}

// candidate is the largest batch of the model that can be done in time: so many requests from a
// place in its queue on.
func (p *flex) candidate(now dispatch.Time, class int32) (from, size int) {
	q, most := p.queues[class], len(p.models[class].Durations)
	fits := func(at int) int { // the largest batch that the request there allows
		return sort.Search(most, func(b int) bool { return now+p.takes(class, b+1) > q[at].due })
	}
	// The later the head, the larger a batch it allows, and the fewer stand behind it.
	from = sort.Search(len(q), func(at int) bool { return fits(at) >= len(q)-at })
	if from < len(q) {
		size = len(q) - from
	}
	if from > 0 {
		if n := fits(from - 1); n >= size {
			from, size = from-1, n
		}
	}
	return from, size
}

// fill has every idle device begin the largest batch of all models.
func (p *flex) fill(now dispatch.Time, out []dispatch.Action) []dispatch.Action {
	for i := range p.devices {
		d := &p.devices[i]
		if !d.up || len(d.batch) > 0 {
			continue
		}
		var best int32
		from, size := 0, 0
		for c := range p.queues {
			if f, n := p.candidate(now, int32(c)); n > size {
				best, from, size = int32(c), f, n
			}
		}
		if size == 0 {
			break
		}
		p.begin(now, d, best, from, size)
	}
	return out
}

func (p *flex) begin(now dispatch.Time, d *flexDevice, class int32, from, size int) {
	q := p.queues[class]
	d.class, d.batch, d.end = class, slices.Clone(q[from:from+size]), now+p.takes(class, size)
	p.queues[class] = slices.Delete(q, from, from+size)
}

// preempt ends the smallest batch that runs for one of the model that is much larger.
func (p *flex) preempt(now dispatch.Time, class int32) {
	from, size := p.candidate(now, class)
	var least *flexDevice
	for i := range p.devices {
		if d := &p.devices[i]; len(d.batch) > 0 && (least == nil || len(d.batch) < len(least.batch)) {
			least = d
		}
	}
	if least == nil || float64(size) < preemptAt*float64(len(least.batch)) {
		return
	}
	given, back := least.batch, least.class
	p.begin(now, least, class, from, size)
	p.queues[back] = append(p.queues[back], given...)
	slices.SortStableFunc(p.queues[back], func(a, b flexRequest) int { return cmp.Compare(a.due, b.due) })
}

// arm sets a timer for when a batch ends or a request can no longer be done.
func (p *flex) arm(out []dispatch.Action) []dispatch.Action {
	at := dispatch.Never
	for i := range p.devices {
		if d := &p.devices[i]; len(d.batch) > 0 {
			at = min(at, d.end)
		}
	}
	for c, q := range p.queues {
		if len(q) > 0 {
			at = min(at, q[0].due-p.takes(int32(c), 1)+1)
		}
	}
	if at == dispatch.Never {
		return out
	}
	return append(out, dispatch.Action{Act: dispatch.SetTimer, At: at})
}

// instant is the network where a batch takes no time.
func (n Network) instant() Network {
	n.Each, n.Fixed = 0, float64(time.Nanosecond)/float64(time.Millisecond)
	return n
}
