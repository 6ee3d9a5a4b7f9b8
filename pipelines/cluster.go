package pipelines

import "slices"

// Cluster is a set of devices of one kind, any of which may run any module of the
// pipelines in it; one dispatcher decides for all of them together (Symphony).
// Its pipelines are planned and served in it, and not by themselves.
type Cluster struct {
	Name      string
	Hardware  string   // the kind of its devices
	Devices   Range    // how many it may have; the zero value is as many as it needs
	Dispatch  string   // one of ClusterDispatches, with variants or without; empty means the first
	Pipelines []string // names
}

// Range is from how many to how many.
type Range struct{ Min, Max int }

// ClusterDispatches lists the dispatch policies that a cluster may name, the
// default first.
func ClusterDispatches() []string {
	return slices.DeleteFunc(Dispatches(), DispatchesGroups)
}

// Members are the pipelines of the cluster, in their order in it. Names that no
// pipeline has are left out.
func (d *Document) Members(c *Cluster) []Pipeline {
	var all []Pipeline
	for _, name := range c.Pipelines {
		if i := slices.IndexFunc(d.Pipelines, func(p Pipeline) bool { return p.Name == name }); i >= 0 {
			all = append(all, d.Pipelines[i])
		}
	}
	return all
}

// ClusterOf names the cluster that a pipeline is in; empty where it is in none.
func (d *Document) ClusterOf(pipeline string) string {
	for _, c := range d.Clusters {
		if slices.Contains(c.Pipelines, pipeline) {
			return c.Name
		}
	}
	return ""
}
