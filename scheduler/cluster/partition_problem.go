package cluster

import (
	"fmt"
	"math"
)

// PartitionModel is what is assigned as a whole: a network, or all modules of a pipeline.
type PartitionModel struct {
	Name    string
	Rate    float64 // requests per second that are decided about
	Static  float64 // bytes on a device while it is loaded
	Dynamic float64 // bytes more while a batch runs
	Move    float64 // cost of moving it to another sub-cluster; 1 when 0
}

// PartitionProblem is what to divide.
type PartitionProblem struct {
	Models      []PartitionModel
	SubClusters int

	MostRate   float64 // requests per second of a sub-cluster (equation 5); 0 for no bound
	MostMemory float64 // bytes of a device (equation 6); 0 for no bound

	// Weight is that of memory beside rate in what is minimised, both as parts of
	// their averages; 1 when 0. The w of equation 4 is Weight times the average
	// rate over the average memory.
	Weight float64

	// Current is the sub-cluster of each model now, -1 where it is in none; nil
	// where nothing runs. Models of Current that come to another sub-cluster cost
	// their Move, at most Moves together (equation 11).
	Current []int
	Moves   float64
}

// PartitionResult is an assignment and how good it is.
type PartitionResult struct {
	Of []int // the sub-cluster of each model

	// Rate and Memory are the largest deviations of a sub-cluster from the
	// average, as parts of it (equations 7 and 8); Objective is Rate +
	// Weight·Memory.
	Rate, Memory float64
	Objective    float64

	Bound   float64 // no assignment has a smaller Objective
	Gap     float64 // Objective - Bound: parts of an average sub-cluster
	Optimal bool
	Moved   int     // models
	Cost    float64 // of moving them
}

// Describe returns the result in one line.
func (r PartitionResult) Describe() string {
	return fmt.Sprintf("sub-clusters within %.3g %% of the average rate and %.3g %% of the average memory, at most %.3g percentage points from the best; %d models moved",
		100*r.Rate, 100*r.Memory, 100*r.Gap, r.Moved)
}

func (p *PartitionProblem) check() error {
	if p.SubClusters < 1 || len(p.Models) == 0 {
		return fmt.Errorf("partition: there must be at least one model and one sub-cluster")
	}
	if p.Current != nil && len(p.Current) != len(p.Models) {
		return fmt.Errorf("partition: there are %d models, and current lists %d", len(p.Models), len(p.Current))
	}
	for _, at := range p.Current {
		if at < -1 || at >= p.SubClusters {
			return fmt.Errorf("partition: a model runs in sub-cluster %d of %d; give -1 for one that has to leave", at, p.SubClusters)
		}
	}
	for _, m := range p.Models {
		for _, x := range []float64{m.Rate, m.Static, m.Dynamic, m.Move} {
			if !(x >= 0) || math.IsInf(x, 0) {
				return fmt.Errorf("partition: model %q has a rate, memory or cost of %v; none can be below zero", m.Name, x)
			}
		}
		if p.MostRate > 0 && m.Rate > p.MostRate {
			return fmt.Errorf("partition: %q alone has %.4g requests per second, and a dispatcher decides %.4g: divide it into several services", m.Name, m.Rate, p.MostRate)
		}
		if p.MostMemory > 0 && m.Static+m.Dynamic > p.MostMemory {
			return fmt.Errorf("partition: %q alone needs %.4g MiB, and a device has %.4g: it fits on no device", m.Name, (m.Static+m.Dynamic)/(1<<20), p.MostMemory/(1<<20))
		}
	}
	return nil
}

// state is an assignment with its sums; all amounts are parts of the average
// sub-cluster.
type state struct {
	p            *PartitionProblem
	rate, static []float64 // of the models
	dynamic      []float64
	cost         []float64 // of moving them
	mostRate     float64
	mostMemory   float64
	weight       float64

	of      []int
	in      [][]int // the models of each sub-cluster
	place   []int   // of a model there
	sumRate []float64
	sumMem  []float64
	spent   float64 // of Moves
}

