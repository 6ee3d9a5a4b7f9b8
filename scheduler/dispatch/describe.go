package dispatch

import "fmt"

// String writes an action as one line.
func (a Action) String() string {
	switch a.Act {
	case Start:
		return fmt.Sprintf("start %v on executor %d of group %d", a.Batch, a.Executor, a.Group)
	case SetTimer:
		return fmt.Sprintf("timer at %v", a.At)
	case Drop:
		return fmt.Sprintf("drop %d: %v", a.Request, a.Reason)
	case Ask:
		return fmt.Sprintf("ask for executor %d until %v, due %v", a.Executor, a.At, a.Due)
	case Release:
		return fmt.Sprintf("release executor %d", a.Executor)
	case Need:
		if a.At == Never {
			return fmt.Sprintf("need executor %d no more", a.Executor)
		}
		return fmt.Sprintf("need executor %d at %v", a.Executor, a.At)
	}
	return "unknown action"
}

// String names the reason.
func (r Reason) String() string {
	switch r {
	case Late:
		return "late"
	case Full:
		return "full"
	}
	return "unknown reason"
}

// String writes an event as one line.
func (ev Event) String() string {
	r := &ev.Request
	switch ev.Kind {
	case Arrive:
		return fmt.Sprintf("request %d of class %d and size %d arrives, virtual arrival %v, deadline %v", r.ID, r.Class, r.Size, r.Arrival, r.Deadline)
	case Cancel:
		return fmt.Sprintf("request %d is cancelled", r.ID)
	case ExecutorUp:
		return fmt.Sprintf("executor %d of group %d is up, alone on its device: %t", ev.Executor, ev.Group, ev.Alone)
	case ExecutorFree:
		return fmt.Sprintf("executor %d is free, after %v in the engine", ev.Executor, ev.Took)
	case ExecutorGone:
		return fmt.Sprintf("executor %d is gone", ev.Executor)
	case Timer:
		return "the timer fires"
	case Granted:
		return fmt.Sprintf("the device of executor %d is granted", ev.Executor)
	case Refused:
		if ev.At == Never {
			return fmt.Sprintf("the device of executor %d is refused until it is idle", ev.Executor)
		}
		return fmt.Sprintf("the device of executor %d is refused until %v", ev.Executor, ev.At)
	case DeviceIdle:
		return fmt.Sprintf("the device of executor %d is idle", ev.Executor)
	case DeviceAlone:
		return fmt.Sprintf("executor %d is alone on its device: %t", ev.Executor, ev.Alone)
	}
	return "unknown event"
}
