package experiments

import (
	"context"
	"errors"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler"
	"github.com/harpagon/harpagon/scheduler/cluster"
	"github.com/harpagon/harpagon/scheduler/plan"
)

// A device of what is planned together; only ratios of its price matter.
const togetherPrice = 1.0

// togetherSpecs are so many networks of the a100, each asked for so often that it needs
// that share of a device at its best batch: as a cluster, and then each by itself.
func togetherSpecs(networks int, share float64) []scheduler.Spec {
	hardware := []pipelines.Hardware{{Name: deviceKind, Price: togetherPrice}}
	c := scheduler.Spec{Cluster: &pipelines.Cluster{Name: "all", Hardware: deviceKind}, Hardware: hardware}
	all := a100()
	for i := range networks {
		n := all[(2*i+1)*len(all)/(2*networks)]
		p := n.pipeline(i)
		table := n.Table(largestBatch)
		p.Rate = share * float64(len(table)) / table[len(table)-1].Seconds()
		p.Arrivals, p.Attainment = pipelines.ArrivalsPoisson, pipelines.DefaultAttainment
		c.Cluster.Pipelines, c.Members = append(c.Cluster.Pipelines, p.Name), append(c.Members, p)
	}
	specs := []scheduler.Spec{c}
	for i := range c.Members {
		specs = append(specs, scheduler.Spec{Pipeline: &c.Members[i], Hardware: hardware})
	}
	return specs
}

// together compares clusters with the same pipelines on devices of their own.
func together(ctx context.Context, e *Env) (out Result, err error) {
	type place struct {
		networks int
		share    float64
		is       cluster.Comparison
	}
	var all []place
	for _, n := range Part(e, []int{1, 2, 4, 8, 16, 37}, 3) {
		for _, share := range Part(e, []float64{0.1, 0.3, 1, 3}, 2) {
			all = append(all, place{networks: n, share: share})
		}
	}
	err = e.Each(ctx, "Clusters", len(all), func(i int) error {
		p := &all[i]
		found := scheduler.Solve(togetherSpecs(p.networks, p.share), scheduler.Fleet{}, scheduler.Limits{Stop: func() bool { return ctx.Err() != nil }})
		var apart []plan.Plan
		for _, one := range found[1:] {
			apart = append(apart, *one.Pipeline)
		}
		p.is = cluster.Compare(*found[0].Cluster, apart)
		if p.is.Best == "" {
			return errors.New("neither the cluster nor devices of their own serve all")
		}
		return ctx.Err()
	})
	for _, p := range all {
		at := Set("of_a_device_each", p.share, "networks", p.networks)
		out.Add(at, "cluster", "devices", "", float64(p.is.Plan.Devices))
		out.Add(at, "cluster", "no dispatcher with fewer than", "", p.is.Plan.LowerBound/togetherPrice)
		out.Add(at, "apart, exact", "devices", "", p.is.ApartCost/togetherPrice)
		out.Add(at, "apart, exact", "over the cluster", "", p.is.ApartCost/p.is.Plan.Cost)
	}
	return out, err
}
