package admission

import (
	"math"
	"slices"
)

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

// Fits reports whether the k items that a request has just been split into at a module can be
// in time there, behind what runs, each batch for as long as it has left, and what waits, in
// full batches. How many there are nobody knew when it came; a request with too many is
// better given up before the first of them has run. As many as the plan promises to answer fit. A
// deadline of zero is none.
func (c *Controller) Fits(now Time, number, module, k int, deadline Time) bool {
	s := c.of(number)
	if s == nil || k <= 0 || deadline == 0 {
		return true
	}
	m, of := &s.modules[module], &s.Modules[module]
	if k <= of.Most && s.promised(now) {
		return true
	}
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

// idle reports whether at every module each item of a request would find an executor that
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

// uses reports whether a module of the service may run on one of the devices.
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

// Where more come than the devices can do, the queue stands as long as admission lets it, and
// each request waits for about as long as it may: whatever takes longer than foreseen then
// makes many late at once, and the way back to the caller, which nobody measures, counts in
// full. Devices need no more than the batches that are begun next. So the work that waits is
// watched: the least of it within an objective's time has stood there for nothing (as the
// minimum over an interval of CoDel; Nichols and Jacobson 2012), and what is given away is
// shortened until it is that of standingBatches full batches. A queue that
// empties between bursts is left alone, as is one that holds what can all be done, and that of a
// plan that promises every request to be in time, as long as none has been missed.
const (
	standingBatches = 2
	standingGain    = 0.25 // of what is too much or too little, in each interval
)

// standing is the queue of a service that does not empty.
type standing struct {
	over  float64 // work before requests within the interval, beyond standingBatches, in nanoseconds, at least
	ends  Time    // of the interval
	short float64 // nanoseconds by which what is given away is shortened
}

// stands notes the work before a request that comes, beyond standingBatches.
func (s *service) stands(now Time, over float64) {
	q := &s.standing
	q.over = min(q.over, over)
	if now < q.ends {
		return
	}
	if s.pressure() == 0 || s.promised(now) {
		q.short = 0 // it was a burst, or has passed, or is what the plan counts on
	} else if q.ends > 0 {
		most := float64(s.SLO)
		for i := range s.devices {
			d := &s.devices[i]
			most = min(most, float64(s.SLO-d.lead)-d.request-standingBatches*d.batch)
		}
		q.short = max(0, min(q.short+standingGain*q.over, most))
	}
	q.ends, q.over = now+max(1, s.SLO), math.Inf(1)
}

// horizonBuckets is how finely deadlines are distinguished: in parts of the SLO.
const (
	horizonBuckets = 64
	horizonPerSLO  = 32
)

// horizonSLO stands in for the SLO of a service that has none.
const horizonSLO = 1_000_000_000 // nanoseconds

// horizon counts requests by their deadline, in buckets of time. What is overdue
// counts as due now.
type horizon struct {
	width  Time
	first  int64 // bucket of the earliest time that is kept
	counts [horizonBuckets]int
	later  map[int64]int // due after the last of counts, by bucket
	past   int           // due before first
	all    int
}

// noDeadline is the bucket of requests that are due never.
const noDeadline = math.MaxInt64

func newHorizon(slo Time) horizon {
	if slo <= 0 {
		slo = horizonSLO
	}
	return horizon{width: max(1, slo/horizonPerSLO)}
}

func (h *horizon) bucket(deadline Time) int64 {
	if deadline == 0 {
		return noDeadline
	}
	return int64(deadline / h.width)
}

// advance moves what has become overdue to past, and what was due later than the
// last bucket into the buckets that have become free.
func (h *horizon) advance(now Time) {
	to := int64(now / h.width)
	if to <= h.first {
		return
	}
	for b := h.first; b < min(to, h.first+horizonBuckets); b++ {
		i := b % horizonBuckets
		h.past += h.counts[i]
		h.counts[i] = 0
	}
	h.first = to
	for b, n := range h.later {
		if b < to+horizonBuckets {
			delete(h.later, b)
			h.put(b, n)
		}
	}
}

// add counts n requests in that are due then, or -n out.
func (h *horizon) add(now, deadline Time, n int) {
	h.advance(now)
	h.all += n
	h.put(h.bucket(deadline), n)
}

// put adds n to the count that the bucket belongs to at present.
func (h *horizon) put(bucket int64, n int) {
	switch {
	case bucket < h.first:
		h.past += n
	case bucket-h.first < horizonBuckets:
		h.counts[bucket%horizonBuckets] += n
	default:
		if h.later == nil {
			h.later = make(map[int64]int)
		}
		if h.later[bucket] += n; h.later[bucket] == 0 {
			delete(h.later, bucket)
		}
	}
}

// share is the part of all requests that is due no later than that.
func (h *horizon) share(now, deadline Time) float64 {
	h.advance(now)
	if h.all <= 0 {
		return 0
	}
	bucket, due := h.bucket(deadline), h.past
	for b := h.first; b < h.first+horizonBuckets && b <= bucket; b++ {
		due += h.counts[b%horizonBuckets]
	}
	for b, n := range h.later {
		if b <= bucket {
			due += n
		}
	}
	return min(1, max(0, float64(due)/float64(h.all)))
}
