package attach

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestAWorkersClockMayBeWrong: what is due travels as the time that is left, so that the
// clock of a host an hour off orders batches as any other.
func TestAWorkersClockMayBeWrong(t *testing.T) {
	here := time.Now()
	for _, off := range []time.Duration{-time.Hour, 0, time.Hour} {
		sent, err := Encode(&Message{Batch: &Batch{ID: 1, Due: here.Add(80 * time.Millisecond)}}, here)
		require.NoError(t, err)
		got, err := Decode(sent, here.Add(off))
		require.NoError(t, err)
		assert.Equal(t, 80*time.Millisecond, got.Batch.Due.Sub(here.Add(off)), off)
	}
}
