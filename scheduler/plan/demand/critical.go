package demand

import "math"

// Critical are the deadlines at which batches that together take so long may just be
// done on a device that others use: the least t in every interval between two
// deadlines of the others for which
//
//	what is due by t  +  the longest batch that is due later  +  takes  <=  t .
//
// A later deadline in the same interval serves nothing: the first batch is in time
// already, and the next ones are due sooner after it, since the window is what the
// deadline leaves of a budget. Beyond the end of the busy period one is enough. Times
// are in seconds.
func Critical(tasks []Task, takes, until float64) (list []float64) {
	next := make([]float64, len(tasks))
	use, rise, longest := 0.0, takes, 0.0
	for i, c := range tasks {
		next[i] = c.Deadline
		use += c.Duration / c.Period
		rise += math.Max(0, 1-c.Deadline/c.Period) * c.Duration
		longest = math.Max(longest, c.Duration)
	}
	done := 0.0
	for t, n := 0.0, 0; n < maxDates && t < until; n++ {
		following, block := math.Inf(1), 0.0
		for i, c := range tasks {
			following = math.Min(following, next[i])
			if c.Deadline > t {
				block = math.Max(block, c.Duration)
			}
		}
		if start := math.Max(t, done+block+takes); start < following {
			list = append(list, start)
			if start*(1-use) >= rise+longest {
				break
			}
		}
		t = following
		for i, c := range tasks {
			for next[i] <= t {
				done += c.Duration
				next[i] += c.Period
			}
		}
	}
	return list
}
