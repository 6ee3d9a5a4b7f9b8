package dispatch

// Heir is a policy that can go on with what another has learned, so that a
// change of plan does not start from nothing.
type Heir interface {
	Policy
	// Inherit takes over what from has learned of the world, as far as it is
	// about the same things. Requests and executors are not part of it.
	Inherit(from Policy)
}

// Inherit takes over the latencies learned of types that have the same name and
// the same profile.
func (p *matching) Inherit(from Policy) {
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
