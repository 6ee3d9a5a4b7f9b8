package listen

import (
	"sync"
	"syscall"
	"time"
)

// lookEvery is how often it is looked whether a caller is still there.
const lookEvery = 50 * time.Millisecond

// watch looks whether the caller of a connection is still there, while it waits. Nothing is
// done for nil.
type watch struct {
	raw syscall.RawConn

	mu     sync.Mutex
	timer  *time.Timer // nil before the first request
	hungUp func()      // nil while nothing waits
}

func (w *watch) begin(hungUp func()) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.hungUp = hungUp; w.timer == nil {
		w.timer = time.AfterFunc(lookEvery, w.look)
	} else {
		w.timer.Reset(lookEvery)
	}
}

func (w *watch) end() {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hungUp = nil
	w.timer.Stop()
}

func (w *watch) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.hungUp == nil:
	case gone(w.raw):
		w.hungUp()
	default:
		w.timer.Reset(lookEvery)
	}
}
