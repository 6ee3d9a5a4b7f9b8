package workflows

import (
	"context"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/workflow"

	"github.com/harpagon/harpagon/activities"
)

// ownersRig is a fleet whose members receive what they own.
type ownersRig struct {
	*fleetRig
	t    *testing.T
	mu   sync.Mutex
	owns map[string]activities.OwnInput // the last input, by task queue
}

func newOwnersRig(t *testing.T) *ownersRig {
	r := &ownersRig{fleetRig: newFleetRig(), t: t, owns: map[string]activities.OwnInput{}}
	r.RegisterActivityWithOptions(func(ctx context.Context, in activities.OwnInput) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		if queue := activity.GetInfo(ctx).TaskQueue; in.Moves >= r.owns[queue].Moves {
			r.owns[queue] = in
		}
		return nil
	}, activity.RegisterOptions{Name: "OwnServices"})
	return r
}

func dispatcherMember(name, instance string) activities.Member {
	return activities.Member{Kind: activities.KindDispatcher, Name: name, Instance: instance, Address: name + ":1", Attach: name + ":2"}
}

// told are the services that a dispatcher received last.
func (r *ownersRig) told(m activities.Member) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(maps.Keys(r.owns[m.Queue()].Owns))
}

func (r *ownersRig) view() (v activities.FleetView) {
	value, err := r.QueryWorkflow(activities.FleetDevices)
	require.NoError(r.t, err)
	require.NoError(r.t, value.Get(&v))
	return v
}

// TestDispatchersShareServices: services are shared between those that are ready, move
// when one joins or is lost, and always by higher epochs.
func TestDispatchersShareServices(t *testing.T) {
	r := newOwnersRig(t)
	at := func(n int, f func()) { r.RegisterDelayedCallback(f, time.Duration(n)*time.Second) }
	one, two, again := dispatcherMember("one", "i1"), dispatcherMember("two", "i2"), dispatcherMember("one", "i3")
	ready := func(m activities.Member) *fleetReply {
		return r.update(activities.FleetOwn, activities.OwnClaim{Name: m.Name, Instance: m.Instance})
	}
	highest := uint64(0)
	higher := func(v activities.FleetView, service string) {
		for _, o := range v.Owners {
			if o.Service == service {
				assert.Greater(t, o.Epoch, highest)
				highest = o.Epoch
			}
		}
	}
	at(0, func() {
		for _, id := range []string{"pipeline/a", "pool/b", "pipeline/c", "pipeline/d", "function/f"} {
			r.update(activities.FleetWatch, id)
		}
	})
	at(1, func() { r.update(activities.FleetEnter, one) })
	at(2, func() {
		assert.Equal(t, []string{"a", "b", "c", "d"}, r.told(one), "alone it has all, functions are the gateways' own")
		r.update(activities.FleetEnter, two)
	})
	at(3, func() {
		assert.Empty(t, r.told(two), "gateways and executors are still coming to it")
		ready(one)
		ready(two)
	})
	at(4, func() {
		assert.Equal(t, []string{"a", "c"}, r.told(one))
		assert.Equal(t, []string{"b", "d"}, r.told(two))
		highest = r.view().Epoch()
		// A gateway has lost the owner of b, and the other has claimed it.
		lost := r.update(activities.FleetOwn, activities.OwnClaim{Name: "one", Instance: "i1", Claimed: map[string]uint64{"b": highest + 1, "unknown": 1}})
		at(1, func() {
			require.NoError(t, lost.err)
			higher(lost.view, "b")
			assert.Contains(t, lost.view.Owned(one), "b")
			assert.Equal(t, []string{"d"}, r.told(two), "and it is not given back to one that may be gone")
		})
	})
	at(6, func() {
		// Another gateway comes with the same news, and is too late.
		r.update(activities.FleetOwn, activities.OwnClaim{Name: "two", Instance: "i2", Claimed: map[string]uint64{"b": highest - 1}})
		at(1, func() { assert.Contains(t, r.view().Owned(one), "b", "%v", r.view().Owners) })
	})
	at(8, func() {
		// While the server was away, the other has claimed d far ahead.
		ahead := r.view().Epoch() + 1<<40
		claimed := r.update(activities.FleetOwn, activities.OwnClaim{Name: "two", Instance: "i2", Claimed: map[string]uint64{"d": ahead}})
		at(1, func() {
			for _, o := range claimed.view.Owners {
				if o.Service == "d" {
					assert.Equal(t, ahead, o.Epoch)
				}
			}
		})
	})
	at(10, func() {
		stale := r.update(activities.FleetOwn, activities.OwnClaim{Name: "one", Instance: "of a former life"})
		at(1, func() { assert.ErrorContains(t, stale.err, "another process has its name") })
		r.update(activities.FleetEnter, again) // it was killed and has started again
	})
	at(12, func() {
		assert.Len(t, r.told(two), 2, "neither is ready, so what has lost its owner is shared by both")
		assert.Len(t, r.told(again), 2)
		ready(two)
		at(1, func() { ready(again) })
	})
	at(15, func() {
		assert.Len(t, r.told(two), 2)
		assert.Len(t, r.told(again), 2)
		r.SignalWorkflow(signalMemberLost, memberLost{Member: two, Reason: "silent"})
	})
	at(17, func() {
		assert.Len(t, r.told(again), 4)
		r.update(activities.FleetReserve, activities.Reservation{Service: "pipeline/a", Forget: true})
	})
	at(19, func() {
		assert.Equal(t, []string{"b", "c", "d"}, r.told(again))
		r.SetContinueAsNewSuggested(true)
		r.SignalWorkflow(signalHostLost, hostLost{Name: "unknown"})
	})
	r.ExecuteWorkflow(TypeFleet, nil)
	var next *workflow.ContinueAsNewError
	require.ErrorAs(t, r.GetWorkflowError(), &next)
	var state *FleetState
	require.NoError(t, fleetPayloads(next, &state))
	assert.Len(t, state.Owners, 3)
	assert.True(t, state.Members["dispatcher/one"].Ready)
}
