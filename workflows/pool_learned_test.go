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

// unknown is ranking with a network, of which nothing has been measured.
func unknown(budget float64, learned bool) scheduler.Spec {
	s := ranking(budget)
	p := s.Pool
	p.Profile, p.Learned, p.Hardware = pipelines.Profile{}, learned, []string{"gpu", "cpu"}
	p.Network = pipelines.Module{Model: "net.onnx"}
	p.Inputs = []pipelines.Port{{Name: "x", Datatype: "FP32", Shape: []int64{-1, 3}}}
	p.Outputs = []pipelines.Output{{Name: "y", From: pipelines.Ref{Port: "y"}}}
	return s
}

// taken lets the gateway report durations of queries until end.
func taken(r *rig, end time.Duration, runs ...autoscale.BatchDuration) {
	for at := 5 * time.Second; at < end; at += 5 * time.Second {
		r.at(at, func() {
			to := r.Now()
			r.SignalWorkflow(SignalMeasures, autoscale.Measures{Pipeline: "traffic", From: to.Add(-10 * time.Second), To: to, Arrived: 100,
				Modules: []autoscale.ModuleMeasures{{Name: pipelines.PoolModule, Durations: runs}}})
		})
	}
}

// A pool of which nothing is measured serves at once, on one instance of each kind and more of the
// base, and is planned with what its queries have taken.
func TestAPoolLearnsWhatNobodyHasMeasured(t *testing.T) {
	w := market(4, 10)
	w.engine = "onnxruntime"
	scriptOf(t, scheduler.KindPool, w, Settings{}, func(r *rig) {
		r.update(UpdateApply, ApplyRequest{Spec: unknown(2.5, true)})
	}, func(r *rig) {
		s := r.status()
		require.Equal(t, 1, s.Serving, s.Describe())
		assert.Empty(t, w.profiled)
		assert.Equal(t, map[string]int{"gpu": 2, "cpu": 1}, kinds(s))
		assert.Contains(t, s.Describe(), "1 x cpu, 2 x gpu, to learn what queries take there")
		d := w.installed[0]
		assert.Empty(t, d.Worth)
		assert.Equal(t, []int{5, 40}, d.Pipeline.Modules[0].Batches)
		taken(r, time.Minute,
			autoscale.BatchDuration{Hardware: "gpu", Size: 5, Batches: 15, P50: 15 * time.Millisecond, P95: 16 * time.Millisecond},
			autoscale.BatchDuration{Hardware: "gpu", Size: 40, Batches: 6, P50: 50 * time.Millisecond, P95: 52 * time.Millisecond},
			autoscale.BatchDuration{Hardware: "cpu", Size: 5, Batches: 30, P50: 25 * time.Millisecond, P95: 25 * time.Millisecond})
	}, func(r *rig) {
		s := r.status()
		require.Equal(t, 2, s.Serving, s.Describe())
		assert.Equal(t, "learned what queries take, from 21 on gpu and 30 on cpu", s.Cause)
		assert.Equal(t, s.Plan.Pool.Instances, kinds(s))
		assert.Greater(t, kinds(s)["cpu"], 1, "short queries are cheaper there")
		assert.Positive(t, s.Rate)
		assert.Equal(t, 40, w.installed[1].Pipeline.Modules[0].Profile.Latency("gpu").Largest())
		assert.Empty(t, w.profiled)
		for _, e := range s.Executors {
			assert.Equal(t, 40, e.Batch, "executors stay as they are")
		}
	})
}

// A kind that gets no queries, or that has come after the others were measured, stays out of the
// plan: it does not stand in the way of one.
func TestKindsOfWhichNothingIsKnownStayOut(t *testing.T) {
	w := market(4, 10)
	w.engine = "onnxruntime"
	scriptOf(t, scheduler.KindPool, w, Settings{}, func(r *rig) {
		r.update(UpdateApply, ApplyRequest{Spec: unknown(2.5, true)})
	}, func(r *rig) {
		taken(r, time.Minute, autoscale.BatchDuration{Hardware: "gpu", Size: 5, Batches: 40, P50: 2 * time.Millisecond, P95: 2 * time.Millisecond})
	}, func(r *rig) {
		s := r.status()
		assert.Equal(t, 2, s.Serving, s.Describe())
		assert.Equal(t, map[string]int{"gpu": 2}, kinds(s))
		latency := w.installed[1].Pipeline.Modules[0].Profile.Latency("gpu")
		assert.Equal(t, 16*time.Millisecond, latency.At(40), "in proportion to the size that was seen")
	})
}
