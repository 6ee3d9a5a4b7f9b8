package roles

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/activities"
	"github.com/harpagon/harpagon/gateway"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/rollout"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/workflows"
	"github.com/harpagon/harpagon/workflows/control"
)

// known is a fake of control.
type known struct {
	view   activities.FleetView
	status map[string]control.Status
	away   error
	asked  []string
	then   func() // happens before the status is answered
}

func (k *known) Fleet(context.Context) (activities.FleetView, error) { return k.view, k.away }

func (k *known) Status(_ context.Context, name string) (control.Status, error) {
	k.asked = append(k.asked, name)
	if k.then != nil {
		k.then()
	}
	s, ok := k.status[name]
	if !ok && k.away == nil {
		return s, fmt.Errorf("%q: %w", name, control.ErrNotFound)
	}
	return s, k.away
}

// oneModule is a deployment of a pipeline of one module.
func oneModule(name string, life, generation int) placement.Deployment {
	d := placement.Deployment{Life: life, Generation: generation, Pipeline: pipelines.Pipeline{
		Name: name, Rate: 1, Inputs: []pipelines.Port{{Name: "x", Datatype: wire.FP32, Shape: []int64{1}}},
		Modules: []pipelines.Module{{Name: "m", Model: "m", Inputs: []pipelines.Binding{{Name: "x", From: pipelines.Ref{Port: "x"}}}}},
		Outputs: []pipelines.Output{{Name: "y", From: pipelines.Ref{Module: "m", Port: "y"}}},
	}}
	d.Plan.Modules = []plan.Module{{Name: "m"}}
	return d
}

// TestAGatewayThatWasAwayLearnsWhatIsGone: it was stopped, or cut off from Temporal, when
// services were deleted and drained and trials ended. What is gone is not found from then
// on, and what is drained is not ready; what serves, or may serve, is left as it is.
func TestAGatewayThatWasAwayLearnsWhatIsGone(t *testing.T) {
	f := newFront(gateway.New(gateway.Options{}))
	f.enter(serving)
	ctx := t.Context()
	install := func(name string, life, generation int) {
		t.Helper()
		require.NoError(t, f.Install(ctx, oneModule(name, life, generation)))
	}
	for i, name := range []string{"serves", "deleted", "drained", "tried", "old", "again"} {
		install(name, 10+i, 3)
	}
	install("unlived", 0, 3)
	trial := pipelines.Update{Canary: 0.5}
	for _, name := range []string{"tried", "old"} {
		install(rollout.Name(name), 10, 4)
		require.NoError(t, f.Try(name, trial))
	}
	f.Announce("coming")
	f.Announce("gone")
	slot := []placement.Slot{{Executor: "e"}}
	k := &known{
		view: activities.FleetView{
			Services: []string{"pipeline/serves", "pipeline/drained", "pipeline/tried", "pipeline/old", "pipeline/coming"},
			Reserved: map[string][]placement.Slot{"pipeline/serves": slot, "pipeline/tried": slot, "pipeline/old": slot},
		},
		status: map[string]control.Status{
			"drained": {Phase: workflows.Drained}, "tried": {Phase: workflows.Trying, Trial: &workflows.TrialStatus{}}, "old": {Phase: workflows.Serving},
		},
		away: errors.New("nobody answers"),
	}
	f.review(ctx, k)
	assert.Len(t, f.Services(), 7, "where nobody answers what serves goes on")

	k.away = nil
	once := true
	k.then = func() { // is applied again when it has just been found to be gone
		if once && k.asked[len(k.asked)-1] == "again" {
			once = false
			install("again", 99, 1)
		}
	}
	f.review(ctx, k)
	assert.Equal(t, []string{"again", "old", "serves", "tried"}, f.Services())
	again, _ := f.Deployment("again")
	assert.Equal(t, placement.Age{Life: 99, Generation: 1}, again.Age())
	assert.NotContains(t, k.asked, "serves", "the fleet's view suffices")
	assert.NotContains(t, k.asked, "coming")
	asks := func(name string) error {
		_, err := f.Infer(ctx, &wire.InferRequest{Pipeline: name})
		return err
	}
	for _, name := range []string{"deleted", "gone", "unlived"} {
		assert.ErrorIs(t, asks(name), wire.ErrNotFound, name)
	}
	for _, name := range []string{"drained", "coming"} {
		assert.ErrorIs(t, asks(name), wire.ErrUnavailable, name)
	}
	assert.Contains(t, f.Trials(), "tried")
	assert.NotContains(t, f.Trials(), "old")
	_, left := f.Deployment(rollout.Name("old"))
	assert.False(t, left)
	require.Error(t, f.Install(ctx, oneModule("deleted", 11, 3)), "an order that comes late")
	install("unlived", 0, 1)
	install("deleted", 50, 1)
}
