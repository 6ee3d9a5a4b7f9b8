package workflows

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/harpagon/harpagon/activities"
	"github.com/harpagon/harpagon/scheduler/autoscale"
	"github.com/harpagon/harpagon/scheduler/placement"
)

// within runs a function in a workflow.
func within(t *testing.T, f func(ctx workflow.Context)) {
	env := new(testsuite.WorkflowTestSuite).NewTestWorkflowEnvironment()
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		f(ctx)
		return nil
	})
	require.True(t, env.IsWorkflowCompleted())
	require.NoError(t, env.GetWorkflowError())
}

// TestTheLoadOfAKilledGatewayCountsOnce: what it measured is another's load by the time that it is back.
func TestTheLoadOfAKilledGatewayCountsOnce(t *testing.T) {
	within(t, func(ctx workflow.Context) {
		s, killed := new(service), activities.Member{Name: "b", Instance: "1"}
		s.together(ctx, autoscale.Measures{Gateway: "b", Offered: 400})
		all := s.together(ctx, autoscale.Measures{Gateway: "a"})
		assert.InDelta(t, 400, all.Offered, 0)
		back := killed
		back.Instance = "2"
		s.gatewaysChanged(ctx, FleetChange{Members: true, Gateways: []activities.Member{{Name: "a"}, back}, New: []activities.Member{back}})
		all = s.together(ctx, autoscale.Measures{Gateway: "a", Offered: 400})
		assert.InDelta(t, 400, all.Offered, 0)
	})
}

// TestAnotherHostIsAskedWhereOneIsGone: a change that begins as a host is lost does not wait for it.
func TestAnotherHostIsAskedWhereOneIsGone(t *testing.T) {
	gone := temporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START, nil)
	for name, test := range map[string]struct {
		fails []error // of each host
		asked []string
		err   bool
	}{
		"the first is there":   {[]error{nil, nil, nil}, []string{"one"}, false},
		"the first is gone":    {[]error{gone, nil, nil}, []string{"one", "two"}, false},
		"all are gone":         {[]error{gone, gone, gone}, []string{"one", "two", "leaving"}, true},
		"it has another fault": {[]error{temporal.NewNonRetryableApplicationError("no such file", "x", nil), nil, nil}, []string{"one"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			env := new(testsuite.WorkflowTestSuite).NewTestWorkflowEnvironment()
			var asked []string
			env.RegisterActivityWithOptions(func(ctx context.Context, _ activities.IdentifyInput) (map[string]placement.ModuleEngine, error) {
				host := strings.TrimPrefix(activity.GetInfo(ctx).TaskQueue, activities.HostQueue(""))
				asked = append(asked, host)
				return nil, test.fails[len(asked)-1]
			}, activity.RegisterOptions{Name: "Identify"})
			env.ExecuteWorkflow(func(ctx workflow.Context) error {
				c := &change{view: activities.FleetView{Hosts: []activities.HostInfo{{Name: "leaving", Leaving: true}, {Name: "one"}, {Name: "two"}}}}
				_, err := c.identify(ctx)
				return err
			})
			require.True(t, env.IsWorkflowCompleted())
			assert.Equal(t, test.err, env.GetWorkflowError() != nil)
			assert.Equal(t, test.asked, asked)
		})
	}
}

// TestLostHostsAreNotWaitedFor: the fleet reports all at once, while executors end one by one.
func TestLostHostsAreNotWaitedFor(t *testing.T) {
	slot := Running{Workflow: "executor/x", Slot: placement.Slot{Executor: "x", Host: "one"}}
	for name, test := range map[string]struct {
		of   State
		want time.Duration
	}{
		"a host":      {State{Lost: []string{"one"}}, 0},
		"an executor": {State{Ended: map[string]string{"executor/x": "killed"}}, gatherTime},
		"both":        {State{Lost: []string{"one"}, Ended: map[string]string{"executor/x": "killed"}}, gatherTime},
	} {
		t.Run(name, func(t *testing.T) {
			within(t, func(ctx workflow.Context) {
				s := &service{State: test.of}
				s.Running = []Running{slot}
				require.True(t, s.hasLost())
				before := workflow.Now(ctx)
				s.awaitFurtherLosses(ctx)
				assert.Equal(t, test.want, workflow.Now(ctx).Sub(before))
			})
		})
	}
}
