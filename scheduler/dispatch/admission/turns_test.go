package admission

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// playTurns plays frames of one stream through modules that chain what they see, in an order that is drawn, and
// compares each state with that of a stream without interruptions.
func playTurns(t *testing.T, rng *rand.Rand) {
	var s Turns[string]
	modules := []string{"a", "b"}[:1+rng.IntN(2)]
	type frame struct {
		turn *Turn[string]
		at   int // module that comes next
		held bool
		runs bool
		from string
	}
	var frames []*frame
	want := map[string]string{} // by module: the chain of what it has answered
	answers := map[string][]int{}
	number := map[*frame]int{}
	begins := func(f *frame, state string) {
		m := modules[f.at]
		require.Equal(t, want[m], state, "frame %d at module %s", number[f], m)
		for _, other := range frames {
			require.False(t, other != f && other.runs && other.at == f.at, "two frames of a stream at once")
		}
		f.held, f.runs, f.from = false, true, state
	}
	goOn := func(all []HeldItem[string]) {
		for _, h := range all {
			begins(h.Item.(*frame), h.State)
		}
	}
	end := func(f *frame) {
		f.runs = false
		frames = slices.DeleteFunc(frames, func(o *frame) bool { return o == f })
		goOn(s.End(f.turn))
	}
	for n := range 6 + rng.IntN(20) {
		switch k := rng.IntN(6); {
		case k < 2 || len(frames) == 0:
			f := &frame{turn: s.Take()}
			number[f] = n
			frames = append(frames, f)
		default:
			f := frames[rng.IntN(len(frames))]
			m := modules[f.at]
			switch {
			case f.held || rng.IntN(5) == 0: // it is dropped, or its caller goes
				if !f.held || rng.IntN(3) == 0 {
					late := f.runs
					end(f)
					if late { // its answer comes all the same
						require.Empty(t, s.Answer(f.turn, m, "lost"))
					}
				}
			case !f.runs:
				state, ok := s.Enter(f.turn, m, f)
				if f.held = !ok; ok {
					begins(f, state)
				}
			default: // answered, perhaps by the second executor that was given it: it has the same state
				state, ok := s.before(f.turn, m)
				require.True(t, ok)
				require.Equal(t, f.from, state)
				want[m] = fmt.Sprintf("%s,%d", f.from, number[f])
				require.True(t, len(answers[m]) == 0 || answers[m][len(answers[m])-1] < number[f], "out of order, or twice")
				answers[m] = append(answers[m], number[f])
				f.runs = false
				f.at++
				goOn(s.Answer(f.turn, m, want[m]))
				if f.at == len(modules) {
					end(f)
				}
			}
		}
		for _, f := range frames {
			require.True(t, f.held == (s.Held(f.turn) != nil), "frame %d", number[f])
		}
	}
	for len(frames) > 0 {
		end(frames[rng.IntN(len(frames))])
	}
	require.Nil(t, s.first)
	require.Nil(t, s.last)
	require.Empty(t, s.held)
	next := s.Take()
	for _, m := range modules {
		state, ok := s.before(next, m)
		require.True(t, ok)
		require.Equal(t, want[m], state)
	}
}

// TestStateIsThatOfAnUninterruptedStream plays HARPAGON_STATE_SEEDS streams, 20,000 without it.
func TestStateIsThatOfAnUninterruptedStream(t *testing.T) {
	seeds, err := strconv.Atoi(os.Getenv("HARPAGON_STATE_SEEDS"))
	if err != nil {
		seeds = 20_000
	}
	for seed := range seeds {
		playTurns(t, rand.New(rand.NewPCG(uint64(seed), 1)))
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}
