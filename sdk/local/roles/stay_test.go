package roles

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	enumspb "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"

	"github.com/harpagon/harpagon/activities"
)

// TestTwoProcessesWithOneName: the one that the fleet does not hold says so and ends,
// after it has tried for as long as a fleet would take to lose a host of that name.
func TestTwoProcessesWithOneName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, asked := time.Now(), 0
		replaced := stay(t.Context(), &activities.Presence{}, func(context.Context) error {
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
