package admission

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/dispatch/tc"
)

// Time is an instant of the driver's clock.
type Time = dispatch.Time

// Service is what admission must know of a service.
type Service struct {
	SLO      Time
	Promised bool    // its plan promises every even request to be in time
	Rate     float64 // requests per second that it is planned for; 0 if unknown
	Modules  []Module
}

// Module of a service. Modules stand in an order in which each comes after all
// that feed it.
type Module struct {
	Items   float64 // for each request, on average
	Most    int     // that one item is split into, by the plan's promise; 0 where that knows no bound
	Down    []int   // modules that its results feed
	Feeders int     // modules that feed it
	Groups  []Group
}

// Group is executors of one configuration.
type Group struct {
	Share     float64 // of the module's items
	Durations []Time  // by batch size; the last is that of a full batch
	Devices   []int   // that its executors are on, once for each batch that runs there at a time
}

// never is the instant that does not come.
const never = dispatch.Never

// Controller counts what waits and runs, and decides. It is a plain value for drivers to
// hold; one call at a time.
type Controller struct {
	services []*service // by number
	last     int        // number that was given last
	lanes    []lane     // of Fits
}

// NewAfter makes a Controller that gives numbers above n, so that another can take its
// services over.
func NewAfter(n int) Controller { return Controller{last: n} }

// Merge takes over the services of another, whose numbers differ from its own: from now on
// they count with each other.
func (c *Controller) Merge(other *Controller) {
	c.services = append(c.services, other.services...)
	slices.SortFunc(c.services, func(a, b *service) int { return cmp.Compare(a.number, b.number) })
	c.last, other.services = max(c.last, other.last), nil
}

type service struct {
	Service
	number    int
	modules   []module
	devices   []load         // that it needs
	underWay  int            // requests
	unqueued  int            // of those, the ones of which no item waits yet
	reserve   float64        // part of the time until a deadline, beyond the lead, that is not given away: see adjust
	void      Time           // until when its promise is
	meter     dispatch.Meter // of requests that come
	wasted    float64        // of device time that went to requests which were not in time
	whole     float64        // device time of a request, in nanoseconds
	slowest   float64        // the most that it takes of one device, in nanoseconds
	standing  standing
	deadlines horizon // of the requests under way
	part      float64 // of them that is due before what comes; see inTime
	learned   int     // batches since the work was last estimated
	estimated bool
	until     Time // when the estimate is no longer to be relied on
}

type module struct {
	devices          []int   // that its executors are on
	lanes            float64 // batches that they run at a time
	waiting, running int
	begun            []begun         // what runs, in the order in which it was begun
	left             []float64       // how long the batches of each group still run, in nanoseconds; see watch
	next             Time            // when what is above comes here, at the earliest; see watch
	paces            []dispatch.Pace // by group
	typical          Time            // exponential mean of what batches take, from start to end; 0 before the first
	last             Time            // when a batch was learned
}

// load is the work of a service on one device, in nanoseconds.
type load struct {
	device  int
	request float64   // of a whole request
	lead    Time      // from the start of the last batch there to the answer
	batch   float64   // of a full batch, at most
	last    float64   // of the last batch there, which both a request and lead count
	all     []float64 // of an item that waits, by module: there and below
	below   []float64 // of an item that runs
	runs    []runs    // what batches that run may still take of it
}

// runs is a group's part in the work on a device: of the time that its batches still run,
// so much is the device's.
type runs struct {
	module, group int
	part          float64
}

// Pressure rises between these parts of what the devices can do that come: see pressure.
const (
	calmLoad    = 0.95
	pressedLoad = 1.3
)

// What is kept in reserve under pressure for what is wasted: so much of the time for each
// part of device time. The part follows a change within the device time of some wasteWeight
// requests.
const (
	wasteWeight  = 256
	wasteReserve = 40
)

// What is kept in reserve: see adjust. More than reserveMost costs more than it saves where
// durations vary: devices idle, batches stay small, and what is late is so by its last batch.
const (
	lateShare   = 0.03
	reserveStep = 0.01
	reserveMost = 0.32
)

// typicalWeight is how many batches a change of their time takes to be followed.
const typicalWeight = 8

// estimateEvery is after how many batches the work is estimated again, and
// estimateFor after how long without so many.
const (
	estimateEvery = 16
	estimateFor   = time.Second
)

// Add enters a service and returns its number, which is never 0.
func (c *Controller) Add(s Service) int {
	c.last++
	c.services = append(c.services, &service{number: c.last, deadlines: newHorizon(s.SLO), meter: dispatch.NewMeter(s.Rate)})
	c.Change(c.last, s)
	return c.last
}

