package dispatcher

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// TestABatchBehindOthersIsNotStuck: it has its time again whenever one before it has ended.
func TestABatchBehindOthersIsNotStuck(t *testing.T) {
	now := dispatch.Time(0)
	w := stuckWatch[string]{Now: func() dispatch.Time { return now }, Timer: func() stuckTimer { return unset{} }}
	const longer = 10 * time.Millisecond
	w.Begin("first", longer, longer)
	w.Begin("behind it", longer, longer)
	now = 9 * time.Millisecond
	w.End("first")
	now = 18 * time.Millisecond
	assert.False(t, w.Check())
	now = 19 * time.Millisecond
	assert.True(t, w.Check(), "nothing has ended since")
	assert.True(t, w.Stuck())
	w.End("behind it")
	assert.True(t, w.Freed())
}

// TestAShortBatchMayStandBehindALongOne: which of two runs that waited is not known.
func TestAShortBatchMayStandBehindALongOne(t *testing.T) {
	now := dispatch.Time(0)
	w := stuckWatch[string]{Now: func() dispatch.Time { return now }, Timer: func() stuckTimer { return unset{} }}
	const short, long = 10 * time.Millisecond, 100 * time.Millisecond
	w.Begin("first", short, short)
	w.Begin("short", short, short)
	w.Begin("long", long, long)
	now = 5 * time.Millisecond
	w.End("first")
	w.Begin("longer, and behind", time.Second, time.Second)
	now = 104 * time.Millisecond
	assert.False(t, w.Check())
	now = 105 * time.Millisecond
	assert.True(t, w.Check(), "neither can be running still")
}

type unset struct{}

func (unset) Reset(time.Duration) bool { return false }
