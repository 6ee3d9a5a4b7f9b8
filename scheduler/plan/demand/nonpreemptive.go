package demand

import (
	"fmt"
	"math"
	"slices"
)

// Task is a group of a plan as a device that several share sees it. Every
// Period seconds at most one batch is closed, or AtOnce together where a burst fills
// several; each runs for Duration without interruption and must be done Deadline after it
// was closed. Times are in seconds.
type Task struct {
	Duration float64
	Period   float64
	Deadline float64
	AtOnce   int // batches; 0 is one
}

// all is how long what is closed together takes.
func (c Task) all() float64 { return c.Duration * float64(max(1, c.AtOnce)) }

// Use is the share of a device's time that the task takes.
func (c Task) Use() float64 { return c.all() / c.Period }

// NonPreemptive decides whether one device can run the tasks, a batch at a time
// and the one that is due first next (non-preemptive earliest deadline first),
// so that every batch is done by its deadline. The condition is that for every
// deadline t up to the end of the longest busy period
//
//	sum over i of max(0, floor((t - D_i)/P_i) + 1)·m_i·C_i  +  max { C_j : D_j > t }  <=  t
//
// where m_i batches of task i are closed together. The last term is the batch with a later deadline that started just before
// and cannot be interrupted. Jeffay, Stanat and Martel (1991) show it for
// deadlines equal to periods, George, Rivierre and Spuri (1996) for any; it is
// exact for batches that come no oftener than every period and whenever they
// like, and sufficient for periodic ones.
//
// No deadline needs checking where none is sooner than a batch of each takes, and
// the device has time left: the
// left side is then at most sum of C_i·(1 + (t - D)/P_i), D the soonest deadline,
// and so at most D + (t - D)·use.
func NonPreemptive(tasks []Task) Verdict { return nonPreemptive(tasks, tasks) }

// nonPreemptive is NonPreemptive where other tasks than those that count may hold them up.
func nonPreemptive(tasks, blocking []Task) Verdict {
	if len(tasks) == 0 {
		return Verdict{Sound: true}
	}
	use, all, soonest := 0.0, 0.0, math.Inf(1)
	for _, c := range tasks {
		if !(c.Duration > 0) || !(c.Period > 0) || math.IsInf(c.Duration, 0) || math.IsNaN(c.Deadline) {
			return Verdict{Reason: fmt.Sprintf("duration %v, period %v and deadline %v are not numbers to test", c.Duration, c.Period, c.Deadline)}
		}
		if c.Deadline < c.all()*(1-slack) {
			return Verdict{At: c.Deadline, Demand: c.all(), Reason: fmt.Sprintf("batches of %.6g s are due after %.6g s", c.all(), c.Deadline)}
		}
		use += c.all() / c.Period
		all += c.all()
		soonest = math.Min(soonest, c.Deadline)
	}
	if use > 1+slack {
		return Verdict{Reason: fmt.Sprintf("the batches take %.4g seconds of a device per second", use)}
	}
	longest := 0.0
	for _, c := range blocking {
		longest = math.Max(longest, c.Duration)
	}
	if len(blocking) > len(tasks) {
		all += longest
	}
	if all <= soonest && use < 1-slack {
		return Verdict{Sound: true}
	}
	last := deadlines(tasks, use, longest)
	if math.IsInf(last, 1) {
		return Verdict{Reason: "the device is fully used and its load never repeats"}
	}
	return walkDeadlines(tasks, blocking, last)
}

// deadlines is the last deadline that needs checking: the end of the
// synchronous busy period, or where the demand can no longer reach t even
// without its floors.
func deadlines(tasks []Task, use, block float64) float64 {
	rise, longest := 0.0, 0.0
	for _, c := range tasks {
		rise += math.Max(0, 1-c.Deadline/c.Period) * c.all()
		longest = math.Max(longest, c.Deadline)
	}
	if use < 1-slack {
		return math.Max(longest, (rise+block)/(1-use))
	}
	groups := make([]Group, len(tasks))
	for i, c := range tasks {
		groups[i].Period = c.Period
	}
	return longest + hyperperiod(groups)
}

func walkDeadlines(tasks, blocking []Task, last float64) Verdict {
	var buffer [16]float64
	next := append(buffer[:0], make([]float64, len(tasks))...)
	for i, c := range tasks {
		next[i] = c.Deadline
	}
	done := 0.0
	for range maxDates {
		t := slices.Min(next)
		if t > last*(1+slack) {
			return Verdict{Sound: true}
		}
		block := 0.0
		for i, c := range tasks {
			for next[i] <= t*(1+slack) {
				done += c.all()
				next[i] += c.Period
			}
		}
		for _, c := range blocking {
			if c.Deadline > t*(1+slack) {
				block = math.Max(block, c.Duration)
			}
		}
		if done+block > t*(1+slack) {
			return Verdict{At: t, Demand: done + block, Reason: fmt.Sprintf(
				"batches of %.6g s must be done by %.6g s, the longest that may be running included", done+block, t)}
		}
	}
	return Verdict{Reason: fmt.Sprintf("more than %d deadlines would have to be checked", maxDates)}
}

// Slack is how long a device may be taken by a batch that the tasks do not
// count, begun while nothing waits, so that all of theirs are still done by
// their deadlines: the least over deadlines t of
//
//	t - sum over i of max(0, floor((t - D_i)/P_i) + 1)·C_i
//
// Under non-preemptive earliest deadline first a busy period is entered with at
// most one batch that runs already, so this batch takes the place of the
// max term of NonPreemptive. Without tasks it is infinite; where the tasks leave
// nothing, or cannot be tested, it is 0. In seconds.
func Slack(tasks []Task) float64 {
	use, rise := 0.0, 0.0
	for _, c := range tasks {
		if !(c.Duration > 0) || !(c.Period > 0) || math.IsInf(c.Duration, 0) || math.IsNaN(c.Deadline) {
			return 0
		}
		use += c.all() / c.Period
		rise += math.Max(0, 1-c.Deadline/c.Period) * c.all()
	}
	if len(tasks) == 0 {
		return math.Inf(1)
	}
	if use >= 1-slack {
		return 0
	}
	next := make([]float64, len(tasks))
	for i, c := range tasks {
		next[i] = c.Deadline
	}
	least, done := math.Inf(1), 0.0
	for range maxDates {
		t := slices.Min(next)
		// From here on the demand stays below use·t + rise, and t·(1-use) - rise
		// below the slack.
		if t*(1-use)-rise >= least {
			return math.Max(0, least)
		}
		for i, c := range tasks {
			for next[i] <= t*(1+slack) {
				done += c.all()
				next[i] += c.Period
			}
		}
		least = math.Min(least, t-done)
	}
	return 0
}

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
		use += c.all() / c.Period
		rise += math.Max(0, 1-c.Deadline/c.Period) * c.all()
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
				done += c.all()
				next[i] += c.Period
			}
		}
	}
	return list
}
