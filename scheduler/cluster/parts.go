package cluster

import (
	"cmp"
	"math"
	"slices"

	"github.com/harpagon/harpagon/pipelines"
)

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
