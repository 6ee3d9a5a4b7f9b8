package admission

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/pipelines"
)

// placesOf has places for so many streams of ten frames a second.
func placesOf(planned int) *Places {
	p := new(Places)
	p.Plan(0, pipelines.Stream{Rate: 10, Count: planned})
	return p
}

// connection is one of several of a door.
type connection struct {
	door   string
	number int
}

func (c connection) Succeeds(other any) bool {
	before, ok := other.(connection)
	return ok && before.door == c.door
}

func TestADoorThatIsConnectedAgainKeepsItsPlaces(t *testing.T) {
	p, first, second, other := placesOf(2), connection{"1", 1}, connection{"1", 2}, connection{"2", 1}
	phase := p.Open(0, "a", first, false, 0)[0].Phase
	again := p.Open(ms, "a", second, true, phase)
	require.Len(t, again, 1, "nobody listens to the first")
	assert.True(t, again[0].Open)
	assert.Equal(t, second, again[0].Holder)
	assert.Equal(t, phase, again[0].Phase)
	p.Close("a", first)
	p.Leave(first)
	assert.Equal(t, 1, p.Taken(), "it is the second's")
	assert.True(t, p.Open(2*ms, "a", other, true, phase)[0].Taken, "another door has not had it")
}

func TestOneCountForSeveralDoors(t *testing.T) {
	p := placesOf(2)
	open := func(at Time, name, door string, held bool) string {
		said := ""
		for _, told := range p.Open(at, name, door, held, 0) {
			word := map[bool]string{true: "open", false: "none"}[told.Open]
			if told.Taken {
				word = "taken"
			}
			said += fmt.Sprintf("%s of %v %s; ", told.Stream, told.Holder, word)
		}
		return said
	}
	assert.Equal(t, "a of 1 open; ", open(0, "a", "1", false))
	assert.Equal(t, "b of 2 open; ", open(0, "b", "2", false))
	assert.Equal(t, "c of 1 none; ", open(0, "c", "1", false))
	assert.Equal(t, "a of 1 open; ", open(0, "a", "1", false), "it is asked for again")
	assert.Equal(t, "a of 1 taken; a of 2 open; ", open(time.Second, "a", "2", false), "it goes on there")
	assert.Equal(t, "a of 1 taken; ", open(1500*ms, "a", "1", false), "two of one name")
	assert.Equal(t, "a of 1 taken; ", open(time.Hour, "a", "1", true), "it comes back, and the stream has gone on elsewhere")
	p.Close("a", "1")
	assert.Equal(t, 2, p.Taken(), "it is another's")
	assert.Equal(t, "d of 1 none; ", open(0, "d", "1", true), "it was open before, and others have its place by now")
	p.Leave("2")
	assert.Zero(t, p.Taken())
	assert.Equal(t, "d of 1 open; ", open(0, "d", "1", true), "it was open before")
	assert.Equal(t, "c of 1 open; ", open(0, "c", "1", false))
	assert.Equal(t, "e of 1 none; ", open(0, "e", "1", false))
	p.Close("c", "1")
	assert.Equal(t, "e of 1 open; ", open(0, "e", "1", false))
}

// Where fewer streams are planned for than are open, those that opened last lose their places.
func TestFewerPlacesThanStreams(t *testing.T) {
	p := placesOf(40)
	for i := range 40 {
		require.True(t, p.Open(0, fmt.Sprint(i), "door", false, 0)[0].Open)
	}
	lost, kept := 0, 0
	for _, told := range p.Plan(time.Second, pipelines.Stream{Rate: 10, Count: 20}) {
		var n int
		_, _ = fmt.Sscan(told.Stream, &n)
		assert.Equal(t, n < 20, told.Open)
		if told.Open {
			kept++
		} else {
			lost++
		}
	}
	assert.Equal(t, 20, lost)
	assert.Equal(t, 20, kept)
	assert.Nil(t, p.Plan(2*time.Second, pipelines.Stream{Rate: 10, Count: 20}))
}

