package roles

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// TestAHostLeavesWhenItIsNotNeeded: it notifies the fleet until that succeeds, and waits no
// longer than needed or than its notice.
func TestAHostLeavesWhenItIsNotNeeded(t *testing.T) {
	away := errors.New("the server is away")
	for name, c := range map[string]struct {
		notice, heard, free, ended time.Duration // since the host began to stop
	}{
		"nothing runs there":             {notice: 10 * time.Second},
		"services move":                  {notice: 10 * time.Second, free: 3 * time.Second, ended: 3 * time.Second},
		"services cannot move":           {notice: 10 * time.Second, free: time.Hour, ended: 10 * time.Second},
		"the fleet hears late":           {notice: 10 * time.Second, heard: 2 * time.Second, ended: 2 * time.Second},
		"the fleet does not hear at all": {notice: 10 * time.Second, heard: time.Hour, ended: 10 * time.Second},
		"without notice":                 {free: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began, told := time.Now(), 0
				notice, cancel := context.WithTimeout(t.Context(), c.notice)
				defer cancel()
				leave(notice, func(context.Context) error {
					if time.Since(began) < c.heard {
						return away
					}
					told++
					return nil
				}, func(context.Context) bool { return time.Since(began) < c.free })
				assert.Equal(t, c.ended, time.Since(began))
				assert.LessOrEqual(t, told, 1)
			})
		})
	}
}
