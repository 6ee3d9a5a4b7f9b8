package placement

import "slices"

// Processing steps that ride (plan.Group.Rides) go beside executors of their
// pipeline, after these have found their devices: they need no turn on the device
// and take next to nothing of it.

// apart divides demands into those that need devices and those that ride.
func apart(all []demand) (own, riders []demand) {
	for _, d := range all {
		if d.config.Rides {
			riders = append(riders, d)
		} else {
			own = append(own, d)
		}
	}
	return own, riders
}

// ride places the riders: each where it runs already, or on the least used device
// of its hardware that holds an executor of the pipeline, and where there is none
// on any. It returns the first that finds no device.
func (p *packing) ride(r *Request, riders []demand) *item {
	hosts := make([]bool, len(p.loads))
	for i := range p.slots {
		if at := p.device(&p.slots[i]); at >= 0 {
			hosts[at] = true
		}
	}
	for i := range riders {
		it := item{demand: &riders[i], share: riders[i].share}
		best := -1
		for at := range p.loads {
			l := &p.loads[at]
			if l.Device.Hardware != it.config.Hardware || l.Device.Memory > 0 && l.Memory+p.leaving[at]+it.memory > l.Device.Memory {
				continue
			}
			if best < 0 || p.carries(r, it, at, hosts) > p.carries(r, it, best, hosts) ||
				p.carries(r, it, at, hosts) == p.carries(r, it, best, hosts) && l.Share < p.loads[best].Share-tolerance {
				best = at
			}
		}
		if best < 0 {
			return &it
		}
		p.put(r, it, best)
	}
	return nil
}

// carries ranks a device for a rider: 2 beside an executor of the pipeline where
// the rider runs already, 1 beside an executor, 0 elsewhere.
func (p *packing) carries(r *Request, it item, at int, hosts []bool) int {
	if !hosts[at] {
		return 0
	}
	if slices.ContainsFunc(r.Actual, func(s Slot) bool { return s.Rides && r.serves(&s, it.demand) && p.device(&s) == at }) {
		return 2
	}
	return 1
}
