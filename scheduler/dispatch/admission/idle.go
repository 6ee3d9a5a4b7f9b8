package admission

import "slices"

// place notes which devices each module may run on.
func (s *service) place() {
	for i := range s.Modules {
		m := &s.modules[i]
		m.devices, m.lanes = nil, 0
		for _, g := range s.Modules[i].Groups {
			m.lanes += float64(len(g.Devices))
			m.devices = append(m.devices, g.Devices...)
		}
		slices.Sort(m.devices)
		m.devices = slices.Compact(m.devices)
	}
}

// idle says whether at every module each item of a request would find an executor that
// nothing is on: all that is under way are fewer than the batches that run at a time. Such a request
// needs nothing of what is kept in reserve, and its policies see what is in time.
func (c *Controller) idle(s *service) bool {
	for i := range s.modules {
		items := float64(s.underWay+1) * max(1, s.Modules[i].Items)
		for _, other := range c.services {
			if items > s.modules[i].lanes {
				return false
			}
			if other != s && other.underWay > 0 && other.uses(s.modules[i].devices) {
				items += float64(other.underWay) * other.most()
			}
		}
		if items > s.modules[i].lanes {
			return false
		}
	}
	return true
}

// uses says whether a module of the service may run on one of the devices.
func (s *service) uses(devices []int) bool {
	return slices.ContainsFunc(s.modules, func(m module) bool {
		return slices.ContainsFunc(m.devices, func(d int) bool { return slices.Contains(devices, d) })
	})
}

// most items that a request has at a module, on average.
func (s *service) most() float64 {
	most := 1.0
	for i := range s.Modules {
		most = max(most, s.Modules[i].Items)
	}
	return most
}
