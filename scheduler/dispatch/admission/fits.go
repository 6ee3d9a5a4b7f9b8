package admission

// Fits says whether the k items that a request has just been split into at a module can be
// in time there, by what waits and runs before them. How many there are nobody knew when
// it came; a request with too many is better given up before the first of them has run. Until
// enough batches have ended, as often as they do, the last of the items waits; then it takes
// the least that a batch takes. A deadline of zero is none.
func (c *Controller) Fits(now Time, number, module, k int, deadline Time) bool {
	s := c.of(number)
	if s == nil || k <= 0 || deadline == 0 {
		return true
	}
	m, batch, least := &s.modules[module], 1, Time(0)
	for i, g := range s.Modules[module].Groups {
		if len(g.Durations) == 0 {
			continue
		}
		batch = max(batch, len(g.Durations))
		if one := m.paces[i].Of(now, g.Durations[0]); least == 0 || one < least {
			least = one
		}
	}
	end := now + least
	if n := len(m.devices); n > 0 {
		ends := (m.waiting+k-1)/batch + (m.running+batch-1)/batch - n + 1
		end += Time(max(0, ends)) * least / Time(n)
	}
	return end <= deadline
}
