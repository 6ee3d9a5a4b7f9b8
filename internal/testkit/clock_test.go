package testkit

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestSet holds that the time of day differs and the time that has passed does not, which
// also shows that the layout of time.Time is as assumed.
func TestSet(t *testing.T) {
	holds := func(t *testing.T) {
		now := time.Now()
		for _, by := range []time.Duration{-2 * time.Hour, -time.Second, 0, time.Second, 2 * time.Hour} {
			set := SetClock(now, by)
			require.Equal(t, now.Add(by).UnixNano(), set.UnixNano(), by)
			require.Equal(t, now.Location(), set.Location())
			require.Zero(t, set.Sub(SetClock(now, 0)), by)
			require.Equal(t, time.Minute, set.Add(time.Minute).Sub(SetClock(now, time.Hour)), by)
		}
	}
	t.Run("as time passes", holds)
	t.Run("in virtual time", func(t *testing.T) { synctest.Test(t, holds) })
	now := time.Now()
	require.Zero(t, SetClock(now, time.Hour).Sub(now), "they compare with times of before, too")
}
