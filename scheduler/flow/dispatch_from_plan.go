package flow

import (
	"slices"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/dispatch/admission"
	"github.com/harpagon/harpagon/scheduler/dispatch/tc"
	"github.com/harpagon/harpagon/scheduler/plan"
)

// Schedule fills in the times of the nodes: budgets by module, and what is kept
// for each module while a request is at those above it. Along a path budgets
// and what is kept add up; of several paths the longest counts.
func (g *Graph) Schedule(budget map[string]time.Duration, keep map[string]KeptWindows) {
	for i := range g.Nodes {
		n := &g.Nodes[i]
		n.Budget = budget[n.Module]
		for _, d := range n.Down {
			g.Nodes[d].Offset = max(g.Nodes[d].Offset, n.Offset+n.Budget)
		}
	}
	for i := len(g.Nodes) - 1; i >= 0; i-- {
		n := &g.Nodes[i]
		for _, d := range n.Down {
			below := &g.Nodes[d]
			n.Keep = n.Keep.Max(below.Keep.Plus(keep[below.Module]))
		}
	}
}

// Below is what the plan gives the modules below a node beyond the least that they need,
// where requests come to it with nothing done for them yet; else 0 (tc.Options.Below).
func (n *Node) Below() time.Duration {
	if n.Feeders > 0 {
		return 0
	}
	return n.Keep.Planned - n.Keep.Least
}

// SetTimes fills in the times of an item at the node from the arrival and deadline of its
// request; a deadline of 0 is none. kept is the part of the deadline reserved for the
// modules below.
func (n *Node) SetTimes(r *dispatch.Request, arrival, deadline, kept dispatch.Time) {
	r.Arrival, r.Deadline, r.End = arrival+n.Offset, leaveBy(deadline, kept), deadline
}

// leaveBy is the latest that an item may leave its node; 0 where there is no deadline.
func leaveBy(deadline, kept dispatch.Time) dispatch.Time {
	if deadline == 0 {
		return 0
	}
	return max(1, deadline-kept)
}

// Due is when an item should leave the node: by the plan when its budget has
// passed since its virtual arrival, and no later than its deadline there.
// Devices that several executors share run batches in this order.
func (n *Node) Due(arrival, deadline, kept dispatch.Time) dispatch.Time {
	due, last := arrival+n.Offset+n.Budget, leaveBy(deadline, kept)
	switch {
	case last == 0:
		return due
	case n.Budget <= 0:
		return last
	}
	return min(due, last)
}

// DispatchGroups are the groups of a planned module as policy tc takes them, in the
// order of the plan, with durations by batch size from the profile, their spread counted as far as
// that of a full batch is in the plan.
func DispatchGroups(declared *pipelines.Module, planned *plan.Module) []tc.Group {
	var all []tc.Group
	var points []pipelines.Point
	if declared != nil {
		points = pipelines.Raised(declared.Profile.Points)
	}
	for _, g := range planned.Groups {
		spread := time.Duration(0)
		if planned.Burst > 0 && g.Items == 0 && !g.Rides {
			spread = plan.ToDuration(float64(planned.Burst) / planned.Rate)
		}
		all = append(all, tc.Group{
			Batch: g.Batch, Window: g.Window, Duration: g.Duration, Period: g.Period, Deadline: g.Deadline, Items: g.Items, AnyPhase: planned.AnyPhase && g.Items > 0, Spread: spread,
			Durations: Durations(points, g.Hardware, g.Batch, g.Concurrency, g.Duration),
		})
	}
	return all
}

// Durations of batches of 1 to batch requests: each takes as long as the
// smallest profiled batch that is at least as large, since engines pad, and at
// most full, the time of a batch that is full. It is nil where there is no such batch.
func Durations(points []pipelines.Point, hardware string, batch, concurrency int, full time.Duration) []time.Duration {
	if batch < 1 {
		return nil
	}
	out := make([]time.Duration, batch)
	for n := range out {
		out[n] = full
		size := batch
		for _, p := range points {
			if p.Hardware == hardware && max(p.Concurrency, 1) == max(concurrency, 1) && p.Batch > n && p.Batch < size {
				size, out[n] = p.Batch, min(p.Duration, full)
			}
		}
	}
	return out
}

// DurationTable is Durations for everything that was profiled on the hardware, one
// batch at a time, up to the largest batch; nil where nothing was.
func DurationTable(m *pipelines.Module, hardware string) []time.Duration {
	largest, full := 0, time.Duration(0)
	for _, p := range m.Profile.Points {
		if p.Hardware == hardware && p.Concurrency <= 1 && p.Batch > largest {
			largest, full = p.Batch, p.Duration
		}
	}
	return Durations(m.Profile.Points, hardware, largest, 1, full)
}

// LeastTime is the time of the quickest batch that the groups run; 0 for none.
func LeastTime(groups []tc.Group) time.Duration {
	least := time.Duration(-1)
	for _, g := range groups {
		quickest := g.Duration
		if len(g.Durations) > 0 {
			quickest = min(quickest, g.Durations[0])
		}
		if least < 0 || quickest < least {
			least = quickest
		}
	}
	return max(least, 0)
}

