package cli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/internal/testkit"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler"
	"github.com/harpagon/harpagon/scheduler/plan"
)

// FuzzReadPlanFile reads any text, and what plan --out wrote with a part replaced by it: a
// file is taken only by the digest of what it states.
func FuzzReadPlanFile(f *testing.F) {
	file := planFile{Plans: []plan.Plan{{Pipeline: "p", Modules: []plan.Module{{Name: "m"}}}}, Made: &PlanOrigin{Version: "v", Generations: map[string]int{"p": 1}}}
	sealed, err := MarshalSealed(&file, file.Made)
	require.NoError(f, err)
	f.Add(sealed, uint(0), uint(0))
	f.Add([]byte("q"), uint(30), uint(1))
	f.Add([]byte(`{"made":{"version":"v"}}`), uint(0), uint(len(sealed)))
	f.Add([]byte(`,"made":{}`), uint(len(sealed)-2), uint(0))
	f.Add([]byte(`"plans":[{"pipeline":"p","modules":[{"name":"q","budget_ms":5}]}],`), uint(1), uint(0))
	f.Add([]byte(`"made":{"generations":{"q":1}},`), uint(1), uint(0))
	path := filepath.Join(f.TempDir(), "plan.json")
	f.Fuzz(func(t *testing.T, with []byte, from, length uint) {
		defer testkit.WatchStalls(t, len(with))()
		from = min(from, uint(len(sealed)))
		text := append(append(append([]byte{}, sealed[:from]...), with...), sealed[min(from+min(length, uint(len(sealed))), uint(len(sealed))):]...)
		require.NoError(t, os.WriteFile(path, text, 0o600))
		got, err := readPlanFile(path, "v")
		if err != nil {
			require.ErrorContains(t, err, "--plan")
			return
		}
		require.Equal(t, file.Made.Digest, got.Made.Digest)
		require.Equal(t, file.Plans, got.Plans)
		require.Equal(t, file.Made.Generations, got.Made.Generations)
		require.NotNil(t, got.Of(scheduler.Spec{Pipeline: &pipelines.Pipeline{Name: "p"}}))
	})
}
