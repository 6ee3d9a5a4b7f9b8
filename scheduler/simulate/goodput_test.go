package simulate

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/arrivals"
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/dispatch/shared"
	"github.com/harpagon/harpagon/scheduler/plan"
)

// poolRun offers a pipeline to n devices.
func poolRun(p pipelines.Pipeline, a arrivals.Process, n int, o Options) Run {
	return func(rate float64, seed uint64) (Result, error) {
		o.Seed = seed
		return OnCluster([]Load{{Pipeline: p, Arrivals: a, Rate: rate}}, gpus(n), o)
	}
}

// TestGoodputOfEvenArrivals: one device that takes 10 ms for each request
// serves 100 even requests a second, and not more.
func TestGoodputOfEvenArrivals(t *testing.T) {
	p := pipelines.Pipeline{Name: "p", SLO: 15 * ms, Modules: []pipelines.Module{step("m", 10*ms, 1)}}
	g, err := FindGoodput(poolRun(p, arrivals.Process{}, 1, Options{Dispatch: "eager"}), Search{Start: 7, Attainment: 1, Tolerance: 0.001})
	require.NoError(t, err)
	assert.InEpsilon(t, 100, g.Rate, 0.002)
	assert.True(t, g.Above.Rate > g.Rate && g.Above.Rate <= g.Rate*1.002)
	assert.Equal(t, 1.0, g.At.Worst().Attainment)
	assert.Less(t, g.Above.Worst().Attainment, 1.0)
	assert.Contains(t, g.Describe(), "goodput ")

	p.SLO = 9 * ms
	_, err = FindGoodput(poolRun(p, arrivals.Process{}, 1, Options{Dispatch: "eager"}), Search{})
	assert.ErrorContains(t, err, "longer than the SLO")
	_, err = FindGoodput(nil, Search{Attainment: 2})
	assert.ErrorContains(t, err, "such as 0.99")
}

// TestGoodputAsTheAuthorsMeasured: the variants of deferred and eager reach what
// the rules of Symphony's own code reach on 8 devices, Poisson arrivals and no
// delays, on the models of the paper's Table 4: within 2 %, and 4 % for those that
// suit the drop rule ill and collapse beyond a cliff.
func TestGoodputAsTheAuthorsMeasured(t *testing.T) {
	inception := linear("inception", 5090*time.Microsecond, 18368*time.Microsecond, 70*ms, 64)
	for _, c := range []struct {
		dispatch string
		pipeline pipelines.Pipeline
		want     float64
		within   float64
	}{
		{"deferred", resnet50(), 5313, 0.02},
		{"deferred", inception, 951, 0.02},
		{"deferred:beta-lambda", resnet50(), 5328, 0.02},
		{"deferred:beta-lambda", inception, 951, 0.02},
		{"deferred:head", resnet50(), 4868, 0.04},
		{"deferred:head", inception, 822, 0.04},
		{"eager", resnet50(), 4849, 0.02},
		{"eager", inception, 816, 0.02},
		{"eager:window", resnet50(), 3786, 0.04},
		{"eager:window", inception, 712, 0.04},
	} {
		run := poolRun(c.pipeline, arrivals.Process{Kind: pipelines.ArrivalsPoisson}, 8, Options{Dispatch: c.dispatch, Duration: 15 * time.Second})
		g, err := FindGoodput(run, Search{Seeds: 2, Seed: 1, Start: c.want})
		require.NoError(t, err)
		assert.InEpsilon(t, c.want, g.Rate, c.within, "%s %s", c.dispatch, c.pipeline.Name)
	}
}

// TestGoodputIsOfEachPipeline: a rate is borne only when each pipeline attains its target,
// however well all together do.
func TestGoodputIsOfEachPipeline(t *testing.T) {
	run := func(rate float64, _ uint64) (Result, error) {
		few := int64(10 * min(1, 50/rate))
		return Result{Pipelines: []PipelineResult{
			{Pipeline: "many", Counts: Counts{Requests: 990, Completed: 990}, Attainment: 1},
			{Pipeline: "few", Counts: Counts{Requests: 10, Completed: few, Dropped: 10 - few}, Attainment: float64(few) / 10},
		}}, nil
	}
	g, err := FindGoodput(run, Search{Seeds: 2})
	require.NoError(t, err)
	assert.InEpsilon(t, 50, g.Rate, 0.01)
	assert.Equal(t, "few", g.Above.Worst().Pipeline)
	assert.Equal(t, Counts{Requests: 1980, Completed: 1980}, g.At.Models[0].Counts)
	assert.Equal(t, Counts{Requests: 20, Completed: 18, Dropped: 2}, g.Above.Models[1].Counts)
	assert.Contains(t, g.Describe(), "of few, the least of 2")
}

