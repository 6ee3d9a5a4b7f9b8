package workflows

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler"
	"github.com/harpagon/harpagon/scheduler/autoscale"
)

// vision is a cluster of one pipeline that one device is enough for.
func vision(least, most int) scheduler.Spec {
	p := *traffic(20).Pipeline
	p.Name, p.Arrivals, p.Attainment = "scenes", "poisson", 0.99
	for i := range p.Modules {
		p.Modules[i].Profile.Points = points("cpu")
	}
	return scheduler.Spec{
		Cluster:  &pipelines.Cluster{Name: "traffic", Hardware: "cpu", Dispatch: "adaptive", Devices: pipelines.Range{Min: least, Max: most}, Pipelines: []string{"scenes"}},
		Members:  []pipelines.Pipeline{p},
		Hardware: []pipelines.Hardware{{Name: "cpu", Price: 0.1}},
	}
}

// saw is what gateways measured of the cluster until now.
func (r *rig) saw(generation int, bad, busy float64) {
	to := r.Now()
	one := autoscale.Measures{Pipeline: "scenes", Gateway: "g", Generation: generation, From: to.Add(-10 * time.Second), To: to, Offered: 20, Arrived: 200}
	one.Dropped = int64(200 * bad)
	one.Completed = 200 - one.Dropped
	one.SetAttainment()
	one.Modules = []autoscale.ModuleMeasures{{Name: "detect", Executors: []autoscale.ExecutorMeasures{{Executor: "e", Utilisation: busy}}}}
	all := autoscale.Measures{Pipeline: "traffic", Gateway: "g", Generation: generation, To: to, Members: []autoscale.Measures{one}}
	all.SumMembers()
	r.SignalWorkflow(SignalMeasures, all)
}

// A cluster grows when too many requests are late and gives back what idles, within what
// its declaration and the hosts allow; beyond it the advice is reported.
func TestAClusterIsScaledByWhatIsMeasured(t *testing.T) {
	w := newWorld(3)
	scriptOf(t, scheduler.KindCluster, w, Settings{}, func(r *rig) {
		r.update(UpdateApply, ApplyRequest{Spec: vision(1, 3)})
	}, func(r *rig) {
		s := r.status()
		require.Equal(t, Serving, s.Phase, s.Describe())
		require.Len(t, s.Executors, 1)
		r.saw(1, 0.5, 1)
	}, func(r *rig) {
		s := r.status()
		require.Equal(t, Serving, s.Phase, s.Describe())
		assert.Len(t, s.Executors, 2, "1·0.5/0.5 more")
		assert.Equal(t, "the load changed: 1 more devices: 50 % of the requests were not in time", s.Cause)
		assert.Equal(t, 2, s.Plan.Cluster.Devices)
		r.saw(1, 0.5, 1) // of the generation before
		r.saw(2, 0.6, 2)
	}, func(r *rig) {
		s := r.status()
		assert.Len(t, s.Executors, 3, "as many as it may have")
		r.saw(3, 0.6, 3)
	}, func(r *rig) {
		s := r.status()
		assert.Equal(t, 3, s.Generation, "nothing to change")
		require.NotNil(t, s.Scale)
		assert.Contains(t, s.Describe(), "advice: 5 more devices: 60 % of the requests were not in time\n")
		r.saw(3, 0, 1.2)
	}, func(r *rig) {
		assert.Nil(t, r.status().Scale)
		r.saw(3, 0, 1.4)
	}, func(r *rig) {
		r.saw(3, 0, 1.4)
	}, func(r *rig) {
		s := r.status()
		assert.Len(t, s.Executors, 2, s.Describe())
		assert.Contains(t, s.Cause, "1 devices less")
	})
}

func TestAClusterOfFixedSizeIsOnlyAdvised(t *testing.T) {
	scriptOf(t, scheduler.KindCluster, newWorld(3), Settings{Fixed: true}, func(r *rig) {
		r.update(UpdateApply, ApplyRequest{Spec: vision(1, 3)})
	}, func(r *rig) {
		r.saw(1, 0.5, 1)
	}, func(r *rig) {
		s := r.status()
		assert.Len(t, s.Executors, 1)
		assert.Contains(t, s.Promise(), "advice: 1 more devices")
	})
}

func TestCheckCluster(t *testing.T) {
	require.NoError(t, SpecFaults(vision(1, 3)))
	for want, change := range map[string]func(*scheduler.Spec){
		`no dispatch policy "fifo"`:                            func(s *scheduler.Spec) { s.Cluster.Dispatch = "fifo" },
		"it names 1 pipelines and 0 of them are declared":      func(s *scheduler.Spec) { s.Members = nil },
		"it names 0 pipelines and 1 of them are declared":      func(s *scheduler.Spec) { s.Cluster.Pipelines = nil },
		"the least number of devices, 4, is above the most, 3": func(s *scheduler.Spec) { s.Cluster.Devices.Min = 4 },
		`no hardware block declares "v100"`:                    func(s *scheduler.Spec) { s.Cluster.Hardware = "v100" },
		"it has no hardware to run on":                         func(s *scheduler.Spec) { s.Hardware = nil },
		`cluster "traffic": pipeline "scenes"`:                 func(s *scheduler.Spec) { s.Members[0].SLO = 0 },
	} {
		s := vision(1, 3)
		change(&s)
		assert.ErrorContains(t, SpecFaults(s), want)
	}
}
