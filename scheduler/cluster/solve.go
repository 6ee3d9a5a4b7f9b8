package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/cluster/division"
	"github.com/harpagon/harpagon/scheduler/simulate"
)

// Solve plans a cluster. It always returns a plan; one that is Infeasible has a reason.
func Solve(p Problem, o Options) Plan {
	switch {
	case len(p.Pipelines) == 0:
		return infeasible(&p, "the cluster has no pipeline")
	case p.Hardware.Name == "" && len(p.Holders) > 0:
		return infeasible(&p, "all devices of hardware %q are held by %s; delete what is not needed any more (harpagon down NAME), or start a worker on a host that has another", p.Cluster.Hardware, strings.Join(p.Holders, ", "))
	case p.Hardware.Name == "":
		return infeasible(&p, "no device of hardware %q is there; start a worker on a host that has one", p.Cluster.Hardware)
	}
	out := Plan{Cluster: p.Cluster.Name, Dispatch: Dispatch(&p.Cluster), Hardware: p.Hardware.Name, Status: Feasible, Attainment: 1}
	divisions := make([]division.Division, len(p.Pipelines))
	blocking := division.Blocking(p.Hardware.Name, p.Pipelines...)
	for i, one := range p.Pipelines {
		d, err := division.Of(one, p.Hardware.Name, blocking)
		if err != nil {
			return infeasible(&p, "%v", err)
		}
		divisions[i] = d
		out.Work += d.Work
		to := Pipeline{Name: one.Name, Rate: one.Rate, Budgets: d.Budgets}
		for _, m := range one.Modules {
			to.Order = append(to.Order, m.Name)
		}
		out.Pipelines = append(out.Pipelines, to)
	}
	parts, err := p.parts(cmp.Or(o.DispatcherRate, DefaultDispatcherRate))
	if err != nil {
		return infeasible(&p, "%v", err)
	}
	if err := p.fill(&out, parts, divisions, o); errors.Is(err, simulate.ErrStopped) {
		none := infeasible(&p, "the search was ended before it knew how many devices are enough; allow it more time")
		none.CutShort = true
		return none
	} else if err != nil {
		return infeasible(&p, "%v", err)
	}
	out.Cost, out.LowerBound = float64(out.Devices)*p.Hardware.Price, float64(max(out.Least, p.Cluster.Devices.Min))*p.Hardware.Price
	if out.Lacking == 0 && out.Devices >= out.Needed && out.Devices <= max(out.Least, p.Cluster.Devices.Min) {
		out.Status = Optimal
	}
	return out
}

// fill sizes every part, distributes surplus devices and fills in what all together bear.
func (p *Problem) fill(out *Plan, parts [][]int, divisions []division.Division, o Options) error {
	sizers := make([]*sizer, len(parts))
	for k, members := range parts {
		s, err := newSizer(p, out.Dispatch, members, divisions, o)
		if err != nil {
			return err
		}
		sizers[k] = s
		out.Least += s.least
	}
	most := p.most()
	if p.Grows {
		most = p.allowed()
	}
	for k, s := range sizers {
		left := most - out.Needed
		for _, later := range sizers[k+1:] {
			left -= later.least
		}
		if err := s.size(left); err != nil {
			return err
		}
		if !s.ok {
			return fmt.Errorf("%s", p.tooFew(s, left))
		}
		out.Needed += s.devices
	}
	out.Devices = p.devices(out.Needed, len(sizers))
	if p.Grows && out.Devices > p.most() {
		out.Lacking = out.Devices - p.most()
		out.Devices = p.most()
		if out.Devices < len(sizers) {
			return fmt.Errorf("it is divided among %d dispatchers, and there are %d devices of %s", len(sizers), out.Devices, p.Hardware.Name)
		}
	}
	spare := out.Devices - out.Needed
	for ; spare < 0; spare++ { // from whichever part has most
		slices.MaxFunc(sizers, func(a, b *sizer) int { return cmp.Compare(a.devices, b.devices) }).devices--
	}
	factor := 0.0
	for k, s := range sizers {
		share := spare / (len(sizers) - k)
		spare -= share
		f, err := s.finish(s.devices+share, out)
		if err != nil {
			return err
		}
		out.CutShort = out.CutShort || s.cut
		if k == 0 || f < factor {
			factor = f
		}
		name := p.Cluster.Name
		if len(sizers) > 1 {
			name = fmt.Sprintf("%s-%d", name, k+1)
		}
		out.SubClusters = append(out.SubClusters, s.part(name))
	}
	for _, one := range p.Pipelines {
		out.Goodput += factor * one.Rate
	}
	return nil
}

