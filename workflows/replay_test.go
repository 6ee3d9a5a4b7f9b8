package workflows

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/worker"
)

// TestReplay replays histories of services of every kind that a real server
// recorded (see record_test.go; those in folders are of fleets of the edition of that day),
// and fails when the workflow code would decide otherwise today: such a change
// needs workflow.GetVersion.
func TestReplay(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "histories", "*.json"))
	require.NoError(t, err)
	editions, err := filepath.Glob(filepath.Join("testdata", "histories", "*", "*.json"))
	require.NoError(t, err)
	files = append(files, editions...)
	seen := map[string]bool{}
	healed := false
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		seen[name[:strings.LastIndex(name, "-")]] = true
		healed = healed || continuesHealed(t, file)
		t.Run(filepath.Join(filepath.Base(filepath.Dir(file)), name), func(t *testing.T) {
			replayer := worker.NewWorkflowReplayer()
			Register(replayer)
			assert.NoError(t, replayer.ReplayWorkflowHistoryFromJSONFile(nil, file))
		})
	}
	for _, kind := range []string{
		"service-pipeline", "service-pool", "service-function", "reschedule-traffic", "reschedule-ranking", "reschedule-ranker",
		"service-cluster", TypeProfile, TypeExecutor, TypeFleet, TypeHost, TypeMember,
	} {
		assert.True(t, seen[kind], "no history of %s", kind)
	}
	assert.True(t, healed, "no history begins with durations that were measured while serving")
}

// continuesHealed reports whether the history begins with a state that has durations
// measured while serving.
func continuesHealed(t *testing.T, file string) bool {
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	var history struct {
		Events []struct {
			Started struct {
				Input struct{ Payloads []struct{ Data []byte } }
			} `json:"workflowExecutionStartedEventAttributes"`
		}
	}
	require.NoError(t, json.Unmarshal(content, &history))
	for _, payload := range history.Events[0].Started.Input.Payloads {
		var state State
		if json.Unmarshal(payload.Data, &state) == nil && len(state.Served) > 0 {
			return true
		}
	}
	return false
}
