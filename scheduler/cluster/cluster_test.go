package cluster

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
)

const ms = time.Millisecond

// model is a pipeline of one module with l(b) = each·b + fixed.
func model(name string, each, fixed, slo time.Duration, rate, memory float64) pipelines.Pipeline {
	m := pipelines.Module{Name: "m", Fanout: 1}
	for b := 1; b <= 32; b++ {
		m.Profile.Points = append(m.Profile.Points, pipelines.Point{Hardware: "gpu", Batch: b, Concurrency: 1, Duration: time.Duration(b)*each + fixed, MemoryMiB: memory})
	}
	return pipelines.Pipeline{Name: name, SLO: slo, Rate: rate, Arrivals: pipelines.ArrivalsPoisson, Attainment: 0.98, Modules: []pipelines.Module{m}}
}

func problem(devices pipelines.Range, all ...pipelines.Pipeline) Problem {
	p := Problem{Cluster: pipelines.Cluster{Name: "vision", Hardware: "gpu", Devices: devices}, Pipelines: all, Hardware: pipelines.Hardware{Name: "gpu", Price: 2}}
	for _, one := range all {
		p.Cluster.Pipelines = append(p.Cluster.Pipelines, one.Name)
	}
	return p
}

func TestACluster(t *testing.T) {
	all := []pipelines.Pipeline{model("a", ms, 5*ms, 50*ms, 900, 0), model("b", 2*ms, 8*ms, 90*ms, 400, 0)}
	p := Solve(problem(pipelines.Range{}, all...), Options{})
	require.NotEqual(t, Infeasible, p.Status, p.Reason)
	assert.GreaterOrEqual(t, p.Devices, p.Least)
	assert.LessOrEqual(t, float64(p.Devices), p.Work*2)
	assert.Equal(t, 2*float64(p.Devices), p.Cost)
	assert.GreaterOrEqual(t, p.Attainment, 0.98)
	assert.GreaterOrEqual(t, p.Goodput, 1300.0)
	assert.Len(t, p.SubClusters, 1)
	text, err := json.Marshal(p)
	require.NoError(t, err)
	var back Plan
	require.NoError(t, json.Unmarshal(text, &back))
	assert.Equal(t, p.Describe(), back.Describe())

	more := Solve(problem(pipelines.Range{Min: p.Devices + 3, Max: 64}, all...), Options{})
	assert.Equal(t, p.Devices+3, more.Devices)
	assert.Equal(t, p.Needed, more.Needed)
	assert.Equal(t, Optimal, more.Status, "no fewer are allowed")
	assert.Greater(t, more.Goodput, p.Goodput)

	few := Solve(problem(pipelines.Range{Min: 1, Max: p.Needed - 1}, all...), Options{})
	assert.Equal(t, Infeasible, few.Status)
	assert.Contains(t, few.Reason, "need more than the")
}

// A search that is ended once some number of devices has proven enough returns a plan
// marked as cut short; ended before, it returns an infeasible one.
func TestASearchThatIsEnded(t *testing.T) {
	whole := problem(pipelines.Range{}, model("a", ms, 5*ms, 50*ms, 900, 0), model("b", 2*ms, 8*ms, 90*ms, 400, 0))
	asked := 0
	best := Solve(whole, Options{Stop: func() bool { asked++; return false }})
	require.NotEqual(t, Infeasible, best.Status, best.Reason)
	require.False(t, best.CutShort)
	cut, none := 0, 0
	for _, part := range []int{1, 20, 40, 60, 80, 95} {
		left := asked * part / 100
		p := Solve(whole, Options{Stop: func() bool { left--; return left < 0 }})
		if p.Status == Infeasible {
			none++
			assert.Contains(t, p.Reason, "allow it more time")
			continue
		}
		cut++
		assert.True(t, p.CutShort)
		assert.Contains(t, p.Describe(), "the search was ended")
		assert.GreaterOrEqual(t, p.Devices, best.Devices)
		assert.GreaterOrEqual(t, p.Attainment, 0.98)
		assert.GreaterOrEqual(t, p.Goodput, 1300.0)
	}
	assert.NotZero(t, cut)
	assert.NotZero(t, none)
}

// A cluster that can have more devices serves with those that there are, and reports how many
// it lacks, of what its rates need or of what it was advised to have.
func TestAClusterThatGrows(t *testing.T) {
	p := problem(pipelines.Range{Max: 64}, model("a", ms, 5*ms, 50*ms, 900, 0), model("b", 2*ms, 8*ms, 90*ms, 400, 0))
	whole := Solve(p, Options{})
	require.Greater(t, whole.Needed, 2)
	for name, c := range map[string]struct{ there, wanted, devices, lacking int }{
		"too few for the rates":     {1, 0, 1, whole.Needed - 1},
		"enough":                    {whole.Needed + 2, 0, whole.Needed, 0},
		"the load needs more":       {whole.Needed, whole.Needed + 3, whole.Needed, 3},
		"the load needs less":       {whole.Needed, 1, 1, 0},
		"fewer than the rates need": {1, 2, 1, 1},
		"no more than is allowed":   {60, 99, 60, 4},
	} {
		p.Grows, p.Hardware.Count, p.Wanted = true, c.there, c.wanted
		got := Solve(p, Options{})
		require.NotEqual(t, Infeasible, got.Status, "%s: %s", name, got.Reason)
		assert.Equal(t, []int{c.devices, c.lacking, whole.Needed}, []int{got.Devices, got.Lacking, got.Needed}, name)
		if c.lacking > 0 {
			assert.Equal(t, Feasible, got.Status, name)
		}
	}
	p.Grows, p.Hardware.Count, p.Wanted = false, 1, 0
	assert.Equal(t, Infeasible, Solve(p, Options{}).Status)
}

func TestWhatDoesNotFitTogetherIsDivided(t *testing.T) {
	all := []pipelines.Pipeline{model("a", ms, 5*ms, 50*ms, 300, 600), model("b", ms, 5*ms, 50*ms, 300, 600), model("c", ms, 5*ms, 50*ms, 600, 300)}
	whole := problem(pipelines.Range{}, all...)
	whole.Hardware.Memory = 1 << 30
	p := Solve(whole, Options{})
	require.NotEqual(t, Infeasible, p.Status, p.Reason)
	require.Len(t, p.SubClusters, 2)
	sum := 0
	for _, s := range p.SubClusters {
		sum += s.Devices
		assert.False(t, len(s.Pipelines) > 1 && s.Pipelines[0] == "a" && s.Pipelines[1] == "b")
	}
	assert.Equal(t, p.Devices, sum)
	whole.Hardware.Memory = 500 << 20
	assert.Contains(t, Solve(whole, Options{}).Reason, "fits on no device")
	assert.Len(t, Solve(problem(pipelines.Range{}, all...), Options{DispatcherRate: 700}).SubClusters, 2)
}

func TestWhatCannotBePlanned(t *testing.T) {
	p := problem(pipelines.Range{})
	assert.Contains(t, Solve(p, Options{}).Reason, "no pipeline")
	p = problem(pipelines.Range{}, model("a", ms, 5*ms, 5*ms, 10, 0))
	assert.Contains(t, Solve(p, Options{}).Reason, "cannot be met")
	p.Hardware = pipelines.Hardware{}
	assert.Contains(t, Solve(p, Options{}).Reason, "start a worker")
}
