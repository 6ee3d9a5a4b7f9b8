package workflows

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
)

// TestAnExecutorThatGatewaysMiss holds that one whose workflow was ended is replaced, and that
// the status names one that is only not there yet.
func TestAnExecutorThatGatewaysMiss(t *testing.T) {
	w := newWorld(4)
	var missed Missing
	script(t, w, Settings{}, apply(20), func(r *rig) {
		s := r.status()
		missed = Missing{Gateway: "g1", Generation: s.Serving, Executors: []string{s.Executors[0].Executor}}
		r.SignalWorkflow(SignalMissing, missed)
	}, func(r *rig) {
		s := r.status()
		assert.Equal(t, 1, s.Serving)
		assert.Equal(t, missed.Executors, s.Missing)
		assert.Contains(t, s.Describe(), "executors are not attached to a gateway: "+missed.Executors[0])
		w.change(func() { w.over = "its workflow was terminated" })
		r.SignalWorkflow(SignalMissing, missed)
	}, func(r *rig) {
		s := r.status()
		assert.Equal(t, Serving, s.Phase)
		assert.Equal(t, 2, s.Serving)
		assert.Empty(t, s.Missing)
		assert.Contains(t, s.Cause, missed.Executors[0]+" ended: its workflow was terminated")
		for _, e := range s.Executors {
			assert.NotEqual(t, missed.Executors[0], e.Executor)
		}
	})
}

func TestAServiceWhoseWorkflowIsCancelledIsDeleted(t *testing.T) {
	w := newWorld(4)
	r := newRig(t, w)
	r.at(0, func() { apply(20)(r) })
	r.at(time.Minute, r.CancelWorkflow)
	r.ExecuteWorkflow(TypeService, State{Kind: r.kind, Name: "traffic"})
	require.True(t, r.IsWorkflowCompleted())
	assert.True(t, temporal.IsCanceledError(r.GetWorkflowError()), r.GetWorkflowError())
	assert.Equal(t, []string{"traffic"}, w.removed)
	assert.Empty(t, w.reserved("pipeline/traffic"))
	w.counts(t, 0)
}
