//go:build !noserver

package local_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/library"
	"github.com/harpagon/harpagon/scheduler"
	"github.com/harpagon/harpagon/sdk/local"
)

// TestWhatIsPlannedServes holds that pipelines that come up together serve by the
// plans that scheduler.Solve, and so harpagon plan, makes for the same files and
// options; for all policies and cost models see package workflows.
func TestWhatIsPlannedServes(t *testing.T) {
	for _, by := range []pipelines.Planning{{}, {Policy: "harpagon", CostModel: "whole", AllowUnsound: true}} {
		t.Run("policy "+by.Policy, func(t *testing.T) {
			doc, err := library.Document()
			require.NoError(t, err)
			doc.Pipelines = doc.Pipelines[:2]
			s, err := local.Start(t.Context(), local.Options{Document: &doc, Plan: by, Engine: "emulated", StateDir: t.TempDir(), Environ: []string{}, WithoutUI: true, Fixed: true})
			require.NoError(t, err)
			defer func() { require.NoError(t, s.Close()) }()
			require.Empty(t, doc.Override(by))
			specs := scheduler.Specs(&doc)
			require.Len(t, s.Services, len(specs))
			for i, p := range scheduler.Solve(specs, scheduler.Fleet{}, scheduler.Limits{}) {
				for _, status := range s.Services {
					if status.Name != specs[i].Name() {
						continue
					}
					assert.InDelta(t, p.CostPerHour(), status.Cost, 1e-9)
					policy, model := p.Policy()
					assert.Equal(t, [2]string{policy, model}, [2]string{status.Policy, status.CostModel})
					assert.JSONEq(t, planText(t, p), planText(t, *status.Plan))
				}
			}
		})
	}
}

// planText is the plan as plan --json prints it, but for the time that it took.
func planText(t *testing.T, p scheduler.Plan) string {
	one := *p.Pipeline
	one.SolveTime = 0
	text, err := json.Marshal(one)
	require.NoError(t, err)
	return string(text)
}
