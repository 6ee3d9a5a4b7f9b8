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
