package matching

import (
	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// Inherit takes over the latencies learned of types that have the same name and
// the same profile.
func (p *matching) Inherit(from dispatch.Policy) {
	old, ok := from.(*matching)
	if !ok {
		return
	}
	for i := range p.types {
		for _, was := range old.types {
			if was.name == p.types[i].name && sameProfile(was, p.types[i]) {
				p.types[i] = was.clone()
			}
		}
	}
}
