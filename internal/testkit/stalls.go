// Package testkit is for tests only: parsers that stall, clocks that were set, and disks that
// are full.
//
// A fuzz target that calls WatchStalls fails with the input that takes far more processor time
// than its size accounts for, or never ends.
//
//	f.Fuzz(func(t *testing.T, text []byte) {
//		defer testkit.WatchStalls(t, len(text))()
//
// Processor time is what counts, since other work on the machine must fail no test.
//
// SetClock reads a clock that was set. The time of day jumps then, and the time
// that has passed does not: a time.Time has both, and methods such as Sub and Before go by
// the second where both times have it.
//
//	due := testkit.SetClock(time.Now(), -time.Hour) // as read after the clock was set back
//
// In a bubble of testing/synctest times have the time of day alone. SetClock gives them the
// other, so that they compare with each other as outside, but with time.Now they do not.
//
// NewDisk and MountDisk are disks that are small, full or may only be read. They are in
// memory, and only root may have them.
package testkit

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/harpagon/harpagon/internal/osutil"
)

// What an input may take: a hundred times and more of what the slowest parser, that of
// declarations, does with the instruments of fuzzing.
const (
	perInput = time.Second
	perByte  = 10 * time.Microsecond
)

// WatchStalls begins to watch over the processor time of this process; done ends it, and fails t
// where an input of so many bytes has taken too much. What does not end at all is ended by a
// panic, by which the engine of fuzzing knows the input.
func WatchStalls(t testing.TB, size int) (done func()) {
	return watch(t, perInput+time.Duration(size)*perByte, func(said string) { panic(said) })
}

// watch calls stalled, too, which may be on another goroutine.
func watch(t testing.TB, limit time.Duration, stalled func(string)) (done func()) {
	begin, over := osutil.ProcessorTime(), make(chan struct{})
	spent := func() string {
		if d := osutil.ProcessorTime() - begin; d > limit {
			return fmt.Sprintf("the input has taken %v of processor time, and may take %v", d, limit)
		}
		return ""
	}
	watcher := time.AfterFunc(limit/time.Duration(runtime.GOMAXPROCS(0)), func() {
		for {
			if said := spent(); said != "" {
				stalled(said)
				return
			}
			select {
			case <-over:
				return
			case <-time.After(limit / 4):
			}
		}
	})
	return func() {
		watcher.Stop()
		close(over)
		if said := spent(); said != "" {
			t.Error(said)
		}
	}
}
