package cluster

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// Tuning of the search.
const (
	kicks     = 40    // out of dead ends
	perturbed = 4     // swaps of a perturbation, or models that go back to where they run
	mostLook  = 3e8   // changes that are looked at, about: some seconds
	leastGain = 1e-12 // of a change: less is rounding
	free      = 1e3   // how many times better a gain is that costs no move
	enough    = 1e-4  // of an average sub-cluster, above the bound: not worth more work
	seed      = 1
)

// Partition divides the models. The error gives the reason in terms of the models, or
// reports that a search has found no assignment though there may be one.
func Partition(p PartitionProblem) (PartitionResult, error) {
	if err := p.check(); err != nil {
		return PartitionResult{}, err
	}
	s := newState(&p)
	if p.few() {
		best, ok := s.enumerate()
		if !ok {
			return PartitionResult{}, fmt.Errorf("partition: no assignment of the %d models to %d sub-clusters keeps within rate, memory and moves", len(p.Models), p.SubClusters)
		}
		for i, to := range best {
			s.put(i, to)
		}
		r := s.result()
		r.Bound, r.Gap, r.Optimal = r.Objective, 0, true
		return r, nil
	}
	if err := s.begin(); err != nil {
		return PartitionResult{}, err
	}
	s.improve()
	return s.result(), nil
}

func (s *state) result() PartitionResult {
	r := PartitionResult{Of: slices.Clone(s.of), Bound: s.bound(), Cost: s.spent}
	r.Objective, r.Rate, r.Memory = s.worth()
	r.Bound = min(r.Bound, r.Objective)
	r.Gap = r.Objective - r.Bound
	r.Optimal = r.Gap <= partitionRounding
	for i, at := range s.p.Current {
		if at >= 0 && at != s.of[i] {
			r.Moved++
		}
	}
	return r
}

// begin assigns all models: those that run stay, others go, the largest first,
// where the sums of squares grow least.
func (s *state) begin() error {
	order := make([]int, len(s.of))
	for i := range order {
		order[i] = i
		if s.p.Current != nil && s.p.Current[i] >= 0 {
			s.put(i, s.p.Current[i])
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(s.rate[b]+s.weight*s.static[b], s.rate[a]+s.weight*s.static[a])
	})
	for _, i := range order {
		if s.of[i] >= 0 {
			continue
		}
		best, least := -1, math.Inf(1)
		for j := range s.in {
			if x := s.sumRate[j]*s.rate[i] + s.weight*s.sumMem[j]*s.static[i]; x < least && s.fits(i, j, -1) {
				best, least = j, x
			}
		}
		if best < 0 {
			return fmt.Errorf("partition: no room was found for %q in %d sub-clusters; there may be one, but more sub-clusters are surely better", s.p.Models[i].Name, len(s.in))
		}
		s.put(i, best)
	}
	for j := range s.in {
		if n := len(s.in[j]); n > 0 && !s.fits(s.in[j][0], j, s.in[j][0]) {
			if !s.unload(j) {
				return fmt.Errorf("partition: sub-cluster %d has more than a dispatcher decides or a device holds, and what may be moved does not make it fit; allow more moves", j)
			}
		}
	}
	return nil
}

// unload moves models away until the sub-cluster keeps its bounds.
func (s *state) unload(j int) bool {
	for len(s.in[j]) > 0 && !s.fits(s.in[j][0], j, s.in[j][0]) {
		model, to, least := -1, -1, math.Inf(1)
		for _, i := range s.in[j] {
			for k := range s.in {
				if k != j && s.fits(i, k, -1) && s.affordable(s.moving(i, k)-s.moving(i, j)) {
					if x := s.moving(i, k) - s.rate[i] - s.weight*s.static[i]; x < least {
						model, to, least = i, k, x
					}
				}
			}
		}
		if model < 0 {
			return false
		}
		s.move(model, to)
	}
	return true
}

