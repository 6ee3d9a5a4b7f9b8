package roles

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/harpagon/harpagon/activities"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/scheduler/rollout"
	"github.com/harpagon/harpagon/workflows"
	"github.com/harpagon/harpagon/workflows/control"
)

// A gateway that was stopped, or cut off from Temporal, when a service was deleted or
// drained, or a trial of it ended, has not been told, and nobody tells it later: who ends a
// service does not wait for gateways that do not answer. So a gateway looks for itself.

// reviewEvery is the pace at which a gateway looks whether what it serves exists still.
const reviewEvery = 30 * time.Second

// knower is whom a gateway asks; a *control.Control.
type knower interface {
	Fleet(context.Context) (activities.FleetView, error)
	Status(context.Context, string) (control.Status, error)
}

// keepReviewing reviews again and again until life ends.
func (f *front) keepReviewing(life context.Context, of knower) {
	tick := time.NewTicker(reviewEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-life.Done():
			return
		}
		ctx, cancel := context.WithTimeout(life, joinWithin)
		f.review(ctx, of)
		cancel()
	}
}

// review stops serving what is served no more. The fleet's view tells of most that they
// are; of the others their workflow is asked. What has been installed since is of a later
// age than what is removed, and stays. Where nobody answers everything stays.
func (f *front) review(ctx context.Context, of knower) {
	names := f.names()
	if len(names) == 0 {
		return
	}
	view, err := of.Fleet(ctx)
	if err != nil {
		return
	}
	exist := map[string]string{} // IDs by name
	for _, id := range view.Services {
		_, name, _ := strings.Cut(id, "/")
		exist[name] = id
	}
	for _, name := range names {
		served, serves := f.Deployment(name)
		tried, trial := f.Deployment(rollout.Name(name))
		id, exists := exist[name]
		if exists && !trial && (!serves || len(view.Reserved[id]) > 0) {
			continue
		}
		s, err := of.Status(ctx, name)
		gone := errors.Is(err, control.ErrNotFound)
		if err != nil && !gone {
			continue
		}
		if trial && (gone || s.Trial == nil) {
			_ = f.Try(name, pipelines.Update{})
			f.drop(ctx, rollout.Name(name), tried.Age())
		}
		if gone || s.Phase == workflows.Drained {
			f.drop(ctx, name, served.Age())
		}
		if !gone {
			f.Announce(name)
		}
	}
}

// names are those of the services that are served, or announced, in order.
func (f *front) names() []string {
	all := map[string]bool{}
	for _, name := range f.Services() {
		all[name] = true
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	maps.Copy(all, f.announced)
	return slices.Sorted(maps.Keys(all))
}

// drop stops serving what is of an age, or older.
func (f *front) drop(ctx context.Context, name string, age placement.Age) {
	age.Generation++
	_ = f.Remove(ctx, name, age) // it takes no requests any more, whatever becomes of those under way
}
