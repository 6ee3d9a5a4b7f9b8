package admission

import "slices"

// begun is a batch that runs, and when it should be done by what batches have lately taken.
type begun struct {
	at, ends Time
	group, n int
}

// lane is a place on a device, and when it is free for batches of that group.
type lane struct {
	free  Time
	group int
}

// begin notes a batch.
func (m *module) begin(now Time, of *Module, group, n int) {
	b := begun{at: now, ends: now, group: group, n: n}
	if group >= 0 && group < len(m.paces) {
		b.ends = now + m.takes(now, of, group, n)
	}
	m.begun = append(m.begun, b)
}

// end takes so many items out of the batches that were begun then.
func (m *module) end(at Time, n int) {
	for n > 0 {
		i := slices.IndexFunc(m.begun, func(b begun) bool { return b.at == at })
		if i < 0 {
			return // begun before the service changed
		}
		b := &m.begun[i]
		out := min(n, b.n)
		n, b.n = n-out, b.n-out
		if b.n == 0 {
			m.begun = slices.Delete(m.begun, i, i+1)
		}
	}
}

// takes is how long a batch of n may take in the group; 0 where nothing is known of it.
func (m *module) takes(now Time, of *Module, group, n int) Time {
	table := of.Groups[group].Durations
	if len(table) == 0 {
		return 0
	}
	return m.paces[group].Of(now, table[min(n, len(table))-1])
}

// Fits says whether the k items that a request has just been split into at a module can be
// in time there, behind what runs, each batch for as long as it has left, and what waits, in
// full batches. How many there are nobody knew when it came; a request with too many is
// better given up before the first of them has run. A deadline of zero is none.
func (c *Controller) Fits(now Time, number, module, k int, deadline Time) bool {
	s := c.of(number)
	if s == nil || k <= 0 || deadline == 0 {
		return true
	}
	m, of := &s.modules[module], &s.Modules[module]
	ahead, idle := c.place(now, m, of)
	ahead += m.waiting
	for taken := 0; len(c.lanes) > 0 && taken < ahead+k; {
		l := &c.lanes[0]
		left := ahead + k - taken
		n := min(left, len(of.Groups[l.group].Durations))
		if idle > 0 { // what comes to idle executors is divided among them
			n, idle = min(n, (left+idle-1)/idle), idle-1
		}
		if taken += n; taken > ahead && l.free+m.takes(now, of, l.group, 1) > deadline || l.free >= deadline {
			return false
		}
		l.free += m.takes(now, of, l.group, n)
		c.sink(0)
	}
	return true
}

// place lists the places for batches of a module in the order of a heap, how many items run
// beyond one batch for each, and how many places are idle.
func (c *Controller) place(now Time, m *module, of *Module) (ahead, idle int) {
	c.lanes = c.lanes[:0]
	for i, g := range of.Groups {
		from := len(c.lanes)
		if len(g.Durations) > 0 {
			for range g.Devices {
				c.lanes = append(c.lanes, lane{now, i})
			}
		}
		at := from
		for _, b := range m.begun {
			switch {
			case b.group != i:
			case at < len(c.lanes):
				c.lanes[at].free = max(now, b.ends)
				at++
			default:
				ahead += b.n
			}
		}
		idle += len(c.lanes) - at
	}
	for i := len(c.lanes)/2 - 1; i >= 0; i-- {
		c.sink(i)
	}
	return ahead, idle
}

// sink brings a place that has become later to where it belongs.
func (c *Controller) sink(i int) {
	for {
		least := i
		for k := 2*i + 1; k <= 2*i+2 && k < len(c.lanes); k++ {
			if c.lanes[k].free < c.lanes[least].free {
				least = k
			}
		}
		if least == i {
			return
		}
		c.lanes[i], c.lanes[least] = c.lanes[least], c.lanes[i]
		i = least
	}
}