// devices is how many the cluster is to have whose declared rates need so many: what is
// wanted instead, as far as it may be, and at the least one for each part.
func (p *Problem) devices(needed, parts int) int {
	if p.Wanted == 0 {
		return max(needed, p.Cluster.Devices.Min)
	}
	most := p.most()
	if p.Grows {
		most = p.allowed()
	}
	return max(min(p.Wanted, most), p.Cluster.Devices.Min, parts)
}

// allowed is how many devices the cluster may have, whether they are there or not.
func (p *Problem) allowed() int {
	if p.Cluster.Devices.Max > 0 {
		return min(simulate.MaxDevices, p.Cluster.Devices.Max)
	}
	return simulate.MaxDevices
}

// most is how many of them there are.
func (p *Problem) most() int {
	if p.Hardware.Count > 0 {
		return min(p.allowed(), p.Hardware.Count)
	}
	return p.allowed()
}

// parts divides the pipelines among as few sub-clusters as their memory and rates
// allow: lists of indices. One that is enough is not divided.
func (p *Problem) parts(dispatcher float64) ([][]int, error) {
	problem := PartitionProblem{MostRate: dispatcher, MostMemory: float64(p.Hardware.Memory), SubClusters: 1}
	var rate, static float64
	for i := range p.Pipelines {
		m := p.resident(&p.Pipelines[i])
		problem.Models = append(problem.Models, m)
		rate, static = rate+m.Rate, static+m.Static
	}
	problem.SubClusters = int(max(1, math.Ceil(rate/dispatcher*(1-rounding))))
	if problem.MostMemory > 0 {
		problem.SubClusters = int(max(float64(problem.SubClusters), math.Ceil(static/problem.MostMemory*(1-rounding))))
	}
	for ; ; problem.SubClusters++ {
		r, err := Partition(problem)
		if err != nil && problem.SubClusters < len(p.Pipelines) {
			continue // what does not fit into few may fit into more
		}
		if err != nil {
			return nil, err
		}
		parts := make([][]int, problem.SubClusters)
		for i, at := range r.Of {
			parts[at] = append(parts[at], i)
		}
		return slices.DeleteFunc(parts, func(one []int) bool { return len(one) == 0 }), nil
	}
}

// resident is a pipeline as the division sees it: all its modules are loaded, one of
// them runs at a time, and each item is decided about.
func (p *Problem) resident(one *pipelines.Pipeline) PartitionModel {
	m := PartitionModel{Name: one.Name}
	rates := one.Rates()
	for i := range one.Modules {
		module := &one.Modules[i]
		m.Rate += rates[module.Name]
		points := slices.DeleteFunc(slices.Clone(module.Profile.Points), func(at pipelines.Point) bool {
			return at.Hardware != p.Hardware.Name || at.Concurrency > 1
		})
		slices.SortFunc(points, func(a, b pipelines.Point) int { return cmp.Compare(a.Batch, b.Batch) })
		if len(points) == 0 {
			continue
		}
		least, most := points[0].MemoryMiB, points[len(points)-1].MemoryMiB
		m.Static += least * (1 << 20)
		m.Dynamic = max(m.Dynamic, (most-least)*(1<<20))
	}
	return m
}
