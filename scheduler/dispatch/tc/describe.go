package tc

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
			fmt.Fprintf(&b, ", closes at %v", g.closeAt(p.now, p.free()))
		}
		b.WriteByte('\n')
	}
	if p.orphans.n > 0 {
		fmt.Fprintf(&b, "  %d wait for an executor\n", p.orphans.n)
	}
	return b.String()
}
