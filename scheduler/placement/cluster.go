package placement

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/harpagon/harpagon/pipelines"
)

// Cluster is set in the deployment of devices any of which runs all modules of several
// pipelines.
type Cluster struct {
	Dispatch string // policy
	Hardware string
	Parts    []Part // sub-clusters, each with a dispatcher and devices of its own
}

// Part is a sub-cluster.
type Part struct {
	Name    string // unique among services and parts
	Devices int
	Members []Member
}

// Member is a pipeline of a part.
type Member struct {
	Pipeline pipelines.Pipeline
	Budgets  map[string]time.Duration // by module
}

// AllModules is the module of a slot whose executor runs all modules of a part.
const AllModules = "*"

// Resident names a module of a member among all that are loaded on a device.
func Resident(pipeline, module string) string { return pipeline + "/" + module }

// Apart are the deployments of the parts of a cluster, each with its slots.
func (d Deployment) Apart() []Deployment {
	var all []Deployment
	for _, part := range d.Cluster.Parts {
		one := Deployment{Generation: d.Generation, Life: d.Life, Cluster: &Cluster{d.Cluster.Dispatch, d.Cluster.Hardware, []Part{part}}}
		one.Pipeline.Name = part.Name
		for _, s := range d.Slots {
			if s.Pipeline == part.Name {
				one.Slots = append(one.Slots, s)
			}
		}
		all = append(all, one)
	}
	return all
}

// Member is the deployment of one pipeline of a part of a cluster.
func (d Deployment) Member(i int) Deployment {
	return Deployment{Generation: d.Generation, Life: d.Life, Pipeline: d.Cluster.Parts[0].Members[i].Pipeline, Slots: d.Slots, Within: d.Pipeline.Name}
}

// Union are all modules of all parts, each by its name as Resident.
func (c *Cluster) Union() (all []pipelines.Module) {
	for _, part := range c.Parts {
		for _, member := range part.Members {
			for _, m := range member.Pipeline.Modules {
				m.Name = Resident(member.Pipeline.Name, m.Name)
				all = append(all, m)
			}
		}
	}
	return all
}

// ClusterRequest is everything that PlaceCluster looks at.
type ClusterRequest struct {
	Cluster  Cluster
	Devices  []Device
	Engines  map[string]ModuleEngine // by Resident
	Reserved []Slot                  // of other services
	Actual   []Slot                  // of this one that run now
	Start    int                     // as in Request
}

// PlaceCluster gives every part of a cluster its devices, each for itself: those on
// which the same executor runs already before others, in their order. When there are
// too few, or the modules do not fit on one together, the error is a *MisfitError.
func PlaceCluster(r ClusterRequest) (Placement, error) {
	var out Placement
	taken := map[place]bool{}
	for i := range r.Reserved {
		taken[r.Reserved[i].place()] = true
	}
	all := make([]Slot, len(r.Cluster.Parts))
	for k := range r.Cluster.Parts {
		all[k] = r.slot(&r.Cluster.Parts[k])
	}
	missing := make([]int, len(all))
	put := func(k int, d Device) {
		taken[d.place()] = true
		missing[k]--
		s := all[k]
		s.Host, s.Device = d.Host, d.Name
		out.Slots = append(out.Slots, s)
	}
	for k := range all { // what runs stays
		missing[k] = r.Cluster.Parts[k].Devices
		for _, d := range r.Devices {
			if missing[k] > 0 && !taken[d.place()] && r.suits(&all[k], d) && r.runs(&all[k], d) {
				put(k, d)
			}
		}
	}
	for k := range all {
		for _, d := range r.Devices {
			if missing[k] > 0 && !taken[d.place()] && r.suits(&all[k], d) {
				put(k, d)
			}
		}
		if missing[k] > 0 {
			return Placement{}, r.misfit(k, &all[k], missing[k], taken)
		}
	}
	slices.SortStableFunc(out.Slots, func(a, b Slot) int {
		return cmp.Or(cmp.Compare(a.Pipeline, b.Pipeline), cmp.Compare(a.Host, b.Host), cmp.Compare(a.Device, b.Device))
	})
	name(out.Slots, r.Actual, r.Start)
	for _, d := range r.Devices {
		load := Load{Device: d}
		for _, s := range slices.Concat(r.Reserved, out.Slots) {
			if s.place() == d.place() {
				load.Share, load.Memory = min(1, load.Share+s.Share), load.Memory+s.Memory
			}
		}
		out.Loads = append(out.Loads, load)
	}
	return out, nil
}

// slot is the executor of a part, without its device.
func (r *ClusterRequest) slot(part *Part) Slot {
	s := Slot{Pipeline: part.Name, Module: AllModules, Hardware: r.Cluster.Hardware, Share: 1}
	digest := fnv.New64a()
	engines := map[string]bool{}
	var dynamic int64
	for _, member := range part.Members {
		for i := range member.Pipeline.Modules {
			m := &member.Pipeline.Modules[i]
			key := Resident(member.Pipeline.Name, m.Name)
			e := r.Engines[key]
			_, _ = fmt.Fprintf(digest, "%s\x00%s\x00%s\x00", key, e.Engine, e.Model) // a hash takes everything
			if e.Engine != "" {
				engines[e.Engine] = true
			}
			least, most := e.Memory, e.Memory
			for _, at := range m.Profile.Points {
				if at.Hardware != s.Hardware || at.Concurrency > 1 {
					continue
				}
				s.Batch = max(s.Batch, at.Batch)
				if at.MemoryMiB > 0 {
					bytes := int64(at.MemoryMiB * (1 << 20))
					least, most = min(least, bytes), max(most, bytes)
				}
			}
			s.Memory += least
			dynamic = max(dynamic, most-least)
		}
	}
	s.Memory += dynamic // one of them runs at a time
	s.Engine = strings.Join(slices.Sorted(maps.Keys(engines)), "+")
	s.Model = fmt.Sprintf("%016x", digest.Sum64())
	return s
}

// suits reports whether the executor can run on the device.
func (r *ClusterRequest) suits(s *Slot, d Device) bool {
	return d.Hardware == s.Hardware && (d.Memory == 0 || s.Memory <= d.Memory)
}

// runs reports whether it does so already.
func (r *ClusterRequest) runs(s *Slot, d Device) bool {
	at := *s
	at.Host, at.Device = d.Host, d.Name
	content := at.content()
	return slices.ContainsFunc(r.Actual, func(a Slot) bool { return a.content() == content })
}

// misfit reports why a part finds too few devices.
func (r *ClusterRequest) misfit(k int, s *Slot, missing int, taken map[place]bool) error {
	part := &r.Cluster.Parts[k]
	kind, small, free := 0, 0, 0
	for _, d := range r.Devices {
		switch {
		case d.Hardware != s.Hardware:
			continue
		case !r.suits(s, d):
			small++
		case !taken[d.place()]:
			free++
		}
		kind++
	}
	e := &MisfitError{Module: part.Name, Hardware: s.Hardware}
	switch {
	case kind == 0:
		e.Reason = fmt.Sprintf("there are no devices of hardware %s; start a worker on a host that has one", s.Hardware)
	case small == kind:
		e.Reason = fmt.Sprintf("its modules together take %d MiB and none of the %d devices of hardware %s has as much; take pipelines out of the cluster, or leave the plan room to divide it",
			mebibytes(s.Memory), kind, s.Hardware)
	default:
		e.Reason = fmt.Sprintf("it needs %d devices of hardware %s, which it does not share, and %d of the %d are missing: others use them, or they have too little memory; start more workers, or lower the rates",
			part.Devices, s.Hardware, missing, kind)
	}
	return e
}
