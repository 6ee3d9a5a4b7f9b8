package workflows

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/activities"
	"github.com/harpagon/harpagon/scheduler"
)

// provisioner is one of hosts with so many cores.
func provisioner(devices, most int) activities.Member {
	return activities.Member{Kind: activities.KindProvisioner, Name: "cpu", Instance: "1", Offer: &activities.Offer{Hardware: "cpu", Devices: devices, Max: most}}
}

// comes has a host join.
func (w *world) comes(r *rig, name string, devices int) {
	w.change(func() {
		w.fleet.Hosts = append(w.fleet.Hosts, host(name, devices))
		w.fleet.Version++
	})
	r.SignalWorkflow(SignalFleetChanged, FleetChange{Joined: []string{name}})
}

func (w *world) wants(service string) []activities.Want {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.fleet.Wants[service]
}

// From no host at all: one to measure on, then as many as the plan needs.
func TestAServiceAsksForHosts(t *testing.T) {
	w := newWorld(0)
	w.fleet.Hosts, w.provisioners = nil, []activities.Member{provisioner(1, 9)}
	script(t, w, Settings{RetryAfter: time.Hour}, apply(200), func(r *rig) {
		s := r.status()
		require.NotNil(t, s.Failure)
		assert.Equal(t, activities.TypeAwaits, s.Failure.Type)
		assert.Contains(t, s.Failure.Reason, `module "detect" has no profile and no host has a device to measure it on: it wants hardware cpu, and the hosts offer none`)
		assert.Contains(t, s.Failure.Reason, "; asked for 1 host of cpu")
		assert.Equal(t, []activities.Want{{Hardware: "cpu", Hosts: 1}}, w.wants("pipeline/traffic"))
		w.comes(r, "cpu-1", 1)
	}, func(r *rig) {
		s := r.status()
		require.NotNil(t, s.Failure)
		assert.Equal(t, []string{"detect@cpu"}, w.profiled)
		assert.Len(t, w.reserved("pipeline/traffic"), 1, "the host is kept for what has measured on it")
		wants := w.wants("pipeline/traffic")
		require.Len(t, wants, 1, s.Failure.Reason)
		for i := range wants[0].Hosts - 1 {
			w.comes(r, "cpu-"+string(rune('2'+i)), 1)
		}
	}, func(r *rig) {
		s := r.status()
		require.NotNil(t, s.Failure, "it is the least number: one fewer does not do")
		require.Equal(t, []activities.Want{{Hardware: "cpu", Hosts: 1}}, w.wants("pipeline/traffic"))
		w.comes(r, "cpu-9", 1)
	}, func(r *rig) {
		s := r.status()
		assert.Equal(t, Serving, s.Phase, s.Describe())
		assert.Nil(t, s.Failure)
		assert.Empty(t, w.wants("pipeline/traffic"))
	})
}

// Where all hosts that can be made would not be enough, none is requested.
func TestNothingIsAskedForInVain(t *testing.T) {
	w := newWorld(1)
	w.provisioners = []activities.Member{provisioner(1, 2)}
	script(t, w, Settings{}, apply(20000), func(r *rig) {
		s := r.status()
		require.NotNil(t, s.Failure)
		assert.NotContains(t, s.Failure.Reason, "asked for")
		assert.Empty(t, w.wants("pipeline/traffic"))
		w.change(func() { w.provisioners = []activities.Member{provisioner(100, 9)} })
		r.SignalWorkflow(SignalFleetChanged, FleetChange{Offers: true})
	}, func(r *rig) {
		assert.Contains(t, r.status().Failure.Reason, "asked for")
		assert.NotEmpty(t, w.wants("pipeline/traffic"))
	})
}

// What was measured on is given back when no plan is possible all the same.
func TestAHostThatWasMeasuredOnIsGivenBack(t *testing.T) {
	w := newWorld(0)
	w.fleet.Hosts, w.provisioners = nil, []activities.Member{provisioner(1, 2)}
	script(t, w, Settings{}, apply(20000), func(r *rig) {
		w.comes(r, "cpu-1", 1)
	}, func(r *rig) {
		s := r.status()
		require.NotNil(t, s.Failure)
		assert.Equal(t, []string{"detect@cpu"}, w.profiled)
		assert.NotContains(t, s.Failure.Reason, "asked for")
		assert.Empty(t, w.reserved("pipeline/traffic"))
	})
}

// A cluster serves with what there is and requests the rest.
func TestAClusterAsksForTheRest(t *testing.T) {
	w := newWorld(1)
	w.provisioners = []activities.Member{provisioner(2, 4)}
	id := "cluster/traffic"
	scriptOf(t, scheduler.KindCluster, w, Settings{}, func(r *rig) {
		r.update(UpdateApply, ApplyRequest{Spec: vision(4, 6)})
	}, func(r *rig) {
		s := r.status()
		require.Equal(t, Serving, s.Phase, s.Describe())
		assert.Len(t, s.Executors, 1)
		assert.Equal(t, 3, s.Plan.Cluster.Lacking)
		assert.Equal(t, []activities.Want{{Hardware: "cpu", Hosts: 2}}, w.wants(id))
		w.comes(r, "cpu-1", 2)
	}, func(r *rig) {
		s := r.status()
		assert.Len(t, s.Executors, 3, s.Describe())
		assert.Equal(t, []activities.Want{{Hardware: "cpu", Hosts: 1}}, w.wants(id))
		w.comes(r, "cpu-2", 2)
	}, func(r *rig) {
		s := r.status()
		assert.Len(t, s.Executors, 4, s.Describe())
		assert.Equal(t, 0, s.Plan.Cluster.Lacking)
		assert.Empty(t, w.wants(id))
		r.saw(s.Generation, 0.6, 4)
	}, func(r *rig) {
		s := r.status()
		assert.Len(t, s.Executors, 5, s.Describe())
		assert.Equal(t, []activities.Want{{Hardware: "cpu", Hosts: 1}}, w.wants(id), "the load needs more")
		w.comes(r, "cpu-3", 2)
	}, func(r *rig) {
		s := r.status()
		assert.Len(t, s.Executors, 6, "as many as it may have")
		assert.Empty(t, w.wants(id))
	})
}