func TestOutage(t *testing.T) {
	load := Load{Pipeline: resnet50(), Arrivals: arrivals.Process{Kind: pipelines.ArrivalsPoisson}, Rate: 4500}
	play := func(outages ...Outage) PipelineResult {
		r, err := OnCluster([]Load{load}, gpus(8), Options{Dispatch: "deferred", Duration: 10 * time.Second, Outages: outages})
		require.NoError(t, err)
		return r.Pipelines[0]
	}
	whole := play()
	half := play(Outage{Device: 0, From: 5 * time.Second}, Outage{Device: 1, From: 5 * time.Second}, Outage{Device: 2, From: 5 * time.Second}, Outage{Device: 3, From: 5 * time.Second})
	back := play(Outage{Device: 0, From: 5 * time.Second, To: 5100 * ms}, Outage{Device: 1, From: 5 * time.Second, To: 5100 * ms})
	assert.Greater(t, whole.Attainment, 0.999)
	assert.InDelta(t, 0.78, half.Attainment, 0.05)
	assert.Greater(t, back.Attainment, 0.99)
	assert.Less(t, back.Attainment, whole.Attainment)
}

func TestWhatCannotBeSimulated(t *testing.T) {
	p := resnet50()
	one := []Load{{Pipeline: p, Rate: 10}}
	bad := func(want string, loads []Load, pool []Devices, o Options) {
		t.Helper()
		_, err := OnCluster(loads, pool, o)
		assert.ErrorContains(t, err, want)
	}
	bad("no pipeline", nil, gpus(1), Options{})
	bad("no devices", one, nil, Options{})
	bad("at least one device", one, gpus(0), Options{})
	bad("more than 262144 devices", one, gpus(MaxDevices+1), Options{})
	bad(`no profile on "tpu"`, one, []Devices{{"tpu", 1}}, Options{})
	bad("cuts batches for the groups of a plan", one, gpus(1), Options{Dispatch: "tc"})
	bad("have no sizes", one, gpus(1), Options{Dispatch: "matching"})
	bad("Declare a function block", one, gpus(1), Options{Dispatch: "grouped"})
	bad("there is no dispatch policy", one, gpus(1), Options{Dispatch: "fifo"})
	bad("two pipelines", append(one, one...), gpus(1), Options{})
	bad("cannot be offered -1", []Load{{Pipeline: p, Rate: -1}}, gpus(1), Options{})
	bad("more than a day", []Load{{Pipeline: p, Rate: 1e12}}, gpus(1), Options{})
	bad("duration", one, gpus(1), Options{Duration: -1})
	bad("a time is not negative", one, gpus(1), Options{Delay: FixedDelay(dispatch.Delay{Control: -1})})
	bad("noise", one, gpus(1), Options{Noise: -1})
	bad("confidence", one, gpus(1), Options{Confidence: 2})
	bad("no device 3", one, gpus(3), Options{Outages: []Outage{{Device: 3}}})
	bad("cannot be lost from", one, gpus(1), Options{Outages: []Outage{{From: 2, To: 1}}})
	bad("must not be negative or fall", []Load{{Pipeline: p, Arrivals: arrivals.Process{Kind: arrivals.Replay, Stamps: []time.Duration{2, 1}}}}, gpus(1), Options{})
	bad("holds no requests", []Load{{Pipeline: p, Arrivals: arrivals.Process{Kind: "trace"}}}, gpus(1), Options{})
	bad("a number from 0.001", []Load{{Pipeline: p, Arrivals: arrivals.Process{Kind: "gamma"}}}, gpus(1), Options{})
	bad("stopped", []Load{{Pipeline: p, Rate: 1000}}, gpus(1), Options{Stop: func() bool { return true }})

	_, err := OnPlans(one, nil, Options{})
	assert.ErrorContains(t, err, "each load needs its plan")
	_, err = OnPlans(one, []plan.Plan{{Pipeline: "resnet50", Status: plan.Infeasible, Reason: "no time"}}, Options{})
	assert.ErrorContains(t, err, "has no plan: no time")
	_, err = OnPlans(one, []plan.Plan{{Pipeline: "other"}}, Options{})
	assert.ErrorContains(t, err, `plan of pipeline "other"`)
	_, err = OnPlans(one, []plan.Plan{{Pipeline: "resnet50"}}, Options{})
	assert.ErrorContains(t, err, "make a new plan")
}

func TestNoRequests(t *testing.T) {
	r, err := OnCluster([]Load{{Pipeline: resnet50()}}, gpus(2), Options{})
	require.NoError(t, err)
	assert.Zero(t, r.Pipelines[0].Requests)
	assert.Equal(t, 1.0, r.Pipelines[0].Attainment)
}

func TestBusyExecutorsAreNotStarted(t *testing.T) {
	o := Options{Policy: func(shared.Options) (dispatch.Policy, error) { return careless{}, nil }}
	_, err := OnCluster([]Load{{Pipeline: resnet50(), Rate: 1000}}, gpus(1), o)
	assert.ErrorContains(t, err, "which is busy or gone")
}

// careless starts every request at once on the first executor.
type careless struct{}

func (careless) Name() string     { return "careless" }
func (careless) Len() int         { return 0 }
func (careless) Describe() string { return "" }
func (careless) Step(_ Time, ev dispatch.Event, out []dispatch.Action) []dispatch.Action {
	if ev.Kind == dispatch.Arrive {
		out = append(out, dispatch.Action{Act: dispatch.Start, Batch: []dispatch.RequestID{ev.Request.ID}})
	}
	return out
}
