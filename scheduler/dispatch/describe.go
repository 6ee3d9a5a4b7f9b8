package dispatch

import (
	"fmt"
	"strings"
)

// Describe draws the policy: one line a group, with what it collects and the
// executors that idle.
func (p *tc) Describe() string {
	var b strings.Builder
	fmt.Fprintf(&b, "tc: %d waiting\n", p.waiting)
	for i := range p.groups {
		g := &p.groups[i]
		fmt.Fprintf(&b, "  group %d (batch %d): %d of %d executors idle, %d closed, %d open",
			i, g.batch, len(g.idle), g.ups, g.closed, g.queue.n-g.closed)
		if g.open() {
			fmt.Fprintf(&b, ", closes at %v", g.closeAt())
		}
		b.WriteByte('\n')
	}
	if p.orphans.n > 0 {
		fmt.Fprintf(&b, "  %d wait for an executor\n", p.orphans.n)
	}
	return b.String()
}

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