func newState(p *PartitionProblem) *state {
	n := len(p.Models)
	s := &state{
		p: p, rate: make([]float64, n), static: make([]float64, n), dynamic: make([]float64, n), cost: make([]float64, n),
		mostRate: math.Inf(1), mostMemory: math.Inf(1), weight: p.Weight,
		of: make([]int, n), place: make([]int, n), in: make([][]int, p.SubClusters), sumRate: make([]float64, p.SubClusters), sumMem: make([]float64, p.SubClusters),
	}
	if s.weight == 0 {
		s.weight = 1
	}
	var rates, memory float64
	for _, m := range p.Models {
		rates, memory = rates+m.Rate, memory+m.Static
	}
	perRate, perByte := float64(p.SubClusters)/max(rates, math.SmallestNonzeroFloat32), float64(p.SubClusters)/max(memory, math.SmallestNonzeroFloat32)
	for i, m := range p.Models {
		s.rate[i], s.static[i], s.dynamic[i], s.cost[i], s.of[i] = m.Rate*perRate, m.Static*perByte, m.Dynamic*perByte, m.Move, -1
		if m.Move == 0 {
			s.cost[i] = 1
		}
	}
	if p.MostRate > 0 {
		s.mostRate = p.MostRate * perRate
	}
	if p.MostMemory > 0 {
		s.mostMemory = p.MostMemory * perByte
	}
	return s
}

// put assigns a model that is nowhere.
func (s *state) put(i, to int) {
	s.of[i], s.place[i] = to, len(s.in[to])
	s.in[to] = append(s.in[to], i)
	s.sumRate[to] += s.rate[i]
	s.sumMem[to] += s.static[i]
	s.spent += s.moving(i, to)
}

// take takes a model out of its sub-cluster.
func (s *state) take(i int) {
	at := s.of[i]
	list := s.in[at]
	last := list[len(list)-1]
	list[s.place[i]], s.place[last] = last, s.place[i]
	s.in[at] = list[:len(list)-1]
	s.sumRate[at] -= s.rate[i]
	s.sumMem[at] -= s.static[i]
	s.spent -= s.moving(i, at)
	s.of[i] = -1
}

func (s *state) move(i, to int) {
	s.take(i)
	s.put(i, to)
}

// moving is what it costs to have a model there.
func (s *state) moving(i, to int) float64 {
	if s.p.Current == nil || s.p.Current[i] < 0 || s.p.Current[i] == to {
		return 0
	}
	return s.cost[i]
}

// affordable reports whether so much more may be spent on moves.
func (s *state) affordable(more float64) bool {
	return s.p.Current == nil || more <= 0 || s.spent+more <= s.p.Moves*(1+partitionRounding)
}

// fits reports whether a sub-cluster holds a model beside its own, without one of
// them (-1 for none).
func (s *state) fits(i, to, without int) bool {
	r, m := s.sumRate[to]+s.rate[i], s.sumMem[to]+s.static[i]
	if without >= 0 {
		r, m = r-s.rate[without], m-s.static[without]
	}
	if r > s.mostRate*(1+partitionRounding) {
		return false
	}
	if math.IsInf(s.mostMemory, 1) {
		return true
	}
	most := s.dynamic[i]
	for _, k := range s.in[to] {
		if k != without {
			most = max(most, s.dynamic[k])
		}
	}
	return m+most <= s.mostMemory*(1+partitionRounding)
}

// worth is the objective of the assignment, and its two parts.
func (s *state) worth() (objective, rate, memory float64) {
	for j := range s.in {
		rate = max(rate, math.Abs(s.sumRate[j]-average(s.rate)))
		memory = max(memory, math.Abs(s.sumMem[j]-average(s.static)))
	}
	return rate + s.weight*memory, rate, memory
}

// average of a sub-cluster: 1 where models have any of it at all.
func average(amounts []float64) float64 {
	for _, x := range amounts {
		if x > 0 {
			return 1
		}
	}
	return 0
}

// partitionRounding is the noise of sums.
const partitionRounding = 1e-9
