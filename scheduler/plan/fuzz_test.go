package plan_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/internal/testkit"
	"github.com/harpagon/harpagon/scheduler/plan"
)

// A decoded plan encodes and decodes to the same again, and Describe takes it.
func FuzzPlanJSON(f *testing.F) {
	seed, err := os.ReadFile("testdata/traffic.json")
	require.NoError(f, err)
	f.Add(seed)
	f.Add([]byte(`{"status":"infeasible","reason":"why","modules":[{"name":"m","groups":[]}]}`))
	f.Add([]byte(`{"slo_ms":1e300}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		defer testkit.WatchStalls(t, len(data))()
		var p plan.Plan
		if json.Unmarshal(data, &p) != nil {
			return
		}
		_ = p.Describe()
		encoded, err := json.Marshal(p)
		require.NoError(t, err)
		var back plan.Plan
		require.NoError(t, json.Unmarshal(encoded, &back))
		again, err := json.Marshal(back)
		require.NoError(t, err)
		require.JSONEq(t, string(encoded), string(again))
	})
}
