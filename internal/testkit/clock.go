package testkit

import (
	"time"
	"unsafe"
)

// parts are those of a time.Time. Where it has both times, wall has a bit that says so, 33
// bits of seconds since 1885 and 30 of nanoseconds, and passed those since some time;
// otherwise wall has nanoseconds only, and passed seconds since the year 1.
type parts struct {
	wall   uint64
	passed int64
	_      *time.Location
}

const (
	both  = 1 << 63
	shift = 30
	to85  = (1884*365 + 1884/4 - 1884/100 + 1884/400) * 86400 // seconds
)

// SetClock is t as it would have been read had the clock been set before by that much, in whole
// seconds.
func SetClock(t time.Time, by time.Duration) time.Time {
	p := (*parts)(unsafe.Pointer(&t))
	if p.wall&both == 0 {
		since := t.UnixNano()
		p.wall, p.passed = both|uint64(p.passed-to85)<<shift|p.wall, since
	}
	p.wall += uint64(by/time.Second) << shift
	return t
}
