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

// keepTime is for whoever plans with what was measured to load the same model: a search takes seconds.
const keepTime = time.Minute

// kept are instances that were loaded for measuring, one on a device at most, until they are loaded to serve, something
// else is loaded there, or nobody has come.
type kept struct {
	mu  sync.Mutex
	all map[string]*keptInstance // by device
}

type keptInstance struct {
	*instance
	expiry *time.Timer
}

// keep takes an instance in place of closing it.
func (k *kept) keep(in *instance) {
	device := in.loaded.Device
	one := &keptInstance{instance: in}
	k.mu.Lock()
	before := k.all[device]
	if k.all == nil {
		k.all = make(map[string]*keptInstance)
	}
	k.all[device] = one
	one.expiry = time.AfterFunc(keepTime, func() { k.drop(one) })
	k.mu.Unlock()
	if before != nil {
		_ = before.Close()
	}
}

// drop closes an instance that is still there.
func (k *kept) drop(one *keptInstance) {
	k.mu.Lock()
	there := k.all[one.loaded.Device] == one
	if there {
		delete(k.all, one.loaded.Device)
	}
	k.mu.Unlock()
	if there {
		_ = one.Close()
	}
}

// take gives the instance that was kept on a device, if it is of the model, and else closes it: its memory may be needed.
func (k *kept) take(ctx context.Context, m *executors.Model) *instance {
	k.mu.Lock()
	one := k.all[m.Device]
	delete(k.all, m.Device)
	k.mu.Unlock()
	if one == nil {
		return nil
	}
	one.expiry.Stop()
	if serves(&one.loaded, m) && one.server.model.Ready(ctx) == nil {
		return one.instance
	}
	_ = one.Close()
	return nil
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
