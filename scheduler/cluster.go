package scheduler

import (
	"cmp"

	"github.com/harpagon/harpagon/scheduler/cluster"
	"github.com/harpagon/harpagon/scheduler/placement"
)

// clusterService is devices that any of several pipelines may use.
type clusterService struct{ noService }

func (clusterService) kind() Kind     { return KindCluster }
func (s clusterService) name() string { return s.Cluster.Name }

func (s clusterService) rate(Plan) float64 {
	sum := 0.0
	for i := range s.Members {
		sum += s.Members[i].Rate
	}
	return sum
}

func (s clusterService) solve(_ []Spec, fleet Fleet, limits Limits) []Plan {
	p := cluster.Solve(s.problem(fleet), cluster.Options{Stop: limits.ended(), Policies: limits.Policies.Dispatch})
	return []Plan{{Cluster: &p}}
}

// problem is a cluster on what the fleet has of its hardware and others do not hold.
func (s clusterService) problem(fleet Fleet) cluster.Problem {
	p := cluster.Problem{Cluster: *s.Cluster, Pipelines: s.Members, Wanted: s.Devices, Grows: fleet.offers(s.Cluster.Hardware)}
	for _, h := range s.Hardware {
		if h.Name == s.Cluster.Hardware && h.Count > 0 && p.Grows { // as many as hosts may be made for
			p.Cluster.Devices.Max = cmp.Or(min(p.Cluster.Devices.Max, h.Count), h.Count)
		}
	}
	for _, h := range fleet.available(s.Hardware) {
		if h.Name != s.Cluster.Hardware {
			continue
		}
		if fleet.Devices == nil {
			p.Hardware = h
		} else if h.Count -= fleet.occupied()[h.Name]; h.Count > 0 {
			p.Hardware = h
		} else {
			p.Holders = fleet.holders(h.Name)
		}
	}
	return p
}

func (s clusterService) deploy(d *placement.Deployment, p Plan) {
	d.Pipeline.Name = s.Cluster.Name
	d.Cluster = s.parts(*p.Cluster)
}

// parts are the sub-clusters that the plan of a cluster has.
func (s clusterService) parts(p cluster.Plan) *placement.Cluster {
	c := &placement.Cluster{Dispatch: p.Dispatch, Hardware: p.Hardware}
	for _, sub := range p.SubClusters {
		part := placement.Part{Name: sub.Name, Devices: sub.Devices}
		for _, name := range sub.Pipelines {
			for _, m := range s.Members {
				if m.Name == name {
					part.Members = append(part.Members, placement.Member{Pipeline: m, Budgets: p.BudgetsOf(name)})
				}
			}
		}
		c.Parts = append(c.Parts, part)
	}
	return c
}
