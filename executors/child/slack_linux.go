package child

import (
	"time"

	"golang.org/x/sys/unix"
)

// slack is by how much the sleeps of a child may end later than they were to.
const slack = time.Millisecond

// sleepLoosely has the kernel end the sleeps of programs that this thread starts up to
// slack later, until restore is called. While any of its threads works, Go's runtime
// looks after all of them every 20 µs, which beside a network of a tenth of a millisecond
// is a good part of what the child takes; and a child has nothing that must be punctual.
func sleepLoosely() (restore func()) {
	if unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(slack), 0, 0, 0) != nil {
		return func() {}
	}
	return func() { _ = unix.Prctl(unix.PR_SET_TIMERSLACK, 0, 0, 0, 0) } // 0 is what it began with
}
