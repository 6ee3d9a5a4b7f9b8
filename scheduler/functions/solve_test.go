package functions

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/experiments/published"
	"github.com/harpagon/harpagon/pipelines"
)

func TestPlansKeepWhatTheyPromise(t *testing.T) {
	for i := range 60 {
		p := drawn(6, i, 12)
		for _, policy := range []string{PolicyExact, PolicyHarmonyBatch, PolicyMBS} {
			plan, err := Solve(p, Options{Policy: policy})
			require.NoError(t, err)
			rates, cost := map[string]float64{}, 0.0
			for _, g := range plan.Groups {
				assert.NotEmpty(t, g.Applications)
				for _, a := range g.Applications {
					assert.LessOrEqual(t, a.Timeout+g.LatencyMax, a.SLO)
					rates[a.Name] += a.Rate
				}
				cost += g.Cost * g.Rate
			}
			for _, a := range p.Function.Applications {
				assert.InEpsilon(t, a.Rate, rates[a.Name], 1e-6, "%s of input %d: %s", policy, i, a.Name)
			}
			assert.InEpsilon(t, cost/plan.Rate, plan.CostPerRequest, 1e-6)
		}
	}
}

func TestOrderOfDeclarationDoesNotMatter(t *testing.T) {
	p := ask(1.0, 20, 0.5, 5, 0.8, 10)
	q := ask(0.5, 5, 0.8, 10, 1.0, 20)
	for _, policy := range Policies() {
		a, err := Solve(p, Options{Policy: policy})
		require.NoError(t, err)
		b, err := Solve(q, Options{Policy: policy})
		require.NoError(t, err)
		assert.InEpsilon(t, a.CostPerRequest, b.CostPerRequest, 1e-12, policy)
	}
}

func TestInfeasible(t *testing.T) {
	p := ask(0.001, 5, 0.5, 10)
	plan, err := Solve(p, Options{})
	require.NoError(t, err)
	assert.Equal(t, Infeasible, plan.Status)
	assert.Contains(t, plan.Reason, "app1 with an SLO of 1 ms")
	assert.NotContains(t, plan.Reason, "app2")
	assert.Empty(t, plan.Groups)

	p = ask(0.5, 5)
	p.Function.Profile.CPU = nil
	plan, err = Solve(p, Options{Policy: PolicyBatch})
	require.NoError(t, err)
	assert.Equal(t, Infeasible, plan.Status)
	assert.Contains(t, plan.Reason, "CPU functions")

	p = ask(5, 0.01)
	p.Function.Profile.GPU, p.Function.Profile.CPU = nil, p.Function.Profile.CPU[1:]
	plan, err = Solve(p, Options{})
	require.NoError(t, err)
	assert.Contains(t, plan.Reason, "profile a batch of one")
}

func TestBadInput(t *testing.T) {
	good := ask(0.5, 5, 0.8, 5)
	for name, spoil := range map[string]func(*Problem){
		"two applications called": func(p *Problem) { p.Function.Applications[1].Name = "app1" },
		"Invalid rate":            func(p *Problem) { p.Function.Applications[0].Rate = -1 },
		"Invalid objective":       func(p *Problem) { p.Function.Applications[0].SLO = 0 },
		"Invalid price":           func(p *Problem) { p.Provider.VCPUSecond = -1 },
		"Invalid granularity":     func(p *Problem) { p.Provider.Billing = -time.Second },
		"Invalid grid":            func(p *Problem) { p.Provider.VCPU.Step = 0 },
		"names provider":          func(p *Problem) { p.Function.Provider = "other" },
		"No application":          func(p *Problem) { p.Function.Applications = nil },
		"No function fits":        func(p *Problem) { p.Provider.VCPU, p.Function.Profile.GPU = pipelines.Grid{}, nil },
	} {
		p := good
		p.Function.Applications = append([]pipelines.Application{}, good.Function.Applications...)
		spoil(&p)
		_, err := Solve(p, Options{})
		assert.ErrorContains(t, err, name)
	}
	_, err := Solve(good, Options{Policy: "best"})
	assert.ErrorContains(t, err, `there is no policy "best"`)
}

func TestNobodyAsks(t *testing.T) {
	for _, policy := range Policies() {
		plan, err := Solve(ask(0.5, 0, 0.8, 0), Options{Policy: policy})
		require.NoError(t, err)
		require.NotEqual(t, Infeasible, plan.Status, policy)
		assert.Positive(t, plan.CostPerRequest)
		assert.Zero(t, plan.CostPerHour())
		plan, err = Solve(ask(0.5, 0, 0.8, 5, 0.9, 0), Options{Policy: policy})
		require.NoError(t, err)
		assert.Positive(t, plan.CostPerRequest)
	}
}

func TestJSON(t *testing.T) {
	plan, err := Solve(ask(0.5, 5, 0.8, 10), Options{})
	require.NoError(t, err)
	text, err := json.Marshal(plan)
	require.NoError(t, err)
	var out struct {
		Function string  `json:"function"`
		Status   string  `json:"status"`
		Cost     float64 `json:"cost_per_request"`
		Groups   []struct {
			Platform string  `json:"platform"`
			Memory   float64 `json:"gpu_memory_gb"`
			VCPU     float64 `json:"vcpu"`
			Batch    int     `json:"batch"`
			Max      float64 `json:"latency_max_ms"`
			Apps     []struct {
				Name    string  `json:"name"`
				Timeout float64 `json:"timeout_ms"`
			} `json:"applications"`
		} `json:"groups"`
	}
	require.NoError(t, json.Unmarshal(text, &out))
	assert.Equal(t, "vgg19", out.Function)
	assert.Equal(t, "optimal", out.Status)
	assert.Equal(t, plan.CostPerRequest, out.Cost)
	require.NotEmpty(t, out.Groups)
	g := out.Groups[len(out.Groups)-1]
	assert.InDelta(t, 800, g.Max+g.Apps[len(g.Apps)-1].Timeout, 1e-6)
	var again Plan
	require.NoError(t, json.Unmarshal(text, &again))
	twice, err := json.Marshal(again)
	require.NoError(t, err)
	assert.Equal(t, string(text), string(twice))
	empty, err := json.Marshal(Plan{})
	require.NoError(t, err)
	assert.Contains(t, string(empty), `"groups":[]`)
}

func ExampleSolve() {
	cloud := pipelines.Provider{
		Name: "cloud", VCPUSecond: 1.3e-5, GPUGBSecond: 1.5e-5, Invocation: 1.3e-7, Billing: time.Second,
		VCPU:      pipelines.Grid{Min: 0.05, Max: 16, Step: 0.05},
		GPUMemory: pipelines.Grid{Min: 1, Max: 24, Step: 1}, GPUSlice: 2 * time.Millisecond,
	}
	f := pipelines.Function{Name: "vgg19", Provider: "cloud", Profile: published.VGG19(), Applications: []pipelines.Application{
		{Name: "app1", SLO: 500 * time.Millisecond, Rate: 5},
		{Name: "app2", SLO: 800 * time.Millisecond, Rate: 10},
		{Name: "app3", SLO: time.Second, Rate: 20},
	}}
	plan, err := Solve(Problem{Function: f, Provider: cloud}, Options{Policy: PolicyExact})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(plan.Describe())
	// Output:
	// vgg19: optimal plan, 2.32 per million requests, 0.292 per hour at 35 requests per second
	// policy exact, every objective is kept by the maximum latencies
	//       applications  rate/s  function  batch   latency  at most                timeouts  per million
	//   app1, app2, app3      35  2 GB GPU     13  287.4 ms   288 ms  212 ms, 512 ms, 712 ms         2.32
}
