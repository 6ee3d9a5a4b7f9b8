package gateway

import (
	"sync"
	"time"

	"github.com/harpagon/harpagon/scheduler/autoscale"
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/wire"
)

// failureKept is how long a failure of a module is told of.
const failureKept = time.Minute

// failures are what batches of modules lately failed of, so that whoever asks a minute
// later, or waited in vain meanwhile, is told the cause.
type failures struct {
	mu   sync.Mutex
	last map[moduleKey]failure
}

type moduleKey struct{ pipeline, module string }

type failure struct {
	at  dispatch.Time
	why string
}

// note remembers what a batch failed of. What callers got wrong, or gave up, is no
// failure of the module.
func (f *failures) note(now dispatch.Time, key moduleKey, err *wire.Error) {
	if err == nil || err.Code == wire.CodeInvalid || err.Code == wire.CodeDeadline || err.Code == wire.CodeCanceled {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for k, old := range f.last {
		if now-old.at > failureKept {
			delete(f.last, k)
		}
	}
	if f.last == nil {
		f.last = make(map[moduleKey]failure)
	}
	f.last[key] = failure{now, err.Reason}
}

// since is what a module last failed of at some time or later; empty for nothing.
func (f *failures) since(then dispatch.Time, key moduleKey) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if last, ok := f.last[key]; ok && last.at >= then {
		return last.why
	}
	return ""
}

// tell adds to measures what modules lately failed of.
func (f *failures) tell(now dispatch.Time, pipeline string, modules []autoscale.ModuleMeasures) {
	for i := range modules {
		modules[i].Failure = f.since(now-failureKept, moduleKey{pipeline, modules[i].Name})
	}
}
