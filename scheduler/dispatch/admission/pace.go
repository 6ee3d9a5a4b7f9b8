package admission

// Where more come than the devices can do, requests are taken in as the devices do them,
// and not as soon as there is room: there is when a batch has been begun, and whoever came
// then would wait for all of it. Those taken in later wait for less, and leave more time to
// the modules below.
//
// The pace is paceOver of what devices do in full batches, since some of those taken in are
// given up. While less than pacedRoom of the work for which an objective leaves time waits, nobody
// is turned away for coming too soon: devices must not idle, whatever the pace was judged by, and
// requests with less time than that keep queues short by themselves.
const (
	paceOver  = 1.1
	pacedRoom = 0.5
)

// gap is the time between two requests that are taken in, at least: none where no more come
// than can be done.
func (s *service) gap() Time { return Time(s.slowest() / paceOver * s.pressure()) }

// pace notes that a request is taken in. After a lull others may follow it at once, as many
// as devices do within an objective.
func (s *service) pace(now Time) { s.next = min(now, max(s.next, now-s.SLO)) + s.gap() }

// full notes that there is no time for a request: a lull has ended.
func (s *service) full(now Time) { s.next = max(s.next, now) }

// Hurry notes that the next request need not wait for its time, since its caller is below its
// share or another has made room for it.
func (c *Controller) Hurry(now Time, number int) {
	if s := c.of(number); s != nil {
		s.next = min(s.next, now)
	}
}
