package placement

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Place finds a device for every executor that the plan needs. A plan of whole
// or shared devices is placed as it was proven where the devices allow it (see
// proven.go). Otherwise shares of device time are packed: of the devices
// of the right hardware it takes, for the greatest share first, the one that
// already runs such an executor, then the least used one; when that does not
// work out it packs tightly, then cuts groups into more executors.
//
// Two executors of one group never share a device. When the plan does not fit
// the error is a *MisfitError.
func Place(r Request) (Placement, error) {
	bound, err := r.maxShare()
	if err != nil {
		return Placement{}, err
	}
	if err := r.check(); err != nil {
		return Placement{}, err
	}
	demands, riders := apart(r.demands(1))
	if units := r.units(demands); len(units) > 0 && !r.Whole {
		if p := r.proven(units); p != nil && p.ride(&r, riders) == nil {
			out := p.result(&r)
			out.Proven = true
			return out, nil
		}
	}
	p, misfit := r.pack(demands, bound)
	if misfit == nil {
		misfit = p.ride(&r, riders)
	}
	if misfit != nil {
		return Placement{}, r.explain(*misfit, bound)
	}
	return p.result(&r), nil
}

// packing is a placement in the making.
type packing struct {
	bound float64
	tight bool // fill devices up instead of balancing them
	loads []Load
	at    map[*demand][]int // devices that run the group

	// leaving is the memory, by device, of running executors that have found no
	// further use yet: it is free only after the new ones have started.
	leaving []int64
	slots   []Slot
}

// pack tries from the most pleasant packing to the densest. It returns the
// item that found no device when cut no finer than needed.
func (r *Request) pack(demands []demand, bound float64) (*packing, *item) {
	var misfit *item
	for _, try := range []struct {
		keep, overlap, tight bool
		cut                  cutter
	}{
		{true, true, false, r.asRunning},
		{true, true, false, finer(1)}, {true, true, true, finer(1)},
		{true, false, true, finer(1)}, {false, false, true, finer(1)},
		{false, false, true, finer(2)}, {false, false, true, finer(3)},
	} {
		if r.Whole {
			try.cut = finer(1)
		}
		p := r.empty(bound, try.tight)
		if try.overlap {
			p.expectOverlap(r)
		}
		failed := p.fill(r, items(demands, bound, try.cut), try.keep)
		if failed == nil {
			return p, nil
		}
		if misfit == nil {
			misfit = failed
		}
	}
	return nil, misfit
}

func (r *Request) empty(bound float64, tight bool) *packing {
	p := &packing{bound: bound, tight: tight, at: map[*demand][]int{}}
	for _, d := range r.Devices {
		load := Load{Device: d}
		for i := range r.Reserved {
			if r.Reserved[i].place() == d.place() {
				load.Share += r.Reserved[i].Share
				load.Memory += r.Reserved[i].Memory
			}
		}
		p.loads = append(p.loads, load)
	}
	p.leaving = make([]int64, len(p.loads))
	return p
}

// expectOverlap counts the memory of what runs until it is known to stay.
func (p *packing) expectOverlap(r *Request) {
	for i := range r.Actual {
		if at := p.device(&r.Actual[i]); at >= 0 {
			p.leaving[at] += r.Actual[i].Memory
		}
	}
}

func (p *packing) device(s *Slot) int {
	return slices.IndexFunc(p.loads, func(l Load) bool { return l.Device.place() == s.place() })
}

// fill places every item, first those that may stay where they run. It returns
// the first item that finds no device.
func (p *packing) fill(r *Request, all []item, keep bool) *item {
	var rest []item
	taken := r.crowded()
	for _, it := range all {
		if i, at := -1, -1; keep {
			if i, at = p.stays(r, it, taken); at >= 0 {
				taken[i] = true
				p.leaving[at] -= min(p.leaving[at], r.Actual[i].Memory)
				p.put(r, it, at)
				continue
			}
		}
		rest = append(rest, it)
	}
	for i := range rest {
		at := p.choose(rest[i])
		if at < 0 {
			return &rest[i]
		}
		p.put(r, rest[i], at)
	}
	return nil
}

// crowded marks the running executors that are not to stay: one of each module that is OnOneHost,
// where another host has a device that nothing uses.
func (r *Request) crowded() []bool {
	moves := make([]bool, len(r.Actual))
	free := slices.DeleteFunc(slices.Clone(r.Devices), func(d Device) bool {
		on := func(s Slot) bool { return s.place() == d.place() }
		return slices.ContainsFunc(r.Actual, on) || slices.ContainsFunc(r.Reserved, on)
	})
	for _, first := range OnOneHost(r.Actual) {
		s := &r.Actual[first]
		at := slices.IndexFunc(free, func(d Device) bool { return d.Hardware == s.Hardware && d.Host != s.Host })
		if at >= 0 && !r.Whole {
			moves[first], free = true, slices.Delete(free, at, at+1)
		}
	}
	return moves
}

