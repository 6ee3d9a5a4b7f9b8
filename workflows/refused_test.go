package workflows

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/harpagon/harpagon/activities"
	"github.com/harpagon/harpagon/scheduler/placement"
)

// TestARefusedChangeLeavesNoTrace refuses a change and then loses what runs in ways, orders and
// at times that are drawn: a host that is killed or leaves, or comes back before it was missed,
// executors that end, gateways that are replaced or joined by others. What served must serve
// again, by itself, at all gateways; and once more after a minute without any host.
func TestARefusedChangeLeavesNoTrace(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			newLoss(t, seed).play()
		})
	}
}

// loss is a service with a refused change that loses what it runs on.
type loss struct {
	t      *testing.T
	random *rand.Rand
	world  *world
	has    map[string]placement.Deployment // what was installed last, by the gateway's queue
}

func newLoss(t *testing.T, seed uint64) *loss {
	return &loss{t: t, random: rand.New(rand.NewPCG(seed, 0)), world: newWorld(4), has: map[string]placement.Deployment{}}
}

func (l *loss) play() {
	w := l.world
	r := newRig(l.t, w)
	r.OnActivity("Prepare", mock.Anything, mock.Anything).Return(l.prepare)
	r.OnActivity("Install", mock.Anything, mock.Anything).Return(l.install)
	steps := []func(){
		func() { apply(20)(r) },
		func() { r.update(UpdateApply, ApplyRequest{Spec: traffic(tooMuch)}) },
		func() { l.lose(r); l.replaceGateway(r) },
		func() { l.serves(r) },
		func() { l.setHosts(r, FleetChange{Lost: []string{w.fleet.Hosts[0].Name}}) },
		func() { l.setHosts(r, FleetChange{Joined: []string{"three"}}, host("three", 4)) },
		func() { l.serves(r) },
		func() { apply(30)(r) },
		func() {
			assert.Equal(l.t, 30., r.status().Rate, "a change that can be is carried out")
			assert.Nil(l.t, r.status().Failure)
		},
		func() { r.update(UpdateDelete, "over") },
	}
	for i, step := range steps {
		r.at(time.Duration(i)*time.Minute, step)
	}
	r.run(Settings{RetryAfter: time.Hour})
}

// soon is a time within some seconds.
func (l *loss) soon() time.Duration { return 1 + time.Duration(l.random.Int64N(int64(8*time.Second))) }

// lose takes the host away on which everything runs, or restarts its process.
func (l *loss) lose(r *rig) {
	change := func(c FleetChange, hosts ...activities.HostInfo) func() {
		return func() { l.setHosts(r, c, hosts...) }
	}
	leaving := host("one", 4)
	leaving.Leaving = true
	two := host("two", 4)
	at := l.soon()
	switch l.random.IntN(4) {
	case 0: // it is missed, and another comes then
		r.at(at, change(FleetChange{Lost: []string{"one"}}))
		r.at(at+l.soon(), change(FleetChange{Joined: []string{"two"}}, two))
	case 1: // another has come before
		r.at(at, change(FleetChange{Joined: []string{"two"}}, host("one", 4), two))
		r.at(at+l.soon(), change(FleetChange{Lost: []string{"one"}}, two))
	case 2: // it leaves
		r.at(at, change(FleetChange{Leaving: []string{"one"}}, leaving))
		r.at(at+l.soon(), change(FleetChange{Lost: []string{"one"}}))
		r.at(at+20*time.Second, change(FleetChange{Joined: []string{"two"}}, two))
	default: // its process is another: executors end there one by one
		r.at(at, change(FleetChange{Joined: []string{"one"}, Restarted: []string{"one"}}, host("one", 4)))
		for _, e := range r.status().Executors {
			r.at(l.soon(), func() {
				r.SignalWorkflow(SignalExecutorEnded, executorEnded{Workflow: executorID(e.Executor, 1), Executor: e.Executor, Reason: "its process ended"})
			})
		}
	}
}

// setHosts leaves the fleet with these hosts, and reports what has changed.
func (l *loss) setHosts(r *rig, c FleetChange, hosts ...activities.HostInfo) {
	l.world.change(func() {
		l.world.fleet.Version++
		l.world.fleet.Hosts = hosts
	})
	r.SignalWorkflow(SignalFleetChanged, c)
}

// replaceGateway has the gateway's process replaced, or another join it.
func (l *loss) replaceGateway(r *rig) {
	w := l.world
	next := gatewayMember("g2")
	all := []activities.Member{gatewayMember("g1"), next}
	switch l.random.IntN(3) {
	case 0:
		return
	case 1:
		next = gatewayMember("g1")
		next.Instance = "2"
		all = []activities.Member{next}
	}
	r.at(l.soon(), func() {
		w.change(func() { w.gateways = all })
		r.SignalWorkflow(SignalFleetChanged, FleetChange{Members: true, Gateways: all, New: []activities.Member{next}})
	})
}

// prepare fails where executors could not have come.
func (l *loss) prepare(_ context.Context, d placement.Deployment) error {
	w := l.world
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range d.Slots {
		if !slices.ContainsFunc(w.fleet.Hosts, func(h activities.HostInfo) bool { return h.Name == s.Host }) {
			return temporal.NewNonRetryableApplicationError("still waits for "+s.Executor, activities.TypeNotReady, nil)
		}
	}
	return nil
}

func (l *loss) install(ctx context.Context, d placement.Deployment) error {
	l.world.change(func() { l.has[activity.GetInfo(ctx).TaskQueue] = d })
	return nil
}

// serves holds that what served before the refused change does.
func (l *loss) serves(r *rig) {
	t, w, s := l.t, l.world, r.status()
	assert.Equal(t, Serving, s.Phase)
	assert.Equal(t, 20., s.Rate)
	require.NotNil(t, s.Failure, "the refused change waits")
	assert.Contains(t, s.Failure.Reason, "requests per second need")
	assert.Equal(t, s.Requested.Generation, s.Failure.Generation)
	require.NotNil(t, s.Plan)
	assert.Len(t, s.Executors, len(w.reserved("pipeline/traffic")))
	assert.NotEmpty(t, s.Executors)
	for _, e := range s.Executors {
		assert.Equal(t, w.fleet.Hosts[0].Name, e.Host)
		w.runs(t, e.Executor, true)
	}
	for _, g := range w.gateways {
		d, told := l.has[g.Queue()]
		require.True(t, told, "%s has nothing", g.Name)
		assert.Equal(t, 20., d.Pipeline.Rate)
		assert.Equal(t, s.Executors, d.Slots)
	}
}