// of is the service of that number; nil when it is gone.
func (c *Controller) of(number int) *service {
	i, ok := slices.BinarySearchFunc(c.services, number, func(s *service, n int) int { return cmp.Compare(s.number, n) })
	if !ok {
		return nil
	}
	return c.services[i]
}

// Change replaces what is known of a service whose modules stay the same ones;
// what is under way stays.
func (c *Controller) Change(number int, s Service) {
	old := c.of(number)
	if old == nil {
		return
	}
	if len(old.modules) != len(s.Modules) {
		old.modules = make([]module, len(s.Modules))
	}
	for i := range s.Modules {
		m := &old.modules[i]
		if len(m.paces) != len(s.Modules[i].Groups) {
			m.paces = make([]dispatch.Pace, len(s.Modules[i].Groups))
		}
	}
	old.Service, old.estimated = s, false
	old.place()
}

// Remove forgets a service. Its number is not given again, and what is still
// told of it is ignored.
func (c *Controller) Remove(number int) {
	c.services = slices.DeleteFunc(c.services, func(s *service) bool { return s.number == number })
}

// Admit reports whether a request that is due then should be taken in, and counts it
// in if so: Leave counts it out. Until Enter all its work counts as to be done. A
// deadline of zero is none.
func (c *Controller) Admit(now Time, number int, deadline Time) bool {
	s := c.of(number)
	if s == nil {
		return true
	}
	if !c.inTime(now, s, deadline) {
		s.refuse(now)
		return false
	}
	s.meter.Hit(now)
	s.underWay++
	s.unqueued++
	s.deadlines.add(now, deadline, 1)
	return true
}

// Enter notes that the work of a request that was admitted is counted by its items
// from now on: AddWaiting has been told of the first, or it has ended without any.
func (c *Controller) Enter(number int) {
	if s := c.of(number); s != nil {
		s.unqueued--
	}
}

// Peek reports what Admit would, and counts nothing.
func (c *Controller) Peek(now Time, number int, deadline Time) bool {
	s := c.of(number)
	return s == nil || c.inTime(now, s, deadline)
}

// Reject counts a request that comes now as refused, without Admit.
func (c *Controller) Reject(now Time, number int) {
	if s := c.of(number); s != nil {
		s.refuse(now)
	}
}

func (c *Controller) inTime(now Time, s *service, deadline Time) bool {
	switch {
	case deadline != 0 && deadline <= now: // it came long before it was read
		return false
	case s.underWay == 0 || deadline == 0 || c.idle(s) || s.promised(now):
		s.stands(now, math.Inf(-1))
		return true
	}
	for _, other := range c.services {
		other.estimate(now)
		other.watch(now)
		if other.underWay > 0 {
			other.part = other.deadlines.share(now, deadline)
		}
	}
	over, care, kept := math.Inf(-1), s.care(), s.kept()
	defer func() { s.stands(now, over) }()
	for i := range s.devices {
		d := &s.devices[i]
		own, left := d.request+float64(d.lead), s.left(d, deadline-now, kept)
		work := own - d.last*(1-care/2)
		for _, other := range c.services {
			if work > left {
				break
			}
			work += other.before(i, d.device, now)
		}
		over = max(over, work+d.last-own-standingBatches*d.batch)
		if max(work, float64(d.lead)) > left {
			return false
		}
	}
	return true
}

// left is how much of that much time until a deadline is given away on a device, where that part
// of it is kept.
func (s *service) left(d *load, all Time, kept float64) float64 {
	left := float64(all) - kept*float64(max(0, all-d.lead))
	if s.standing.short > 0 {
		left = min(left, float64(s.SLO)-s.standing.short)
	}
	return left
}

// before is the time that a device needs for the part of the work of a service that is due
// before what comes: for what is there, and for what is above once the first of it has come. The
// device is likely its i-th.
func (s *service) before(i, device int, now Time) float64 {
	if i >= len(s.devices) || s.devices[i].device != device {
		i = slices.IndexFunc(s.devices, func(d load) bool { return d.device == device })
	}
	if i < 0 || s.underWay == 0 {
		return 0
	}
	d := &s.devices[i]
	there, above, next := 0.0, 0.0, never
	for k := range s.modules {
		m := &s.modules[k]
		waiting := float64(m.waiting)
		if s.Modules[k].Feeders == 0 {
			waiting += float64(s.unqueued) * s.Modules[k].Items
		}
		there += waiting * (d.all[k] - d.below[k])
		above += (waiting + float64(m.running)) * d.below[k]
	}
	for _, r := range d.runs {
		m := &s.modules[r.module]
		there += r.part * m.left[r.group]
		next = min(next, m.next)
	}
	if above > 0 && next < never {
		there = max(there, float64(next-now))
	}
	return (there + above) * s.part
}