// OnOneHost returns the first executor of each module that has several, all on one host: none of
// them is left when that is lost. Modules whose executors ride do not count.
func OnOneHost(slots []Slot) (first []int) {
	for i, s := range slots {
		same := func(o Slot) bool { return o.Pipeline == s.Pipeline && o.Module == s.Module }
		elsewhere := func(o Slot) bool { return same(o) && o.Host != s.Host }
		if !s.Rides && slices.IndexFunc(slots, same) == i && slices.ContainsFunc(slots[i+1:], same) && !slices.ContainsFunc(slots, elsewhere) {
			first = append(first, i)
		}
	}
	return first
}

// stays finds a running executor that can serve the item, and its device; one
// that serves the same group before others.
func (p *packing) stays(r *Request, it item, taken []bool) (slot, device int) {
	slot, device = -1, -1
	for i := range r.Actual {
		s := &r.Actual[i]
		if taken[i] || !r.serves(s, it.demand) {
			continue
		}
		at := p.device(s)
		if at < 0 || !p.fits(it, at, s.Memory) {
			continue
		}
		if s.Group == it.group {
			return i, at
		}
		if slot < 0 {
			slot, device = i, at
		}
	}
	return slot, device
}

// fits reports whether a device takes the item; own is the memory of the running
// executor that the item would take over.
func (p *packing) fits(it item, at int, own int64) bool {
	l := &p.loads[at]
	return l.Device.Hardware == it.config.Hardware &&
		l.Share+it.share <= p.bound+tolerance &&
		(l.Device.Memory == 0 || l.Memory+max(0, p.leaving[at]-own)+it.memory <= l.Device.Memory) &&
		!slices.Contains(p.at[it.demand], at)
}

// choose picks the least used device that the item fits on, or the most used
// one when packing tightly; of equal ones on the host that has least of the same.
func (p *packing) choose(it item) int {
	best := -1
	for at := range p.loads {
		if !p.fits(it, at, 0) {
			continue
		}
		if best < 0 || p.tight && p.loads[at].Share > p.loads[best].Share+tolerance ||
			!p.tight && p.freer([]item{it}, at, best) {
			best = at
		}
	}
	return best
}

// freer reports whether a device is used less than another, or as much and its host runs
// fewer of what is to be placed: so that a host which is lost leaves some elsewhere.
func (p *packing) freer(items []item, at, other int) bool {
	if d := p.loads[at].Share - p.loads[other].Share; d < -tolerance || d > tolerance {
		return d < 0
	}
	return p.onHost(items, at) < p.onHost(items, other)
}

// onHost counts the executors of the items' modules on the host of a device.
func (p *packing) onHost(items []item, at int) (n int) {
	for i := range p.slots {
		if p.slots[i].Host == p.loads[at].Device.Host && slices.ContainsFunc(items, func(it item) bool { return it.module == p.slots[i].Module }) {
			n++
		}
	}
	return n
}

func (p *packing) put(r *Request, it item, at int) {
	l := &p.loads[at]
	l.Share += it.share
	l.Memory += it.memory
	p.at[it.demand] = append(p.at[it.demand], at)
	p.slots = append(p.slots, Slot{
		Pipeline: r.Plan.Pipeline, Module: it.module, Group: it.group,
		Batches: it.sizes, Batch: it.config.Batch, Window: it.config.Window, Duration: it.config.Duration,
		Hardware: it.config.Hardware, Host: l.Device.Host, Device: l.Device.Name,
		Engine: it.engine.Engine, Model: it.engine.Model, Share: it.share, Memory: it.memory,
		Period: it.period, Deadline: it.deadline, AtOnce: it.atOnce, Bursts: it.bursts || r.bursts(), Rides: it.config.Rides, Concurrency: sideBySide(it.config),
	})
}

// result orders the slots and names them.
func (p *packing) result(r *Request) Placement {
	order := map[string]int{}
	for i, m := range r.Plan.Modules {
		order[m.Name] = i
	}
	slices.SortStableFunc(p.slots, func(a, b Slot) int {
		return cmp.Or(cmp.Compare(order[a.Module], order[b.Module]), cmp.Compare(a.Group, b.Group),
			cmp.Compare(a.Host, b.Host), cmp.Compare(a.Device, b.Device))
	})
	name(p.slots, r.Actual, r.Start)
	return Placement{Slots: p.slots, Loads: p.loads}
}

