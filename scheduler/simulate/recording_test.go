package simulate

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/arrivals"
	"github.com/harpagon/harpagon/scheduler/dispatch/recording"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/policies"
)

// records keeps the recorders of a run.
type records struct {
	names []string
	all   []*recording.Recorder
}

func (r *records) record(limit int) func(string) *recording.Recorder {
	return func(station string) *recording.Recorder {
		r.names = append(r.names, station)
		r.all = append(r.all, &recording.Recorder{Limit: limit})
		return r.all[len(r.all)-1]
	}
}

// replay decides everything again.
func (r *records) replay(t require.TestingT) (steps int) {
	require.NotEmpty(t, r.all)
	for i, one := range r.all {
		again, err := recording.Replay(recording.Station{Name: r.names[i], Parts: one.Parts()})
		require.NoError(t, err)
		assert.Nil(t, again.Difference, again.Describe())
		steps += again.Steps
	}
	return steps
}

// Modules that share a device return Ask; the answers are recorded, too.
func TestSharedDevicesAreRecorded(t *testing.T) {
	p := pipelines.Pipeline{Name: "p", SLO: 200 * ms, Rate: 40, Modules: []pipelines.Module{step("a", 5*ms, 2), step("b", 8*ms, 4, "a")}}
	made := policies.Solve(plan.Problem{Pipeline: p, Hardware: []pipelines.Hardware{{Name: "gpu", Price: 1}}}, plan.Options{})
	require.Len(t, made.Devices, 1, "both run on one device")
	for _, kind := range []string{pipelines.ArrivalsEven, pipelines.ArrivalsPoisson} {
		p.Arrivals = kind
		var kept records
		load := Load{Pipeline: p, Rate: p.Rate, Arrivals: arrivals.Process{Kind: kind}}
		_, err := OnPlans([]Load{load}, []plan.Plan{made}, Options{Duration: 5 * time.Second, Eager: true, Record: kept.record(0)})
		require.NoError(t, err)
		assert.Equal(t, []string{"p/a", "p/b"}, kept.names)
		assert.Greater(t, kept.replay(t), 400)
	}
}
