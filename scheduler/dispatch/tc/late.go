package tc

import (
	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// settle closes a step for the first groups: what was given up goes to executors that
// idle all the same, as far as it can still be in time there by what batches have
// lately taken and no promise needs the executor before. The rest is dropped as Late.
func (p *tc) settle(groups int, out []dispatch.Action) []dispatch.Action {
	for i := 0; i < len(p.given); {
		best, n := int32(-1), 0
		for at := range int32(groups) {
			if b := p.recoverable(i, at); b > n {
				best, n = at, b
			}
		}
		if n == 0 {
			out = append(out, dispatch.Action{Act: dispatch.Drop, Request: p.given[i].ID, Reason: dispatch.Late})
			i++
			continue
		}
		from := len(p.batch)
		for _, r := range p.given[i : i+n] {
			p.batch = append(p.batch, r.ID)
		}
		i += n
		out = p.launch(best, from, out)
	}
	p.given = p.given[:0]
	return out
}

// recoverable is how many of those given up, from the i-th on, an idle executor of the
// group could do in one batch and in time; 0 where it could not even do the first. A
// device that others share is asked for by the queue alone.
func (p *tc) recoverable(i int, at int32) int {
	g := &p.groups[at]
	if len(g.idle) == 0 || g.shared {
		return 0
	}
	due, n := never, 0
	for _, r := range p.given[i:min(len(p.given), i+g.batch)] {
		due = min(due, r.Deadline)
		if p.now+g.pace.Of(p.now, g.durations[n]) > due {
			break
		}
		n++
	}
	if n > 0 && !p.free() && !p.spared(at, p.now+g.durations[n-1], false) {
		return 0
	}
	return n
}
