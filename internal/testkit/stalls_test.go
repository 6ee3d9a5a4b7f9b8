package testkit

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// failing notes a call of Error.
type failing struct {
	testing.TB
	failed bool
}

func (f *failing) Error(...any) { f.failed = true }

func TestWhatStallsIsFound(t *testing.T) {
	const limit = 50 * time.Millisecond
	found, outcome := make(chan string, 1), &failing{TB: t}
	done := watch(outcome, limit, func(said string) { found <- said })
	said := ""
	for n := 0; said == ""; n++ { // work, until the watcher has seen it
		select {
		case said = <-found:
		default:
		}
	}
	done()
	require.Contains(t, said, "processor time")
	require.True(t, outcome.failed)
}

func TestWaitingIsNoWork(t *testing.T) {
	outcome := &failing{TB: t}
	done := watch(outcome, time.Second, func(said string) { t.Error(said) })
	time.Sleep(20 * time.Millisecond)
	done()
	require.False(t, outcome.failed)
	WatchStalls(t, 3)()
}
