package dispatcher

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/harpagon/harpagon/scheduler/autoscale"
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/flow"
	"github.com/harpagon/harpagon/scheduler/placement"
)

// A part of a cluster has one station, where the items of all modules of its pipelines
// wait: every module is a class to its policy, and any executor takes a batch of any.
// Each pipeline is a generation of its own, with its own graph, whose stations are all
// that one.

// compileCluster is Compile of a part of a cluster.
func (d *Dispatcher) compileCluster(of placement.Deployment) (*Generation, error) {
	part := &of.Cluster.Parts[0]
	g := &Generation{Graph: &flow.Graph{}, Deployment: of, members: []*Generation{}}
	graphs := make([]*flow.Graph, len(part.Members))
	for i := range part.Members {
		compiled, err := flow.Compile(&part.Members[i].Pipeline)
		if err != nil {
			return nil, fmt.Errorf("gateway: cluster %q: %w", part.Name, err)
		}
		graphs[i] = compiled
		g.members = append(g.members, &Generation{Graph: compiled, Deployment: of.Member(i), whole: g, base: len(g.Nodes)})
		g.Nodes = append(g.Nodes, compiled.Nodes...)
		g.homes = append(g.homes, slices.Repeat(g.members[i:], len(compiled.Nodes))...)
	}
	g.left.Store(int32(len(g.members)))
	made, err := buildCluster(&of, graphs, d.limits())
	g.policies = []builtPolicy{made}
	for _, m := range g.members { // with their times
		copy(g.Nodes[m.base:], m.Nodes)
	}
	for i := range g.Nodes {
		_, g.Nodes[i].Module = g.resident(i)
	}
	return g, err
}

// Members are the pipelines of a part of a cluster, in their order; none of any other
// generation.
func (g *Generation) Members() []*Generation { return g.members }

// MemberOf finds the generation that an item of a node is of, and the node's index in it.
func (g *Generation) MemberOf(node int32) (*Generation, int32) {
	if g.members == nil {
		return g, node
	}
	m := g.homes[node]
	return m, node - int32(m.base)
}

// placeOf is the opposite of MemberOf.
func (g *Generation) placeOf(index int32) (*Generation, int32) {
	if g.whole == nil {
		return g, index
	}
	return g.whole, index + int32(g.base)
}

// resident is the member of a node of a part, and its name among all modules.
func (g *Generation) resident(node int) (of *Generation, name string) {
	of, index := g.MemberOf(int32(node))
	return of, of.key(int(index))
}

// key names a module of a member among all that its cluster serves.
func (g *Generation) key(index int) string {
	return placement.Resident(g.Deployment.Pipeline.Name, g.Nodes[index].Module)
}

// clusterIdentity reports when executors of one deployment of a part can run what waits
// for those of another: while it has the same modules in all.
func clusterIdentity(g *Generation) string {
	var all []string
	for _, m := range g.members {
		for i := range m.Nodes {
			all = append(all, m.key(i)+"="+placement.Identity(&m.Deployment, m.Nodes[i].Module))
		}
	}
	slices.Sort(all)
	if slots := g.Deployment.Slots; len(slots) > 0 {
		all = append(all, slots[0].Model) // the digest of all of them
	}
	return strings.Join(all, "\n")
}

// installCluster is Install of a part of a cluster. Dispatcher.mu is held.
func (d *Dispatcher) installCluster(g *Generation, v *service, unfit []string) (moved int) {
	s := v.stations[placement.AllModules]
	if identity := clusterIdentity(g); s == nil || s.identity != identity {
		s = d.newStation(g, placement.AllModules, identity)
	}
	g.station(s)
	v.supersede(g, map[string]*station{placement.AllModules: s})
	c := setup{policy: g.policies[0].Policy, spec: g.policies[0].Spec, classes: g}
	for _, slot := range g.Deployment.Slots {
		e := d.executors[slot.Executor]
		if e == nil || slices.Contains(unfit, slot.Executor) {
			continue
		}
		if e.station != nil && e.station != s {
			e.station.remove(e)
		}
		e.station = s
		c.members = append(c.members, member{exec: e})
	}
	if s.elsewhere {
		if l := d.owner(s.service); l != nil {
			l.install(g)
		}
	}
	moved = s.configure(c)
	d.services[s.service] = v
	return moved
}

// adoptCluster is adopt of a part of a cluster. Dispatcher.mu is held.
func (d *Dispatcher) adoptCluster(g *Generation, v *service) {
	s := v.stations[placement.AllModules]
	if identity := clusterIdentity(g); s == nil || s.identity != identity {
		s = d.newStation(g, placement.AllModules, identity)
		s.configure(setup{policy: g.policies[0].Policy, spec: g.policies[0].Spec, classes: g})
	}
	g.station(s)
}

// station gives all modules of the part their one station.
func (g *Generation) station(s *station) {
	g.stations = []*station{s}
	for _, m := range g.members {
		m.stations = slices.Repeat([]*station{s}, len(m.Nodes))
	}
}

// residents are the modules that a station of a cluster serves.
type residents struct {
	of     *Generation // whose nodes are the classes
	counts []*moduleStats
	class  map[string]int32
}

// next are those of another generation. What was counted goes on.
func (r *residents) next(g *Generation, span time.Duration, now dispatch.Time) *residents {
	n := &residents{of: g, class: make(map[string]int32, len(g.Nodes))}
	for i := range g.Nodes {
		name := g.Nodes[i].Module
		counts := r.statsOf(name)
		if counts == nil {
			counts = new(moduleStats)
			counts.Init(span, now)
		}
		n.class[name], n.counts = int32(i), append(n.counts, counts)
	}
	return n
}

// statsOf are those of a module; nil where it is not served.
func (r *residents) statsOf(name string) *moduleStats {
	if r == nil {
		return nil
	}
	if class, ok := r.class[name]; ok {
		return r.counts[class]
	}
	return nil
}

// classify finds the class of an item's module; see station.classify.
func (r *residents) classify(it *Item) bool {
	g, class := it.Request.Generation.placeOf(it.Index)
	if g != r.of {
		var ok bool
		if class, ok = r.class[g.Nodes[class].Module]; !ok {
			return false
		}
	}
	it.class, it.stats = class, r.counts[class]
	return true
}

// measure is what was seen of one of the modules. The station's lock is held.
func (r *residents) measure(s *station, now dispatch.Time, name string, m *autoscale.ModuleMeasures) {
	counts := r.statsOf(name)
	if counts == nil {
		return // of another generation by now
	}
	counts.Measure(now, m)
	for i := range s.slots {
		if it := s.slots[i].item; it != nil && it.stats == counts {
			m.Waiting++
		}
	}
}
