package roles

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/testsuite"

	"github.com/harpagon/harpagon/activities"
)

// TestTwoProcessesWithOneName: the one that the fleet does not hold ends with an error,
// after it has tried for as long as a fleet would take to lose a host of that name.
func TestTwoProcessesWithOneName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, asked := time.Now(), 0
		replaced := rejoinLoop(t.Context(), &activities.Presence{}, func(context.Context) error {
			if asked++; asked == 1 {
				return errors.New("the server is away")
			}
			return errTaken
		})
		assert.True(t, replaced)
		assert.Equal(t, (lostAfter+1)*lookEvery, time.Since(began))
	})
	held := func(by string, state enumspb.PendingActivityState) bool {
		return heldByAnother([]*workflowpb.PendingActivityInfo{{State: state, LastWorkerIdentity: by}}, "me")
	}
	assert.True(t, held("you", enumspb.PENDING_ACTIVITY_STATE_STARTED))
	assert.False(t, held("me", enumspb.PENDING_ACTIVITY_STATE_STARTED), "that was only slow")
	assert.False(t, held("you", enumspb.PENDING_ACTIVITY_STATE_SCHEDULED), "that is gone")
	assert.False(t, heldByAnother(nil, "me"))
}

// TestAMemberThatTheFleetGaveUpJoinsSoon: answers to its heartbeats reveal that, so it
// waits less long than where the server may only be slow.
func TestAMemberThatTheFleetGaveUpJoinsSoon(t *testing.T) {
	for name, c := range map[string]struct {
		said  error // to its heartbeats
		after int   // looks
	}{
		"lost":        {activities.ErrOver, 0},
		"given up":    {serviceerror.NewNotFound("the attempt has timed out"), fencedAfter},
		"interrupted": {activity.ErrActivityReset, lostAfter},
	} {
		t.Run(name, func(t *testing.T) {
			var suite testsuite.WorkflowTestSuite
			env := suite.NewTestActivityEnvironment()
			held := &activities.Host{Pulse: func(context.Context, []byte, any) error { return c.said }}
			env.RegisterActivity(held)
			_, err := env.ExecuteActivity(held.HoldHost, activities.HostInfo{Name: "one"})
			require.Error(t, err)
			synctest.Test(t, func(t *testing.T) {
				life, end := context.WithCancel(t.Context())
				began := time.Now()
				rejoinLoop(life, &held.Presence, func(context.Context) error { end(); return nil })
				assert.Equal(t, time.Duration(c.after)*lookEvery, time.Since(began))
			})
		})
	}
}
