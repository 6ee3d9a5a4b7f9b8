//go:build !noserver

package local_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/examples/functions/provider"
	"github.com/harpagon/harpagon/internal/testkit"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/hcl"
	"github.com/harpagon/harpagon/pipelines/library"
	"github.com/harpagon/harpagon/scheduler"
	"github.com/harpagon/harpagon/scheduler/functions"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/sdk/local"
	"github.com/harpagon/harpagon/sdk/local/system"
)

// TestWhatIsPlannedServes holds that services of all kinds that come up together
// serve by the plans that scheduler.Solve, and so harpagon plan, makes for the same
// files and options; for all policies and cost models see package workflows.
func TestWhatIsPlannedServes(t *testing.T) {
	testkit.Long(t)
	for name, by := range map[string]struct {
		pipelines, pool, function pipelines.Planning
		library                   int // pipelines of it; the joint search of exact for all takes seconds
	}{
		"exact":     {library: 2},
		"published": {pipelines.Planning{Policy: "harpagon", CostModel: "whole", AllowUnsound: true}, pipelines.Planning{Policy: "kairos"}, pipelines.Planning{Policy: "harmonybatch"}, 5},
	} {
		t.Run(name, func(t *testing.T) {
			doc, err := library.Document()
			require.NoError(t, err)
			doc.Pipelines = doc.Pipelines[:by.library]
			require.Empty(t, doc.Override(by.pipelines))
			examples, err := system.Load(hcl.LoadOptions{}, nil, "../../examples/pool", "../../examples/functions")
			require.NoError(t, err)
			examples.Pools[0].Plan, examples.Functions[0].Plan = by.pool, by.function
			doc.Hardware = append(doc.Hardware, examples.Hardware...)
			doc.Pools, doc.Functions, doc.Providers = examples.Pools, examples.Functions, examples.Providers
			doc.Providers[0].URL = provided(t, examples) + "/v2/models/{function}-{platform}-{size}"

			s, err := local.Start(t.Context(), local.Options{Document: &doc, Engine: "emulated", StateDir: t.TempDir(), Environ: []string{}, WithoutUI: true, Fixed: true})
			require.NoError(t, err)
			defer func() { require.NoError(t, s.Close()) }()
			specs := scheduler.Specs(&doc)
			require.Len(t, specs, by.library+2)
			require.Len(t, s.Services, len(specs))
			statuses := map[string]int{}
			for i, status := range s.Services {
				statuses[status.Name] = i
			}
			for i, p := range scheduler.Solve(specs, scheduler.Fleet{}, scheduler.Limits{}) {
				name := specs[i].Name()
				require.Contains(t, statuses, name)
				status := s.Services[statuses[name]]
				if one := status.Plan.Pipeline; one != nil && one.CutShort { // a slow machine has not searched as far in scheduler.DefaultTimeLimit
					assert.NotEqual(t, plan.Infeasible, one.Status, one.Reason)
					continue
				}
				assert.InDelta(t, p.CostPerHour(), status.Cost, 1e-9, name)
				policy, model := p.Policy()
				assert.Equal(t, [2]string{policy, model}, [2]string{status.Policy, status.CostModel}, name)
				assert.JSONEq(t, planText(t, p), planText(t, *status.Plan), name)
			}
		})
	}
}

// provided is the address of a provider of the document's functions.
func provided(t *testing.T, doc pipelines.Document) string {
	host, err := provider.New(provider.Options{Problems: []functions.Problem{{Function: doc.Functions[0], Provider: doc.Providers[0]}}, ColdStart: -1})
	require.NoError(t, err)
	t.Cleanup(func() { _ = host.Close() })
	s := httptest.NewServer(http.Handler(host))
	t.Cleanup(s.Close)
	return s.URL
}

// planText is the plan as plan --json and status --json print it, but for the time
// that it took.
func planText(t *testing.T, p scheduler.Plan) string {
	var v any
	switch {
	case p.Pipeline != nil:
		one := *p.Pipeline
		one.SolveTime = 0
		v = one
	case p.Function != nil:
		one := *p.Function
		one.SolveTime = 0
		v = one
	default:
		v = p.Pool
	}
	text, err := json.Marshal(v)
	require.NoError(t, err)
	return string(text)
}
