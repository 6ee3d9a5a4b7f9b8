// Package stalltest finds parsers that stall: a fuzz target that calls Watch fails with the
// input that takes far more processor time than its size accounts for, or never ends.
//
//	f.Fuzz(func(t *testing.T, text []byte) {
//		defer stalltest.Watch(t, len(text))()
//
// Processor time is what counts, since other work on the machine must fail no test.
package stalltest

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/harpagon/harpagon/wire/processors"
)

// What an input may take: a hundred times and more of what the slowest parser, that of
// declarations, does with the instruments of fuzzing.
const (
	perInput = time.Second
	perByte  = 10 * time.Microsecond
)

// Watch begins to watch over the processor time of this process; done ends it, and fails t
// where an input of so many bytes has taken too much. What does not end at all is ended by a
// panic, by which the engine of fuzzing knows the input.
func Watch(t testing.TB, size int) (done func()) {
	return watch(t, perInput+time.Duration(size)*perByte, func(said string) { panic(said) })
}

// watch calls stalled, too, which may be on another goroutine.
func watch(t testing.TB, limit time.Duration, stalled func(string)) (done func()) {
	begin, over := processors.Used(), make(chan struct{})
	spent := func() string {
		if d := processors.Used() - begin; d > limit {
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