// improve descends, and then kicks a few swaps out of the best and descends again,
// as long as that helps.
func (s *state) improve() {
	rng := rand.New(rand.NewPCG(seed, uint64(len(s.of))))
	looked := s.descend()
	best := slices.Clone(s.of)
	least, _, _ := s.worth()
	bound := s.bound()
	for k := 0; k < kicks && looked < mostLook && least-bound > enough; k++ {
		s.perturb(rng)
		looked += s.descend()
		if now, _, _ := s.worth(); now < least-partitionRounding {
			least, k = now, -1
			copy(best, s.of)
			continue
		}
		s.restore(best)
	}
}

// perturb makes swaps at random; where moves are counted it first gives some back.
func (s *state) perturb(rng *rand.Rand) {
	var moved []int
	for i, at := range s.p.Current {
		if at >= 0 && at != s.of[i] {
			moved = append(moved, i)
		}
	}
	for range min(perturbed, len(moved)) {
		if i := moved[rng.IntN(len(moved))]; s.of[i] != s.p.Current[i] && s.fits(i, s.p.Current[i], -1) {
			s.move(i, s.p.Current[i])
		}
	}
	if len(moved) > 0 {
		return
	}
	for range perturbed {
		s.swap(rng.IntN(len(s.of)), rng.IntN(len(s.of)))
	}
}

// score is what a gain is worth that costs so much to move.
func (s *state) score(gain, cost float64) float64 {
	switch {
	case gain < leastGain:
		return 0
	case s.p.Current == nil:
		return gain
	case cost <= 0:
		return gain * free
	case s.spent+cost > s.p.Moves*(1+partitionRounding):
		return 0
	}
	return gain / cost
}

func (s *state) restore(of []int) {
	for i, to := range of {
		if s.of[i] != to {
			s.move(i, to)
		}
	}
}

// swap exchanges two models where that is allowed.
func (s *state) swap(i, k int) {
	a, b := s.of[i], s.of[k]
	if a != b && s.fits(i, b, k) && s.fits(k, a, i) && s.affordable(s.swapCost(i, k)) {
		s.move(i, b)
		s.move(k, a)
	}
}

func (s *state) swapCost(i, k int) float64 {
	a, b := s.of[i], s.of[k]
	return s.moving(i, b) - s.moving(i, a) + s.moving(k, a) - s.moving(k, b)
}

// descend makes the change of one model, or the swap of two, that brings the
// sub-clusters closest to the average, until none helps. It looks at the
// sub-clusters that are furthest off first, since they make the objective.
func (s *state) descend() (looked float64) {
	for {
		order := s.furthest()
		changed := false
		for _, j := range order {
			var n float64
			n, changed = s.step(j)
			if looked += n; changed {
				break
			}
		}
		if !changed || looked > mostLook {
			return looked
		}
	}
}

// furthest are the sub-clusters, those first that are furthest off the average.
func (s *state) furthest() []int {
	order := make([]int, len(s.in))
	for j := range order {
		order[j] = j
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(s.off(b, 0, 0), s.off(a, 0, 0)) })
	return order
}

// off is how far a sub-cluster is off the average with so much more. Its power
// makes the furthest count most.
func (s *state) off(j int, rate, memory float64) float64 {
	x := math.Abs(s.sumRate[j]+rate-average(s.rate)) + s.weight*math.Abs(s.sumMem[j]+memory-average(s.static))
	return x * x
}

// step makes the best change of a model of the sub-cluster, by what it gains for
// what it costs.
func (s *state) step(j int) (looked float64, changed bool) {
	most, model, to, other := 0.0, -1, -1, -1
	for _, i := range s.in[j] {
		for k := range s.in {
			if k == j {
				continue
			}
			before, leaves := s.off(j, 0, 0)+s.off(k, 0, 0), s.moving(i, k)-s.moving(i, j)
			gain := before - s.off(j, -s.rate[i], -s.static[i]) - s.off(k, s.rate[i], s.static[i])
			if gain = s.score(gain, leaves); gain > most && s.fits(i, k, -1) {
				most, model, to, other = gain, i, k, -1
			}
			for _, l := range s.in[k] {
				dr, dm := s.rate[l]-s.rate[i], s.static[l]-s.static[i]
				gain := before - s.off(j, dr, dm) - s.off(k, -dr, -dm)
				if gain <= 0 {
					continue
				}
				if gain = s.score(gain, s.swapCost(i, l)); gain > most && s.fits(i, k, l) && s.fits(l, j, i) {
					most, model, to, other = gain, i, k, l
				}
			}
			looked += float64(1 + len(s.in[k]))
		}
	}
	if model < 0 {
		return looked, false
	}
	s.move(model, to)
	if other >= 0 {
		s.move(other, j)
	}
	return looked, true
}

