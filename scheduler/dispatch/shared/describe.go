package shared

import (
	"fmt"
	"strings"
)

// describe draws what all pool policies share: one line for the executors and
// one for each model that waits or has a known rate.
func (p *pool) describe(name string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d waiting, %d of %d executors open\n", name, p.waiting, p.fleet.Opens, p.fleet.Up)
	for i := range p.models {
		q, m := &p.lines[i], &p.models[i]
		if q.n == 0 && m.meter.Rate == 0 {
			continue
		}
		fmt.Fprintf(&b, "  class %d: %d waiting, target batch %d", i, q.n, m.target)
		if q.n > 0 {
			fmt.Fprintf(&b, ", first due by %v", q.due(0))
		}
		if m.meter.Rate > 0 {
			fmt.Fprintf(&b, ", %.4g requests/s", m.meter.Rate)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
