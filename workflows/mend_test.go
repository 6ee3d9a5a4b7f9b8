package workflows

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"github.com/harpagon/harpagon/activities"
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

// TestAChangeIsNotCancelledWithItsExecutor holds that a change has failed, and is tried again
// when that is due, whose executor's workflow was cancelled or terminated: nobody has ended the
// change itself, and what has could do so again at once.
func TestAChangeIsNotCancelledWithItsExecutor(t *testing.T) {
	for _, cause := range []error{temporal.NewCanceledError(), &temporal.TerminatedError{}} {
		w := newWorld(4)
		w.prepareErr = activitiesNotReady()
		w.loadErr = temporal.NewApplicationErrorWithCause("its host was stopped", activities.TypeLoad, cause)
		env := quietEnv()
		w.register(env)
		env.OnRequestCancelExternalWorkflow(mock.Anything, mock.Anything, mock.Anything).Return(nil)
		spec := traffic(20)
		spec.Pipeline.Modules[0].Profile.Points = points("cpu")
		env.ExecuteWorkflow(TypeReschedule, RescheduleRequest{Spec: spec, Generation: 1, Number: 1, Reason: "applied"})
		err := env.GetWorkflowError()
		assert.Equal(t, "its host was stopped", activities.Reason(err))
		assert.Equal(t, activities.TypeLoad, activities.ReasonType(err))
		assert.Empty(t, interrupted(err), cause)
	}
}

// TestAFirstChangeThatIsCancelledIsDoneAgain holds that a service goes on by itself whose
// change somebody has cancelled, and looks before what is left of it.
func TestAFirstChangeThatIsCancelledIsDoneAgain(t *testing.T) {
	w := newWorld(4)
	script(t, w, Settings{RetryAfter: time.Hour}, func(r *rig) {
		w.installing = func(string) {
			w.installing = nil
			r.CancelWorkflowByID("reschedule/traffic/1", "")
		}
		apply(20)(r)
	}, func(r *rig) {
		s := r.status()
		assert.Equal(t, Serving, s.Phase)
		assert.Equal(t, 2, s.Serving, "gateways may have some of the first")
		assert.Equal(t, 1, w.stocks)
		assert.Equal(t, s.Executors, w.reserved("pipeline/traffic"))
	})
}
