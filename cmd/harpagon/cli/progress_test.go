package cli

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A search that polls its stop function shows progress on a terminal, nothing elsewhere,
// and stops when its command is interrupted.
func TestSearchingShowsThatItGoesOn(t *testing.T) {
	for _, terminal := range []bool{true, false} {
		ctx, cancel := context.WithCancel(t.Context())
		now, shown := time.Minute, &strings.Builder{}
		d := Deps{Terminal: terminal, Stderr: shown, Clock: func() time.Duration { return now }}
		stop, done := d.Searching(ctx, "searching")
		for range 100 {
			require.False(t, stop())
		}
		require.Empty(t, shown.String(), "a short search")
		now += 2500 * time.Millisecond
		require.False(t, stop())
		require.False(t, stop(), "shown once")
		done()
		done() // has nothing left to clear
		if terminal {
			require.Equal(t, clearLine+"searching for 2 s; Ctrl-C ends it"+clearLine, shown.String())
		} else {
			require.Empty(t, shown.String())
		}
		cancel()
		require.True(t, stop())
	}
}