// watch works out how long the batches of each group still run, all together, and when what is
// under way comes to modules below, at the earliest.
func (s *service) watch(now Time) {
	for i := range s.modules {
		m := &s.modules[i]
		m.next = never
		m.left = append(m.left[:0], make([]float64, len(m.paces))...)
	}
	for i := range s.modules {
		m, leaves := &s.modules[i], never
		for _, b := range m.begun {
			ends := max(now, b.ends)
			leaves = min(leaves, ends)
			if b.group >= 0 && b.group < len(m.left) {
				m.left[b.group] += float64(ends - now)
			}
		}
		from := m.next
		if m.waiting > 0 || s.Modules[i].Feeders == 0 && s.unqueued > 0 {
			from = now
		}
		if from < never {
			leaves = min(leaves, from+s.least(now, i))
		}
		for _, down := range s.Modules[i].Down {
			s.modules[down].next = min(s.modules[down].next, leaves)
		}
	}
}

// least is how long a batch of one takes at a module, at the least.
func (s *service) least(now Time, i int) Time {
	least := never
	for k := range s.Modules[i].Groups {
		least = min(least, s.modules[i].takes(now, &s.Modules[i], k, 1))
	}
	if least == never {
		return 0
	}
	return least
}

// End of a request that was admitted.
type End uint8

// The ends: answered in time, given up before its last batch, or answered too late.
const (
	InTime End = iota
	GivenUp
	Late
)

// Leave counts a request out that Admit has counted in and that has entered.
func (c *Controller) Leave(now Time, number int, deadline Time, how End) {
	if s := c.of(number); s != nil {
		s.underWay--
		s.deadlines.add(now, deadline, -1)
		if how != InTime {
			s.miss(now)
		}
		s.adjust(how == Late)
	}
}

// adjust keeps as much in reserve as lets lateShare of the requests that are taken
// in be answered too late: for whatever takes time that nobody has foreseen. Those
// that are given up before have cost little, and keep batches full.
func (s *service) adjust(late bool) {
	x := -lateShare
	if late {
		x++
	}
	s.reserve = min(reserveMost, max(0, s.reserve+reserveStep*x))
}

// kept is the part of the time until a deadline, beyond the lead, that is not given away: the reserve, and
// more of it the more is wasted on those taken in.
func (s *service) kept() float64 { return max(s.reserve, min(reserveMost, s.care())) }

// care grows from 0 to 1 with the device time that is wasted on those taken in, where more come
// than the devices can do: others come for those refused then, and the devices stay full.
func (s *service) care() float64 { return min(1, wasteReserve*s.wasted) * s.pressure() }

// Spent notes device time that has gone to a request: useful where that is in time.
func (c *Controller) Spent(now Time, number int, took Time, useful bool) {
	s := c.of(number)
	if s == nil || took <= 0 {
		return
	}
	s.estimate(now)
	if s.whole == 0 {
		return
	}
	x := 1.0
	if useful {
		x = 0
	}
	s.wasted += (x - s.wasted) * min(1, float64(took)/s.whole/wasteWeight)
}

// refuse counts a request that is not taken in.
func (s *service) refuse(now Time) {
	s.meter.Hit(now)
}

// miss notes that a request is not in time, or not taken in.
func (s *service) miss(now Time) { s.void = now + tc.VoidFor }

// promised reports whether the plan's promise counts. Once a request has been missed
// all the same, or clearly more come than planned for, what it takes for granted does not hold.
func (s *service) promised(now Time) bool {
	return s.Promised && now >= s.void && !tc.ExceedsPlannedRate(s.meter.Rate, s.Rate)
}

// pressure is how far more comes than the devices can do, in full batches: from 0 while they
// can do about all to 1 where a good part must be turned away whatever is done.
func (s *service) pressure() float64 {
	return min(1, max(0, (s.meter.Rate*s.slowest/1e9-calmLoad)/(pressedLoad-calmLoad)))
}

// AddWaiting adds n items to those that wait at a module, or takes -n away.
func (c *Controller) AddWaiting(number, module, n int) {
	if s := c.of(number); s != nil {
		s.modules[module].waiting += n
	}
}

// Start notes that a batch of n items has left the queue of a module for an
// executor of the group.
func (c *Controller) Start(now Time, number, module, group, n int) {
	if s := c.of(number); s != nil {
		m := &s.modules[module]
		m.waiting -= n
		m.running += n
		m.begin(now, &s.Modules[module], group, n)
	}
}

