package tc

import (
	"math"
	"time"

	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/plan/demand"
)

// Arbiter decides who may use a device that executors of several policies share. A driver
// holds it, passes the actions Ask, Need and Release on to it and reports its answers as
// events; one call at a time.
//
// The groups on it pass the non-preemptive demand test (package
// scheduler/plan/demand), which counts batches that start when they are due. A batch that
// starts before it is due is outside the test. It starts only while the device is idle and
// nothing waits for it, and it ends by the instant at which some other group can next need
// the device plus the delay that all groups could bear if they needed it together then
// (demand.Slack): no batch is late because of it. It also ends before its own group can
// next need the device: otherwise the executor might go on with a waiting batch before the
// group's next has come, though that is due first. Where no group's promise rests on the
// device, an idle device takes any batch.
type Arbiter struct {
	users   []deviceUser
	slack   dispatch.Time // how long after the next need of any user the device may stay busy
	running int           // batches on the device or on their way to it
	granted int           // early starts whose batch has not begun
}

// deviceUser is an executor on the device.
type deviceUser struct {
	on          bool
	needed      dispatch.Time        // when its plan may next need the device
	reservation dispatch.Reservation // and how much of it; zero where no plan needs it
	refused     bool                 // was refused because the device was busy
	due         dispatch.Time        // of the refused batch
}

// Add enters an executor and returns its number.
func (a *Arbiter) Add() int {
	fresh := deviceUser{on: true, needed: never}
	for i := range a.users {
		if !a.users[i].on {
			a.users[i] = fresh
			return i
		}
	}
	a.users = append(a.users, fresh)
	return len(a.users) - 1
}

// Remove takes an executor out.
func (a *Arbiter) Remove(user int) {
	a.users[user] = deviceUser{}
	a.updateSlack()
}

// Need notes when the plan of an executor may next need the device, and how much of it.
func (a *Arbiter) Need(user int, at dispatch.Time, r dispatch.Reservation) {
	u := &a.users[user]
	u.needed = at
	if u.reservation != r {
		u.reservation = r
		a.updateSlack()
	}
}

// NeedNothing notes that no plan needs the executor any more.
func (a *Arbiter) NeedNothing(user int) { a.Need(user, never, dispatch.Reservation{}) }

// updateSlack finds out how much delay the groups on the device can bear together.
func (a *Arbiter) updateSlack() {
	var tasks []demand.Task
	for i := range a.users {
		if u := &a.users[i]; u.on && u.reservation != (dispatch.Reservation{}) {
			r := &u.reservation
			tasks = append(tasks, demand.Task{Duration: r.Duration.Seconds(), Period: r.Period.Seconds(), Deadline: r.Deadline.Seconds(), AtOnce: int(r.AtOnce)})
		}
	}
	a.slack = 0
	if len(tasks) > 0 {
		a.slack = time.Duration(math.Round(demand.Slack(tasks) * 1e9))
	}
}

// Ask reports whether a batch that is not due may start now, given its end, the deadline of
// its first request, and counted: whether it is the batch that its plan needs the device
// for next. A granted device counts as taken. After a refusal, again is when to ask once
// more: never where the device is busy, or a more urgent batch was refused before; then
// Next names the executor after a batch has ended.
func (a *Arbiter) Ask(user int, now, end, due dispatch.Time, counted bool) (ok bool, again dispatch.Time) {
	u := &a.users[user]
	u.refused, u.due = false, due
	if first := a.first(); !a.Idle() || first >= 0 && a.users[first].due < due {
		u.refused = true
		return false, never
	}
	until, later := never, never
	for i := range a.users {
		if !a.users[i].on {
			continue
		}
		next, slot := a.users[i].next(now)
		if next == never {
			continue
		}
		switch {
		case i != user:
			next += a.slack
		case counted:
			next += a.users[i].reservation.Period
		}
		until, later = min(until, next), min(later, slot)
	}
	if end > until {
		return false, later + 1
	}
	a.granted++
	return true, never
}

// Decide carries out an action Ask, Need or Release of an executor's policy and returns the
// answer to Ask.
func (a *Arbiter) Decide(user int, now dispatch.Time, what *dispatch.Action) (answer dispatch.Event) {
	switch what.Act {
	case dispatch.Need:
		a.Need(user, what.At, *what.Reservation)
	case dispatch.Release:
		a.Release()
	case dispatch.Ask:
		answer = dispatch.Event{Kind: dispatch.Granted, Executor: what.Executor}
		if ok, again := a.Ask(user, now, what.At, what.Due, what.Reservation != nil); !ok {
			answer.Kind, answer.At = dispatch.Refused, again
		}
	}
	return answer
}

// Release takes back a grant whose batch does not start.
func (a *Arbiter) Release() { a.granted = max(0, a.granted-1) }

// Next is the executor to ask again now that the device is idle: of those refused while it
// was busy, the one whose batch is due first. Each refusal is returned once; -1 when there
// is none or the device is busy.
func (a *Arbiter) Next() int {
	first := a.first()
	if first < 0 || !a.Idle() {
		return -1
	}
	a.users[first].refused = false
	return first
}

// first is the refused executor whose batch is due first, or -1.
func (a *Arbiter) first() int {
	best := -1
	for i := range a.users {
		if u := &a.users[i]; u.on && u.refused && (best < 0 || u.due < a.users[best].due) {
			best = i
		}
	}
	return best
}

// next is the first instant from now on at which the executor's plan may need the device:
// that of its schedule, slot, or where that has passed one without a batch, one window from
// now, since the next request may begin the schedule again.
func (u *deviceUser) next(now dispatch.Time) (next, slot dispatch.Time) {
	period := u.reservation.Period
	switch {
	case u.needed >= now:
		return u.needed, u.needed
	case period <= 0:
		return never, never
	}
	slot = u.needed + (now-u.needed+period-1)/period*period
	return min(slot, now+u.reservation.Window), slot
}

// Idle reports that nothing runs on the device or is on its way to it.
func (a *Arbiter) Idle() bool { return a.running+a.granted == 0 }

// Alone reports that one executor has the device for itself.
func (a *Arbiter) Alone() bool {
	n := 0
	for i := range a.users {
		if a.users[i].on {
			n++
		}
	}
	return n == 1
}

// Begin notes that a batch is on its way to the device.
func (a *Arbiter) Begin() {
	a.running++
	a.granted = max(0, a.granted-1)
}

// End notes that a batch has left the device.
func (a *Arbiter) End() { a.running = max(0, a.running-1) }

// Clear notes that all batches are gone.
func (a *Arbiter) Clear() { a.running, a.granted = 0, 0 }