// Processing steps that ride (plan.Group.Rides) go beside executors of their
// pipeline, after these have found their devices: they need no turn on the device
// and take next to nothing of it.

// apart divides demands into those that need devices and those that ride.
func apart(all []demand) (own, riders []demand) {
	for _, d := range all {
		if d.config.Rides {
			riders = append(riders, d)
		} else {
			own = append(own, d)
		}
	}
	return own, riders
}

// ride places the riders: each where it runs already, or on the least used device
// of its hardware that holds an executor of the pipeline, and where there is none
// on any. It returns the first that finds no device.
func (p *packing) ride(r *Request, riders []demand) *item {
	hosts := make([]bool, len(p.loads))
	for i := range p.slots {
		if at := p.device(&p.slots[i]); at >= 0 {
			hosts[at] = true
		}
	}
	for i := range riders {
		it := item{demand: &riders[i], share: riders[i].share}
		best := -1
		for at := range p.loads {
			l := &p.loads[at]
			if l.Device.Hardware != it.config.Hardware || l.Device.Memory > 0 && l.Memory+p.leaving[at]+it.memory > l.Device.Memory {
				continue
			}
			if best < 0 || p.carries(r, it, at, hosts) > p.carries(r, it, best, hosts) ||
				p.carries(r, it, at, hosts) == p.carries(r, it, best, hosts) && l.Share < p.loads[best].Share-tolerance {
				best = at
			}
		}
		if best < 0 {
			return &it
		}
		p.put(r, it, best)
	}
	return nil
}

// carries ranks a device for a rider: 2 beside an executor of the pipeline where
// the rider runs already, 1 beside an executor, 0 elsewhere.
func (p *packing) carries(r *Request, it item, at int, hosts []bool) int {
	if !hosts[at] {
		return 0
	}
	if slices.ContainsFunc(r.Actual, func(s Slot) bool { return s.Rides && r.serves(&s, it.demand) && p.device(&s) == at }) {
		return 2
	}
	return 1
}

// explain reports why an item found no device, and what rate would fit.
func (r *Request) explain(it item, bound float64) *MisfitError {
	e := &MisfitError{Module: it.module, Hardware: it.config.Hardware}
	kind := fmt.Sprintf("devices of hardware %s", it.config.Hardware)
	loads := r.empty(bound, false).loads
	loads = slices.DeleteFunc(loads, func(l Load) bool { return l.Device.Hardware != it.config.Hardware })
	if len(loads) == 0 {
		e.Reason = fmt.Sprintf("there are no %s; start a worker on a host that has one, or plan for other hardware", kind)
		return e
	}
	need, taken := 0.0, 0.0
	for _, d := range r.demands(1) {
		if d.config.Hardware == it.config.Hardware {
			need += d.share
		}
	}
	room := false
	for _, l := range loads {
		taken += math.Min(bound, l.Share)
		room = room || l.Device.Memory == 0 || l.Memory+it.memory <= l.Device.Memory
	}
	if !room {
		e.Reason = fmt.Sprintf("it needs %d MiB of memory and none of the %d %s has as much free", mebibytes(it.memory), len(loads), kind)
		return e
	}
	e.Rate = r.largestRate(bound)
	have := float64(len(loads))*bound - taken
	if missing := need - have; missing > tolerance {
		e.Reason = fmt.Sprintf("the plan needs %s %s and %s are free (%d at a utilisation of at most %s, less what others use), so %s are missing",
			devices(need), kind, devices(have), len(loads), percent(bound), devices(missing))
	} else {
		e.Reason = fmt.Sprintf("a share of %s is too large for what is left of any of the %d %s", percent(it.share), len(loads), kind)
	}
	return e
}

// largestRate is the highest rate of the pipeline that fits, by bisection over
// shares scaled in proportion, to one part in a thousand and rounded down.
func (r *Request) largestRate(bound float64) float64 {
	const steps = 12
	low, high := 0.0, 1.0
	for range steps {
		mid := (low + high) / 2
		if _, misfit := r.pack(r.demands(mid), bound); misfit == nil {
			low = mid
		} else {
			high = mid
		}
	}
	rate := low * r.Pipeline.Rate
	if !(rate > 0) {
		return 0
	}
	digits := math.Pow(10, 2-math.Floor(math.Log10(rate)))
	return math.Floor(rate*digits) / digits
}
