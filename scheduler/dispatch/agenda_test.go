package dispatch

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestAgenda holds the heap against a search through all entries.
func TestAgenda(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const keys = 12
		var a Agenda
		if rapid.Bool().Draw(t, "new") {
			a = NewAgenda(keys)
		}
		a.Reserve(keys)
		twin := map[int32]time.Duration{}
		for range rapid.IntRange(0, 200).Draw(t, "steps") {
			key := int32(rapid.IntRange(0, keys-1).Draw(t, "key"))
			if rapid.Bool().Draw(t, "drop") {
				a.Drop(key)
				delete(twin, key)
			} else {
				at := time.Duration(rapid.IntRange(0, 20).Draw(t, "at"))
				a.Set(key, at)
				twin[key] = at
			}
			first := AgendaEntry{At: Never}
			for k, at := range twin {
				require.True(t, a.Has(k))
				if e := (AgendaEntry{at, k}); e.before(first) {
					first = e
				}
			}
			require.Equal(t, len(twin), a.Len())
			require.Equal(t, first.At, a.Next())
			if len(twin) > 0 {
				require.Equal(t, first.Key, a.Top())
			}
			for _, e := range a.Entries() {
				require.Equal(t, twin[e.Key], e.At)
			}
		}
	})
}

func TestAgendaDoesNotAllocate(t *testing.T) {
	a := NewAgenda(64)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		for key := range int32(64) {
			a.Set(key, time.Duration(key*37%64))
		}
		for a.Len() > 0 {
			a.Drop(a.Top())
		}
	}))
}
