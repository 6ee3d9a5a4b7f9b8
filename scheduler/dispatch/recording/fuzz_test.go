package recording

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/internal/testkit"
	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// FuzzReplay forges single steps of recordings that are otherwise right, which
// bytes drawn at random never are. A forged action is found where it was forged;
// a forged event gives the same verdict each time, and no panic leaves Replay.
func FuzzReplay(f *testing.F) {
	all := specs()
	names := slices.Sorted(maps.Keys(all))
	for i := range names {
		f.Add(uint8(i), uint64(i), uint8(40), uint16(20), uint8(i), int64(1))
	}
	f.Fuzz(func(t *testing.T, which uint8, seed uint64, length uint8, at uint16, how uint8, value int64) {
		defer testkit.WatchStalls(t, int(length))()
		r := &Recorder{}
		play(t, all[names[int(which)%len(names)]], seed, int(length), r)
		part := r.Parts()[0]
		steps := decoded(t, part.Steps)
		i := int(at) % len(steps)
		action := false
		switch s := &steps[i]; how % 12 {
		case 0: // the same
		case 1:
			steps = slices.Delete(steps, i, i+1)
		case 2:
			steps = slices.Insert(steps, i, *s)
		case 3:
			steps[i], steps[max(0, i-1)] = steps[max(0, i-1)], steps[i]
		case 4:
			s.Now = dispatch.Time(value)
		case 5:
			s.Event.Kind = dispatch.Kind(value)
		case 6:
			s.Event.Executor = dispatch.ExecutorID(value)
		case 7:
			s.Event.Request.ID = dispatch.RequestID(value)
		case 8:
			s.Event.Request.Class, s.Event.Group = int32(value), int32(value)
		case 9:
			s.Event.Request.Size = int32(value)
		case 10:
			s.Event.Took, s.Event.Request.Arrival, s.Event.Request.Deadline = time.Duration(value), dispatch.Time(value), dispatch.Time(-value)
		default:
			s.Actions, action = append(slices.Clone(s.Actions), dispatch.Action{Act: dispatch.Release, Executor: dispatch.ExecutorID(value)}), true
		}
		var c codec
		for i := range steps {
			c.step(&steps[i])
		}
		part.Steps = c.b
		one := Station{Name: "x", Parts: []Part{part}}
		first, failed := Replay(one)
		again, failedAgain := Replay(one)
		require.Equal(t, failed, failedAgain)
		require.Equal(t, first.Describe(), again.Describe())
		switch {
		case how%12 == 0:
			require.NoError(t, failed)
			require.Nil(t, first.Difference)
		case action:
			require.NoError(t, failed)
			require.NotNil(t, first.Difference)
			require.Equal(t, i, first.Difference.Step)
		}
	})
}

func decoded(t *testing.T, b []byte) (steps []Step) {
	for in := (codec{b: b, reading: true}); len(in.b) > 0; {
		var s Step
		in.step(&s)
		require.NoError(t, in.err)
		steps = append(steps, s)
	}
	return steps
}