// mostExact bounds the assignments that are enumerated.
const mostExact = 200_000

// few reports whether all assignments can be looked at.
func (p *PartitionProblem) few() bool {
	return float64(len(p.Models))*math.Log(float64(p.SubClusters)) <= math.Log(mostExact)
}

// enumerate finds the best assignment of few models; ok is false where none is
// allowed.
func (s *state) enumerate() (best []int, ok bool) {
	least := math.Inf(1)
	var visit func(i int)
	visit = func(i int) {
		if i == len(s.of) {
			if objective, _, _ := s.worth(); objective < least-partitionRounding {
				least, best = objective, append(best[:0], s.of...)
			}
			return
		}
		for j := range s.in {
			empty := len(s.in[j]) == 0
			if s.fits(i, j, -1) && s.affordable(s.moving(i, j)) {
				s.put(i, j)
				visit(i + 1)
				s.take(i)
			}
			if empty && s.p.Current == nil {
				break // the other empty ones are alike
			}
		}
	}
	visit(0)
	return best, best != nil
}

// bound is below the objective of every assignment that may be made.
func (s *state) bound() float64 {
	return s.least(s.rate) + s.weight*s.least(s.static)
}

// least is below the largest deviation from the average of one kind of amount.
func (s *state) least(amounts []float64) float64 {
	mean := average(amounts)
	least := crowded(amounts, len(s.in)) - mean
	if s.p.Current == nil || slices.Contains(s.p.Current, -1) {
		return max(0, least)
	}
	low, high := max(0, least), 0.0
	now := make([]float64, len(s.in))
	for i, at := range s.p.Current {
		now[at] += amounts[i]
	}
	for _, x := range now {
		high = max(high, math.Abs(x-mean))
	}
	for range bisections {
		middle := (low + high) / 2
		if s.reachable(amounts, now, mean, middle) {
			high = middle
		} else {
			low = middle
		}
	}
	return max(0, low-partitionRounding)
}

const bisections = 40

// crowded is at or below the most that some sub-cluster holds: of the k·n+1
// largest amounts one of n sub-clusters has at least k+1.
func crowded(amounts []float64, n int) float64 {
	sorted := slices.Clone(amounts)
	slices.SortFunc(sorted, func(a, b float64) int {
		if a > b {
			return -1
		}
		return 1
	})
	most := 0.0
	for k := 0; k*n < len(sorted); k++ {
		sum := 0.0
		for _, x := range sorted[k*n-k : k*n+1] {
			sum += x
		}
		most = max(most, sum)
	}
	return most
}

// reachable reports that moves within the budget might bring all sub-clusters within
// that of the average: each that has too much sheds its largest models, at the
// price of the cheapest; each that has too little takes in the largest of all.
func (s *state) reachable(amounts, now []float64, mean, within float64) bool {
	cheapest := slices.Min(s.cost)
	moves := 0
	if cheapest > 0 {
		moves = int(s.p.Moves/cheapest*(1+partitionRounding) + partitionRounding)
	} else {
		return true
	}
	all := slices.Clone(amounts)
	descending(all)
	shed, taken := 0, 0
	for j, x := range now {
		if over := x - mean - within; over > partitionRounding {
			var own []float64
			for i, at := range s.p.Current {
				if at == j {
					own = append(own, amounts[i])
				}
			}
			descending(own)
			shed += count(own, over)
		}
		if under := mean - within - x; under > partitionRounding {
			taken += count(all, under)
		}
	}
	return shed <= moves && taken <= moves
}

func descending(list []float64) {
	slices.Sort(list)
	slices.Reverse(list)
}

// count is how many of the first amounts make up so much.
func count(list []float64, much float64) int {
	for i, x := range list {
		if much -= x; much <= partitionRounding {
			return i + 1
		}
	}
	return len(list) + 1
}