// Phases are apart by at least a part of the period that the number of open streams allows; another
// decider that learns of the streams keeps them.
func TestPhasesAreSpread(t *testing.T) {
	for _, planned := range []int{1, 2, 3, 7, 8, 40, 1000} {
		p, next := placesOf(planned), new(Places)
		next.Plan(12345*ms, pipelines.Stream{Rate: 10, Count: planned})
		phases := map[Time]bool{}
		var first Time
		for i := range planned {
			at := p.Open(0, fmt.Sprint(i), "door", false, 0)[0].Phase % (100 * ms)
			require.False(t, phases[at], "%d of %d", i, planned)
			for other := range phases {
				apart := (at - other + 100*ms) % (100 * ms)
				require.GreaterOrEqual(t, float64(min(apart, 100*ms-apart)), float64(100*ms)*max(0.99/float64(planned), 0.49/float64(i+1)-1/float64(planned)), "%d of %d", i, planned)
			}
			phases[at] = true
			if i == 0 {
				first = at
			}
			again := next.Open(20*time.Second, fmt.Sprint(i), "door", true, 77*ms+at+Time(i%2)*time.Second)[0].Phase
			assert.InDelta(t, float64(at-first), float64((again-77*ms-first)%(100*ms)), 10, "%d of %d", i, planned)
		}
		p.Close("0", "door")
		assert.Equal(t, first, p.Open(0, "one more", "door", false, 0)[0].Phase%(100*ms))
	}
}

// However streams come, go and move between doors that are lost, no more of them than planned have a
// place, each at one door, and each at a phase of its own.
func TestPlacesAreLeasedOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		planned := rapid.IntRange(1, 5).Draw(t, "planned")
		p := placesOf(planned)
		type lease struct{ stream, door string }
		has := map[lease]Time{}
		hear := func(all []Placed) {
			for _, told := range all {
				l := lease{told.Stream, told.Holder.(string)}
				if delete(has, l); told.Open {
					has[l] = told.Phase % (Time(time.Second) / 10)
				}
			}
		}
		now := Time(0)
		for range rapid.IntRange(1, 100).Draw(t, "steps") {
			now += Time(rapid.IntRange(0, 700).Draw(t, "gap")) * ms
			l := lease{rapid.StringMatching("[a-h]").Draw(t, "stream"), rapid.SampledFrom([]string{"1", "2", "3"}).Draw(t, "door")}
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			case 0:
				p.Leave(l.door)
				for other := range has {
					if other.door == l.door {
						delete(has, other)
					}
				}
			case 1, 2:
				p.Close(l.stream, l.door)
				delete(has, l)
			case 3:
				planned = rapid.IntRange(1, 5).Draw(t, "planned")
				hear(p.Plan(now, pipelines.Stream{Rate: 10, Count: planned}))
			default:
				hear(p.Open(now, l.stream, l.door, false, 0))
			}
			require.LessOrEqual(t, len(has), planned)
			require.Len(t, has, p.Taken())
			streams, phases := map[string]bool{}, map[Time]bool{}
			for l, phase := range has {
				require.False(t, streams[l.stream])
				require.False(t, phases[phase])
				streams[l.stream], phases[phase] = true, true
			}
		}
	})
}

// Streams that follow what they are told come apart, though their clocks drift, others come and go, and
// frames are held up on their way; seldom are they told anything once they are.
func TestStreamsThatFollowComeApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const period = 100 * ms
		count := rapid.IntRange(2, 8).Draw(t, "streams")
		r := StreamRules{pipelines.Stream{Rate: 10, Count: count, Jitter: Time(rapid.IntRange(0, 5).Draw(t, "jitter")) * ms}}
		p := placesOf(count)
		var s Streams
		type camera struct {
			due, phase Time
			drift      float64
		}
		cameras := make([]camera, count)
		for i := range cameras {
			now := Time(rapid.IntRange(0, 99).Draw(t, "begins")) * ms
			name := fmt.Sprint(i)
			cameras[i] = camera{now, p.Open(now, name, "door", false, 0)[0].Phase, rapid.Float64Range(-1e-4, 1e-4).Draw(t, "drift")}
			s.Open(now, &r, name)
		}
		tolerance, rng := r.Tolerance(), rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		told := 0
		for n := range 200 {
			for i := range cameras {
				c := &cameras[i]
				came := c.due
				if rng.IntN(10) == 0 { // it is held up
					came += Time(rng.IntN(30)) * ms
				}
				shift := s.Look(came, &r, fmt.Sprint(i), c.phase)
				require.GreaterOrEqual(t, shift, Time(0))
				require.Less(t, shift, period)
				if shift > 0 && n > 0 {
					told++
				}
				off := modulo(c.due-c.phase+period/2, period) - period/2
				if n > 100 { // a clock drifts by 10 us a frame at most, for the frames that are looked at
					require.GreaterOrEqual(t, off, -(2*looking+3)*period/1e4)
					require.LessOrEqual(t, off, tolerance+(2*looking+3)*period/1e4)
				}
				c.due += shift + Time(float64(period)*(1+c.drift))
			}
		}
		require.Less(t, told, 12*count)
	})
}