// Returned notes that n items of a batch that was begun then are back from their executor,
// or lost with it.
func (c *Controller) Returned(number, module, n int, begun Time) {
	if s := c.of(number); s != nil {
		s.modules[module].running -= n
		s.modules[module].end(begun, n)
	}
}

// Learn takes in what a batch of n items has taken in the engine, and in all.
func (c *Controller) Learn(now Time, number, module, group, n int, took, all Time) {
	s := c.of(number)
	if s == nil {
		return
	}
	m := &s.modules[module]
	if all <= 0 || group < 0 || group >= len(m.paces) {
		return
	}
	if table := s.Modules[module].Groups[group].Durations; n >= 1 && len(table) > 0 {
		m.paces[group].Learn(now, table[min(n, len(table))-1], took, all)
		if m.typical == 0 || s.forgotten(now, m) {
			m.typical = all
		}
		m.typical += (all - m.typical) / typicalWeight
		m.last = now
		s.learned++
	}
}

// estimate computes the work of items and requests on every device, at the pace
// at which batches run now.
func (s *service) estimate(now Time) {
	if s.estimated && s.learned < estimateEvery && now < s.until {
		return
	}
	s.estimated, s.learned, s.devices, s.whole, s.slowest, s.until = true, 0, s.devices[:0], 0, 0, now+estimateFor
	n := len(s.Modules)
	tail := make([]Time, n)
	for i := n - 1; i >= 0; i-- {
		for _, d := range s.Modules[i].Down {
			tail[i] = max(tail[i], tail[d])
		}
		tail[i] += s.typical(now, i)
	}
	for i := range s.Modules {
		for k, g := range s.Modules[i].Groups {
			if len(g.Durations) == 0 {
				continue
			}
			batch := float64(g.Durations[len(g.Durations)-1]) * s.modules[i].paces[k].Scale(now)
			each, part := batch/float64(len(g.Durations)), 1/float64(len(g.Devices))
			for at, device := range g.Devices {
				if slices.Contains(g.Devices[:at], device) {
					continue // batches beside each other take their time of one device together
				}
				d := s.device(device)
				d.batch = max(d.batch, batch)
				d.all[i] += g.Share * each * part
				d.runs = append(d.runs, runs{i, k, part})
				if d.lead == 0 || tail[i] < d.lead {
					d.lead, d.last = tail[i], min(batch, float64(s.typical(now, i)))
				}
			}
		}
	}
	for k := range s.devices {
		s.devices[k].add(s)
		s.whole += s.devices[k].request
		s.slowest = max(s.slowest, s.devices[k].request)
	}
}

func (s *service) device(number int) *load {
	i := slices.IndexFunc(s.devices, func(d load) bool { return d.device == number })
	if i < 0 {
		i = len(s.devices)
		s.devices = append(s.devices, load{device: number, all: make([]float64, len(s.Modules)), below: make([]float64, len(s.Modules))})
	}
	return &s.devices[i]
}

// add turns the work of items at their own module into that with the modules
// below. A module that several feed is counted in equal parts with each.
func (d *load) add(s *service) {
	for i := len(s.Modules) - 1; i >= 0; i-- {
		m, own := &s.Modules[i], d.all[i]
		d.request += m.Items * own
		for _, k := range m.Down {
			if below := &s.Modules[k]; m.Items > 0 && below.Feeders > 0 {
				d.below[i] += below.Items / m.Items / float64(below.Feeders) * d.all[k]
			}
		}
		d.all[i] = own + d.below[i]
	}
}

// typical is how long batches take at a module: as they have lately, which is
// long under load, when they are large; before the first, and when none has come for
// a while, one request alone. Whoever believes that nothing can be in time would never
// learn otherwise.
func (s *service) typical(now Time, i int) Time {
	if m := &s.modules[i]; m.typical > 0 && !s.forgotten(now, m) {
		return m.typical
	}
	least := Time(0)
	for _, g := range s.Modules[i].Groups {
		if len(g.Durations) > 0 && (least == 0 || g.Durations[0] < least) {
			least = g.Durations[0]
		}
	}
	return least
}

// forgotten reports whether no batch has been learned of for so long that what was is no
// guide. Batches that take longer than the objective are of no use: a host that stood still
// for a moment must not keep requests out for as many times that.
func (s *service) forgotten(now Time, m *module) bool {
	took := m.typical
	if s.SLO > 0 {
		took = min(took, s.SLO)
	}
	return now-m.last > estimateFor+2*took
}
