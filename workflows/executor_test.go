package workflows

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"

	"github.com/harpagon/harpagon/activities"
	"github.com/harpagon/harpagon/scheduler/autoscale"
	"github.com/harpagon/harpagon/scheduler/placement"
)

func quietEnv() *testsuite.TestWorkflowEnvironment {
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	env := suite.NewTestWorkflowEnvironment()
	env.SetTestTimeout(time.Minute)
	env.SetWorkerOptions(worker.Options{DeadlockDetectionTimeout: time.Minute}) // other load may stop a test for a second
	env.SetDetachedChildWait(false)
	return env
}

func TestProfileMeasuresEveryKind(t *testing.T) {
	w := newWorld(1)
	gpu := placement.Device{Host: "two", Name: "gpu/0", Hardware: "gpu"}
	w.fleet.Hosts = append(w.fleet.Hosts, activities.HostInfo{Name: "two", Devices: []placement.Device{gpu}})
	spec := traffic(20)
	spec.Hardware = append(spec.Hardware, spec.Hardware[0], spec.Hardware[0])
	spec.Hardware[1].Name, spec.Hardware[2].Name = "gpu", "absent"
	spec.Pipeline.Modules[1].Profile.Points, spec.Pipeline.Modules[1].Hardware = nil, []string{"gpu"}
	env := quietEnv()
	w.register(env)
	env.ExecuteWorkflow(TypeProfile, ProfileRequest{Service: "pipeline/traffic", Pipeline: *spec.Pipeline, Hardware: spec.Hardware})
	var reply ProfileReply
	require.NoError(t, env.GetWorkflowResult(&reply))
	assert.ElementsMatch(t, []string{"detect@cpu", "detect@gpu", "vehicle@gpu"}, w.profiled)
	assert.Equal(t, append(points("cpu"), points("gpu")...), reply.Points["detect"])
	assert.Equal(t, points("gpu"), reply.Points["vehicle"])
}

func TestChangeDescribe(t *testing.T) {
	for want, c := range map[string]Change{
		"rate 10/s: cost 0.12 per hour":                                          {ToRate: 10, ToCost: 0.12, First: true},
		"rate 10/s -> 25/s: cost 0.12 -> 0.2 per hour, costs 0.08 more per hour": {FromRate: 10, ToRate: 25, FromCost: 0.12, ToCost: 0.2},
		"rate 25/s -> 10/s: cost 0.2 -> 0.12 per hour, saves 0.08 per hour":      {FromRate: 25, ToRate: 10, FromCost: 0.2, ToCost: 0.12},
		"rate 10/s -> 11/s: cost 0.2 per hour, no change in cost":                {FromRate: 10, ToRate: 11, FromCost: 0.2, ToCost: 0.2},
		"rate 10/s, SLO 400 ms -> 150 ms: cost 0.2 per hour, no change in cost": {
			FromRate: 10, ToRate: 10, FromCost: 0.2, ToCost: 0.2, FromSLO: 400 * time.Millisecond, ToSLO: 150 * time.Millisecond,
		},
	} {
		assert.Equal(t, want, c.Describe())
	}
}

func TestRoundUp(t *testing.T) {
	for in, want := range map[float64]float64{61: 61, 61.2: 62, 0.123: 0.13, 1234: 1300, 9.96: 10} {
		assert.InDelta(t, want, autoscale.RoundUp(in), 1e-9, in)
	}
}
