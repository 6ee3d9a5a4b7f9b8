package demand

import (
	"fmt"
	"math"
	"slices"
)

// Phased is a task that comes with each request, Offset seconds after it, or with those in which
// its conditions hold.
type Phased struct {
	Task
	Offset float64
	Branch []Condition
}

// Condition is one of those under which a task comes with a request: that something holds or, with
// Else, that it does not.
type Condition struct {
	When string `json:"when"`
	Else bool   `json:"else,omitempty"`
}

// mostConditions bounds those of one device that are taken as either-or: each doubles the ways
// that a request may go.
const mostConditions = 6

// InPhase decides whether one device can run tasks that all come with each request, at known
// offsets, a batch at a time and of those released the one that is due first next. Where each
// request is done before the next one comes, it plays one request, in each of the ways that its
// conditions may send it. Where requests overlap, it is the demand test in which of two branches
// the larger counts (see eitherOr). Both hold for requests that come no closer than a period.
func InPhase(tasks []Phased) Verdict {
	begin, end, period := hull(tasks)
	if end-begin > period*(1+slack)+rounding {
		if slices.ContainsFunc(tasks, func(t Phased) bool { return len(t.Branch) > 0 }) {
			return eitherOr(tasks)
		}
		return Verdict{Reason: fmt.Sprintf("a request may take %.6g s, and the next one comes after %.6g s", end-begin, period)}
	}
	for _, way := range ways(tasks) {
		if v := played(way); !v.Sound {
			return v
		}
	}
	return Verdict{Sound: true}
}

// hull is from the first release of a request's tasks to the last deadline, and the shortest of
// their periods.
func hull(tasks []Phased) (begin, end, period float64) {
	begin, end, period = math.Inf(1), 0.0, math.Inf(1)
	for _, t := range tasks {
		begin, end, period = min(begin, t.Offset), max(end, t.Offset+t.Deadline), min(period, t.Period)
	}
	return begin, end, period
}

// ways lists the tasks that come together with a request, in all ways that its conditions may
// send it; of too many conditions, all tasks.
func ways(tasks []Phased) (list [][]Phased) {
	var conditions []string
	for _, t := range tasks {
		for _, c := range t.Branch {
			if !slices.Contains(conditions, c.When) {
				conditions = append(conditions, c.When)
			}
		}
	}
	if len(conditions) > mostConditions {
		return [][]Phased{tasks}
	}
	for holds := range 1 << len(conditions) {
		var way []Phased
		for _, t := range tasks {
			stays := func(c Condition) bool { return (holds>>slices.Index(conditions, c.When)&1 == 1) == c.Else }
			if !slices.ContainsFunc(t.Branch, stays) {
				way = append(way, t)
			}
		}
		list = append(list, way)
	}
	return list
}

// Together is the most that tasks take which may come with one request: of when and else of one
// condition, the larger.
func Together(tasks []Phased, takes func(Phased) float64) (most float64) {
	for _, way := range ways(tasks) {
		sum := 0.0
		for _, t := range way {
			sum += takes(t)
		}
		most = max(most, sum)
	}
	return most
}

// eitherOr is NonPreemptive with the tasks that have conditions as one: it takes what those take
// at the most that come with one request, and is released with the last of them and due with the
// first, so that it lies within any interval in which one of them does. Each may still be what
// holds up others.
func eitherOr(tasks []Phased) Verdict {
	var counted, all []Task
	var branches []Phased
	for _, t := range tasks {
		if all = append(all, t.Task); len(t.Branch) == 0 {
			counted = append(counted, t.Task)
			continue
		}
		branches = append(branches, t)
	}
	released, due := 0.0, math.Inf(1)
	_, _, period := hull(branches)
	for _, t := range branches {
		released, due = max(released, t.Offset), min(due, t.Offset+t.Deadline)
	}
	one := Task{Duration: Together(branches, func(t Phased) float64 { return t.all() }), Period: period, Deadline: due - released}
	return nonPreemptive(append(counted, one), all)
}

// played decides whether one request's tasks are in time.
func played(tasks []Phased) Verdict {
	type job struct{ release, due, takes float64 }
	var jobs []job
	for _, t := range tasks {
		for range max(1, t.AtOnce) {
			jobs = append(jobs, job{t.Offset, t.Offset + t.Deadline, t.Duration})
		}
	}
	for now, _, _ := hull(tasks); len(jobs) > 0; {
		next, at := math.Inf(1), -1
		for _, j := range jobs {
			next = min(next, j.release)
		}
		// Nobody knows which of those that come together an idle device hears of first, nor whether
		// it is idle where they come as it ends.
		idle, released := next >= now-rounding, now+rounding
		if idle {
			now, released = max(now, next), max(now, next)+together
		}
		for i, j := range jobs {
			if j.release <= released && (at < 0 || (j.due < jobs[at].due) != idle) {
				at = i
			}
		}
		if now = max(now, jobs[at].release) + jobs[at].takes; now > jobs[at].due*(1+slack)+rounding {
			return Verdict{At: jobs[at].due, Demand: now, Reason: fmt.Sprintf("a batch that is due at %.6g s ends at %.6g s", jobs[at].due, now)}
		}
		jobs = append(jobs[:at], jobs[at+1:]...)
	}
	return Verdict{Sound: true}
}
