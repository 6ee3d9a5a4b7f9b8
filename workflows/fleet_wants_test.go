package workflows

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/activities"
	"github.com/harpagon/harpagon/scheduler"
)

// TestWants: the wants of services add up, hosts that join are taken off, also those that
// joined before the request arrived, and a reservation states again what is still missing.
// One process provisions a kind of hardware at a time.
func TestWants(t *testing.T) {
	r := newFleetRig()
	at := func(n int, f func()) { r.RegisterDelayedCallback(f, time.Duration(n)*time.Second) }
	provisioner := func(instance string) activities.Member {
		return activities.Member{Kind: activities.KindProvisioner, Name: "cpu", Instance: instance, Offer: &activities.Offer{Hardware: "cpu", Devices: 2, Max: 5}}
	}
	ask := func(service string, version, hosts int) *fleetReply {
		return r.update(activities.FleetWant, activities.WantRequest{Service: service, Version: version, Wants: []activities.Want{{Hardware: "cpu", Hosts: hosts}}})
	}
	var first, second, bad, joined, late *fleetReply
	at(0, func() {
		r.update(activities.FleetWatch, "pipeline/a")
		first = r.update(activities.FleetEnter, provisioner("1"))
		second = r.update(activities.FleetEnter, provisioner("2"))
		bad = r.update(activities.FleetEnter, activities.Member{Kind: activities.KindProvisioner, Name: "cpu", Instance: "3"})
	})
	at(1, func() {
		require.NoError(t, first.err)
		assert.Equal(t, []scheduler.Offer{{Hardware: "cpu", Devices: 2, Hosts: 5}}, first.view.Offers())
		assert.ErrorContains(t, second.err, "another control role provisions cpu")
		assert.ErrorContains(t, bad.err, "must offer hosts")
		assert.Equal(t, []string{"pipeline/a fleet-changed {[] [] [] [] [] false [] [] true false}"}, r.told)
		ask("pipeline/a", first.view.Version, 2)
		ask("pipeline/b", first.view.Version, 1)
	})
	at(2, func() { joined = r.update(activities.FleetJoin, fleetHost("cpu-1", 2)) })
	at(3, func() {
		assert.Equal(t, 1, joined.view.Wanted("cpu"), "each may use it")
		assert.Equal(t, 0, joined.view.Wanted("gpu"))
		assert.Equal(t, 4, joined.view.Offers()[0].Hosts)
		late = ask("pipeline/b", joined.view.Version-1, 3)
	})
	at(4, func() {
		assert.Equal(t, 3, late.view.Wanted("cpu"), "1 and 3, less the host that joined before the request")
		again := r.update(activities.FleetJoin, fleetHost("cpu-1", 2))
		at(1, func() { assert.Equal(t, 3, again.view.Wanted("cpu"), "it was there before") })
	})
	at(6, func() {
		r.update(activities.FleetReserve, activities.Reservation{Service: "pipeline/a", Wants: []activities.Want{{Hardware: "cpu", Hosts: 4}}})
		r.update(activities.FleetReserve, activities.Reservation{Service: "pipeline/b", Forget: true})
		r.SignalWorkflow(signalMemberLost, memberLost{Member: provisioner("1"), Reason: "killed"})
	})
	at(7, func() {
		next := r.update(activities.FleetEnter, provisioner("2"))
		at(1, func() {
			require.NoError(t, next.err)
			assert.Equal(t, 4, next.view.Wanted("cpu"))
		})
	})
	at(9, func() {
		r.SetContinueAsNewSuggested(true)
		r.update(activities.FleetLeave, "unknown")
	})
	r.ExecuteWorkflow(TypeFleet, nil)
}
