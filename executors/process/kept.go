package process

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/pipelines"
)

// keepTime covers planning with the measurement until the same model is loaded: a search takes
// seconds.
const keepTime = time.Minute

// kept are instances that were loaded for measuring, until they are loaded to serve, what they take of their device is
// needed, or keepTime is over.
type kept struct {
	mu  sync.Mutex
	all []*keptInstance
}

type keptInstance struct {
	*instance
	expiry *time.Timer
}

// keep takes an instance in place of closing it.
func (k *kept) keep(in *instance) {
	one := &keptInstance{instance: in}
	k.mu.Lock()
	defer k.mu.Unlock()
	one.expiry = time.AfterFunc(keepTime, func() {
		for _, gone := range k.remove(func(other *keptInstance) bool { return other == one }) {
			_ = gone.Close()
		}
	})
	k.all = append(k.all, one)
}

// remove takes out those that are meant.
func (k *kept) remove(meant func(*keptInstance) bool) (out []*keptInstance) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.all = slices.DeleteFunc(k.all, func(one *keptInstance) bool {
		if !meant(one) {
			return false
		}
		one.expiry.Stop()
		out = append(out, one)
		return true
	})
	return out
}

// take returns an instance of the model, if one was kept and is healthy. Others are left for
// loads that run beside it.
func (k *kept) take(ctx context.Context, m *executors.Model) *instance {
	for {
		found := false
		one := k.remove(func(one *keptInstance) bool {
			if found || !serves(&one.loaded, m) {
				return false
			}
			found = true
			return true
		})
		if len(one) == 0 {
			return nil
		}
		if one[0].server.model.Ready(ctx) == nil {
			return one[0].instance
		}
		_ = one[0].Close()
	}
}

// free closes all that are kept on a device; false where none were.
func (k *kept) free(device string) bool {
	all := k.remove(func(one *keptInstance) bool { return one.loaded.Device == device })
	for _, one := range all {
		_ = one.Close()
	}
	return len(all) > 0
}

// serves reports whether what was loaded as one model is the other: from the same files, by their digests, and ready for
// all its batch sizes.
func serves(loaded, m *executors.Model) bool {
	if len(m.Module.Content) == 0 || loaded.MaxBatch < m.MaxBatch {
		return false
	}
	if slices.ContainsFunc(m.Batches, func(n int) bool { return !slices.Contains(loaded.Batches, n) }) {
		return false
	}
	key := func(m *executors.Model) string {
		module := m.Module
		module.Profile = pipelines.Profile{}
		text, err := json.Marshal([]any{module, m.Hardware, m.Device, m.Cores, m.Outputs})
		if err != nil {
			return err.Error() + m.Device
		}
		return string(text)
	}
	return key(loaded) == key(m)
}
