package roles

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

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
	view := activities.FleetView{Hosts: []activities.HostInfo{{Name: "a"}}}
	assert.True(t, present(view, "a"))
	assert.False(t, present(view, "b"))
}
