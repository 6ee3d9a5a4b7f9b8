package placement

import (
	"cmp"
	"slices"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/plan"
	planning "github.com/harpagon/harpagon/scheduler/plan/demand"
)

// A plan of whole or shared devices lists the groups that run together on a device and
// proves that their batches are done in time. proven places it as it is: every machine of a
// group on a device of its own, and the groups that share one together. What others run on
// a device may stay there where the non-preemptive demand test still holds with it.

// unit is what must run on one device.
type unit struct {
	items []item
	tasks []planning.Task
	share float64

	// alone means that the device is for these executors only: batches run side by side,
	// and the profile does not cover others beside them, or come in bursts after which no
	// device time is guaranteed.
	alone bool

	// partners are groups of other pipelines that the plan has on the same device.
	partners []plan.Task
}

// ofDevices reports that the plan counts whole devices.
func (r *Request) ofDevices() bool {
	return r.Plan.CostModel == plan.CostWhole || r.Plan.CostModel == plan.CostShared
}

// bursts reports that batches need not come one period apart: requests are not proven one by
// one, or come otherwise than the proof has them.
func (r *Request) bursts() bool {
	return r.Plan.Proof != plan.EveryRequest || r.Pipeline.Arrivals != "" && r.Pipeline.Arrivals != pipelines.ArrivalsEven
}

// units lists what the plan wants together; nil when it is not a plan of
// devices.
func (r *Request) units(demands []demand) []unit {
	if !r.ofDevices() {
		return nil
	}
	find := func(module string, group int) *demand {
		i := slices.IndexFunc(demands, func(d demand) bool { return d.module == module && d.group == group })
		if i < 0 {
			return nil
		}
		return &demands[i]
	}
	var all []unit
	for _, d := range r.Plan.Devices {
		var u unit
		for _, t := range d.Tasks {
			if t.Pipeline != r.Plan.Pipeline {
				u.partners = append(u.partners, t)
				continue
			}
			if own := find(t.Module, t.Group); own != nil {
				u.add(item{demand: own, share: t.Share, period: t.Period, deadline: t.Deadline, atOnce: t.AtOnce, bursts: d.InPhase})
			}
		}
		if len(u.items) > 0 {
			all = append(all, u)
		}
	}
	for i := range demands {
		d := &demands[i]
		if d.config.Deadline > 0 || d.config.Period <= 0 {
			continue // shared, or not a group with batches to count
		}
		n := max(1, int(d.config.Machines+0.5))
		busy := max(1, n-int(d.config.Spare+0.5)) // when as many were taken back as are spare
		for range n {
			var u unit
			u.add(item{demand: d, share: d.share / float64(busy), period: d.config.Period * time.Duration(busy), deadline: d.config.Duration, bursts: d.config.Items > 0})
			all = append(all, u)
		}
	}
	slices.SortStableFunc(all, func(a, b unit) int { return cmp.Compare(b.share, a.share) })
	return all
}

func (u *unit) add(it item) {
	u.items = append(u.items, it)
	u.tasks = append(u.tasks, planning.Task{Duration: it.config.Duration.Seconds(), Period: it.period.Seconds(), Deadline: it.deadline.Seconds(), AtOnce: it.atOnce})
	u.share += it.share
	u.alone = u.alone || it.config.Concurrency > 1 || it.bursts
}

// proven places the units, where possible on devices that run what the plan has
// beside them, then on those that run them already, and then on the least used
// ones, of equal ones on hosts that have least of the same; nil when the devices are not enough for that.
func (r *Request) proven(units []unit) *packing {
	for _, overlap := range []bool{true, false} {
		p := r.empty(1, false)
		if overlap {
			p.expectOverlap(r)
		}
		tasks, known := r.reservedTasks(p)
		if p.placeUnits(r, units, tasks, known) {
			return p
		}
	}
	return nil
}

// reservedTasks are those of other pipelines by device. known is false for devices on which
// something runs without a known period, or in bursts.
func (r *Request) reservedTasks(p *packing) (tasks [][]planning.Task, known []bool) {
	tasks, known = make([][]planning.Task, len(p.loads)), make([]bool, len(p.loads))
	for i := range known {
		known[i] = true
	}
	for i := range r.Reserved {
		s := &r.Reserved[i]
		at := p.device(s)
		if at < 0 || s.Rides {
			continue
		}
		known[at] = known[at] && s.Period > 0 && s.Deadline > 0 && !s.Bursts && s.Concurrency <= 1
		tasks[at] = append(tasks[at], planning.Task{Duration: s.Duration.Seconds(), Period: s.Period.Seconds(), Deadline: s.Deadline.Seconds(), AtOnce: s.AtOnce})
	}
	return tasks, known
}

func (p *packing) placeUnits(r *Request, units []unit, tasks [][]planning.Task, known []bool) bool {
	taken := r.crowded()
	for _, u := range units {
		best, most, met := -1, -1, -1
		for at := range p.loads {
			if !known[at] || !p.takes(&u, at) || !u.keeps(tasks[at]) {
				continue
			}
			meets, runs := p.meets(r, &u, at), len(p.running(r, &u, at, taken))
			if best < 0 || meets > met || meets == met && (runs > most || runs == most && p.freer(u.items, at, best)) {
				best, most, met = at, runs, meets
			}
		}
		if best < 0 {
			return false
		}
		for _, i := range p.running(r, &u, best, taken) {
			taken[i] = true
			p.leaving[best] -= min(p.leaving[best], r.Actual[i].Memory)
		}
		for _, it := range u.items {
			p.put(r, it, best)
		}
		tasks[best], known[best] = append(tasks[best], u.tasks...), !u.alone
	}
	return true
}

// keeps reports whether all batches on a device are done in time when the unit runs
// beside what is there.
func (u *unit) keeps(there []planning.Task) bool {
	if u.alone {
		return len(there) == 0
	}
	return planning.NonPreemptive(append(slices.Clone(there), u.tasks...)).Sound
}

// meets counts the partners of a unit that run on a device.
func (p *packing) meets(r *Request, u *unit, at int) int {
	n := 0
	for _, t := range u.partners {
		if slices.ContainsFunc(r.Reserved, func(s Slot) bool {
			return s.Pipeline == t.Pipeline && s.Module == t.Module && s.Group == t.Group && s.place() == p.loads[at].Device.place()
		}) {
			n++
		}
	}
	return n
}

// takes reports whether hardware and memory of a device suit all of a unit.
func (p *packing) takes(u *unit, at int) bool {
	l := &p.loads[at]
	memory := int64(0)
	for _, it := range u.items {
		memory += it.memory
		if l.Device.Hardware != it.config.Hardware || slices.Contains(p.at[it.demand], at) {
			return false
		}
	}
	return l.Device.Memory == 0 || l.Memory+p.leaving[at]+memory <= l.Device.Memory
}

// running are the executors on a device that items of the unit can take over.
func (p *packing) running(r *Request, u *unit, at int, taken []bool) []int {
	var list []int
	for _, it := range u.items {
		for i := range r.Actual {
			s := &r.Actual[i]
			if !taken[i] && !slices.Contains(list, i) && p.device(s) == at && r.serves(s, it.demand) {
				list = append(list, i)
				break
			}
		}
	}
	return list
}
