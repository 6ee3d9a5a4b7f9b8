package workflows

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/worker"
)

// TestReplay replays histories that a real server recorded (see record_test.go)
// and fails when the workflow code would decide otherwise today: such a change
// needs workflow.GetVersion.
func TestReplay(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "histories", "*.json"))
	require.NoError(t, err)
	seen := map[string]bool{}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		seen[strings.SplitN(name, "-", 2)[0]] = true
		t.Run(name, func(t *testing.T) {
			replayer := worker.NewWorkflowReplayer()
			Register(replayer)
			assert.NoError(t, replayer.ReplayWorkflowHistoryFromJSONFile(nil, file))
		})
	}
	for _, kind := range []string{TypePipeline, TypeProfile, TypeReschedule, TypeExecutor, TypeFleet, TypeHost, TypeFunction} {
		assert.True(t, seen[kind], "no history of workflow %s", kind)
	}
}
