package pool

import (
	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// climbSteps are the widths of the steps of HillClimb, relative to the largest
// size.
func climbSteps() []float64 { return []float64{0.2, 0.1, 0.05, 0.02, 0.01} }

// HillClimb looks for the threshold of TrialPool.Threshold with the highest goodput,
// as DeepRecSys does: from the largest size that some other type than the base
// serves within the objective, it goes on in the direction that helps, with
// ever smaller steps.
func (s TrialSearch) HillClimb(p TrialPool, load TrialLoad, largest int, above float64) (threshold int, goodput float64, err error) {
	try := func(threshold int) (float64, error) {
		return s.Goodput(p, func() dispatch.Policy { return p.Threshold(largest, threshold) }, load, above)
	}
	threshold = p.reach(largest)
	if goodput, err = try(threshold); err != nil {
		return threshold, goodput, err
	}
	for _, share := range climbSteps() {
		step := max(1, int(share*float64(largest)))
		for moved := true; moved; {
			moved = false
			for _, next := range []int{threshold + step, threshold - step} {
				if next < 0 || next > largest {
					continue
				}
				rate, err := try(next)
				if err != nil {
					return threshold, goodput, err
				}
				if rate > goodput {
					threshold, goodput, moved = next, rate, true
					break
				}
			}
		}
	}
	return threshold, goodput, nil
}

// reach is the largest size that an instance other than of the base serves
// within the objective.
func (p TrialPool) reach(largest int) int {
	latency := p.table(int32(largest))
	reach := 0
	for g, n := range p.Counts {
		if n == 0 || g == p.Base {
			continue
		}
		for size := reach; size <= largest; size++ {
			if latency[g][size] <= p.SLO {
				reach = size
			}
		}
	}
	return reach
}