// EarlyStart reports when the tc dispatchers of a planned pipeline may start batches
// before they are due; eager false means never. What a plan proves for every
// request, it proves for even arrivals. Where others are declared, or the proof
// is about a share of requests, an early start can break no promise.
func EarlyStart(eager bool, declared *pipelines.Pipeline, p *plan.Plan) tc.EarlyStart {
	switch {
	case !eager:
		return tc.EarlyNever
	case p.Sound && p.Proof == plan.EveryRequest && even(declared.Arrivals):
		return tc.EarlyWithinPromise
	}
	return tc.EarlyAlways
}

// ModuleEarlyStart is EarlyStart for one module. Where batches of bursts that come at one instant run
// one after the other, and where a device keeps its promises because it is known when each is released,
// nothing starts before its virtual arrival.
func ModuleEarlyStart(eager bool, declared *pipelines.Pipeline, p *plan.Plan, m *plan.Module) tc.EarlyStart {
	how := EarlyStart(eager, declared, p)
	if how != tc.EarlyWithinPromise || m == nil {
		return how
	}
	phased := slices.ContainsFunc(p.Devices, func(d plan.Device) bool {
		return d.InPhase && slices.ContainsFunc(d.Tasks, func(t plan.Task) bool { return t.Pipeline == p.Pipeline && t.Module == m.Name })
	})
	collects := m.AnyPhase && !slices.ContainsFunc(m.Groups, func(g plan.Group) bool { return g.Items == 0 })
	if m.Burst > 0 && !collects || phased {
		return tc.EarlyNever
	}
	return how
}

func even(arrivals string) bool { return arrivals == "" || arrivals == "even" }

// KeptWindows is how much of a request's time is kept for a module while it is at the
// modules above: its deadline there is that much sooner by LeastTime, and it should
// leave sooner than that, by Planned.
type KeptWindows struct {
	Least, Planned time.Duration
}

// KeepWindows reports what is kept for a module. A policy that cuts batches for the groups
// of the plan sends them off by their windows and gives up what is hopeless: the least that the module needs is kept.
// What the plan gives it beyond that counts where a request has taken nothing yet,
// and others take its place (tc.Options.Below). The other policies hold batches
// back for as long as deadlines allow, and would leave nothing to those below but a
// batch of one: for them a module always keeps its budget.
func KeepWindows(ofGroups bool, m *plan.Module, groups []tc.Group) KeptWindows {
	least := LeastTime(groups)
	if m == nil {
		return KeptWindows{least, least}
	}
	k := KeptWindows{least, max(least, m.Budget)}
	if !ofGroups {
		k.Least = k.Planned
	}
	return k
}

// Plus adds what two modules keep, one below the other.
func (k KeptWindows) Plus(other KeptWindows) KeptWindows {
	return KeptWindows{k.Least + other.Least, k.Planned + other.Planned}
}

// Max is the larger of what two paths keep.
func (k KeptWindows) Max(other KeptWindows) KeptWindows {
	return KeptWindows{max(k.Least, other.Least), max(k.Planned, other.Planned)}
}

// AdmissionService describes a planned pipeline to admission control. modules are those
// that run, each after all that feed it; devices returns the devices of a group's
// executors, once for each batch that runs there at a time. A module outside the plan
// counts as no work.
func AdmissionService(declared *pipelines.Pipeline, p *plan.Plan, modules []string, devices func(module string, group int) []int) admission.Service {
	s := admission.Service{SLO: declared.SLO, Rate: declared.Rate, Promised: EarlyStart(true, declared, p) == tc.EarlyWithinPromise}
	one := *declared
	if one.Rate <= 0 {
		one.Rate = 1
	}
	rates := one.Rates()
	for _, name := range modules {
		m := admission.Module{Items: rates[name] / one.Rate, Most: declared.Module(name).MostItems()}
		for _, up := range declared.Upstream(name) {
			if at := slices.Index(modules, up); at >= 0 {
				s.Modules[at].Down = append(s.Modules[at].Down, len(s.Modules))
				m.Feeders++
			}
		}
		if k := slices.IndexFunc(p.Modules, func(m plan.Module) bool { return m.Name == name }); k >= 0 {
			m.Groups = admissionGroups(declared, &p.Modules[k], devices)
		}
		s.Modules = append(s.Modules, m)
	}
	return s
}

// admissionGroups gives each group its part of the module's items: by the rates
// of the plan, or alike where it states none, among groups that have executors.
func admissionGroups(declared *pipelines.Pipeline, m *plan.Module, devices func(string, int) []int) []admission.Group {
	var groups []admission.Group
	sum, staffed := 0.0, 0.0
	for i, g := range DispatchGroups(declared.Module(m.Name), m) {
		on := admission.Group{Durations: g.DurationTable(), Devices: devices(m.Name, i)}
		if len(on.Devices) > 0 {
			on.Share = m.Groups[i].Rate
			staffed++
		}
		sum += on.Share
		groups = append(groups, on)
	}
	for i := range groups {
		switch {
		case sum > 0:
			groups[i].Share /= sum
		case len(groups[i].Devices) > 0:
			groups[i].Share = 1 / staffed
		}
	}
	return groups
}
