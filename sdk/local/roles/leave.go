package roles

import (
	"context"
	"time"
)

// leaveEvery is the pace at which a host that leaves looks whether it is still needed.
const leaveEvery = 200 * time.Millisecond

// leave tells the fleet that the host is about to go, so that services move what they run
// here, and waits until nothing runs here or is about to, at most until notice ends.
func (r *Worker) leave(notice context.Context) {
	r.leaving.Store(true) // should it have to join again meanwhile
	tell := func(ctx context.Context) error {
		_, err := r.commands.Leave(ctx, r.Host.Name)
		return err
	}
	leave(notice, tell, r.needed)
}

// leave tells, again until it is heard, and waits until the host is needed no more.
func leave(ctx context.Context, tell func(context.Context) error, needed func(context.Context) bool) {
	for told := false; ctx.Err() == nil; {
		told = told || tell(ctx) == nil
		if told && !needed(ctx) {
			return
		}
		select {
		case <-time.After(leaveEvery):
		case <-ctx.Done():
		}
	}
}

// needed says whether an executor runs here, or a service has reserved a device for one.
func (r *Worker) needed(ctx context.Context) bool {
	for _, d := range r.Host.DeviceStatuses() {
		if d.Executors > 0 {
			return true
		}
	}
	view, err := r.commands.Fleet(ctx)
	return err != nil || view.Uses(r.Host.Name)
}
