package recording

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/internal/testkit"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/dispatch/factory"
	"github.com/harpagon/harpagon/scheduler/dispatch/grouped"
	"github.com/harpagon/harpagon/scheduler/dispatch/matching"
	"github.com/harpagon/harpagon/scheduler/dispatch/roundrobin"
	"github.com/harpagon/harpagon/scheduler/dispatch/shared"
	"github.com/harpagon/harpagon/scheduler/dispatch/tc"
)

const ms = time.Millisecond

// specs has every policy, in configurations that use what they can remember.
func specs() map[string]factory.Spec {
	all := map[string]factory.Spec{}
	groups := []tc.Group{
		{Batch: 4, Window: 30 * ms, Duration: 20 * ms, Period: 25 * ms, Deadline: 60 * ms},
		{Batch: 2, Window: 30 * ms, Duration: 10 * ms, Period: 20 * ms},
	}
	for name, early := range map[string]tc.EarlyStart{"never": tc.EarlyNever, "promise": tc.EarlyWithinPromise, "always": tc.EarlyAlways} {
		all["tc "+name] = factory.Spec{TC: &tc.Options{Groups: groups, Early: early, Shared: true, MaxQueue: 20}}
	}
	models := []shared.Model{
		{Durations: shared.Linear(ms, 5*ms, 16), SLO: 60 * ms, Rate: 100},
		{Durations: shared.Linear(2*ms, 4*ms, 8), Groups: [][]time.Duration{shared.Linear(2*ms, 4*ms, 8), shared.Linear(3*ms, 9*ms, 8)}, SLO: 90 * ms},
	}
	for _, name := range append(pipelines.Dispatches(pipelines.KindPipeline), roundrobin.ByRatio) {
		spec, _ := factory.Policies(nil).Spec(factory.Module{Policy: name, Groups: groups, MaxQueue: 20})
		if spec.Shared != nil {
			spec.Shared.Options = shared.Options{Models: models, Margin: ms}
		}
		all[name] = spec
	}
	points := []pipelines.Point{{Hardware: "a", Batch: 1, Duration: 3 * ms}, {Hardware: "a", Batch: 9, Duration: 20 * ms}}
	all["matching"] = factory.Spec{Matching: &matching.Options{
		Types: []matching.InstanceType{{Name: "a", Latency: pipelines.Profile{Points: points}.Latency("a")}, {Name: "b"}}, SLO: 80 * ms,
	}}
	all["grouped"] = factory.Spec{Grouped: &grouped.Options{Groups: []grouped.Group{
		{Batch: 3, Duration: 20 * ms, Applications: []grouped.Application{{Class: 0, Timeout: 20 * ms, SLO: 100 * ms}}},
		{Batch: 5, Duration: 20 * ms, Applications: []grouped.Application{{Class: 1, Timeout: 40 * ms, SLO: 100 * ms}}},
	}}}
	return all
}

// play drives a policy with random events on a virtual clock, as a driver would, and records.
func play(t *testing.T, spec factory.Spec, seed uint64, steps int, r *Recorder) dispatch.Policy {
	p, err := factory.New(spec)
	require.NoError(t, err)
	r.Begin(p, spec, false)
	random := rand.New(rand.NewPCG(seed, 1))
	now, timer := dispatch.Time(0), dispatch.Never
	busy := map[dispatch.ExecutorID]dispatch.Time{}
	var device tc.Arbiter
	users := [4]int{device.Add(), device.Add(), device.Add(), device.Add()}
	tell := func(ev dispatch.Event) {
		for ev.Kind != 0 {
			out := p.Step(now, ev, nil)
			r.Step(now, ev, out)
			ev = dispatch.Event{}
			for _, a := range out {
				switch a.Act {
				case dispatch.SetTimer:
					timer = a.At
				case dispatch.Start:
					busy[a.Executor] = now + time.Duration(random.IntN(30))*ms
				case dispatch.Need:
					device.Need(users[a.Executor], a.At, *a.Reservation)
				case dispatch.Release:
					device.Release()
				case dispatch.Ask:
					ok, again := device.Ask(users[a.Executor], now, a.At, a.Due, a.Reservation != nil)
					if ev = (dispatch.Event{Kind: dispatch.Refused, Executor: a.Executor, At: again}); ok {
						device.Release()
						ev = dispatch.Event{Kind: dispatch.Granted, Executor: a.Executor}
					}
				}
			}
		}
	}
	for e := range dispatch.ExecutorID(4) {
		tell(dispatch.Event{Kind: dispatch.ExecutorUp, Executor: e, Group: int32(e) % 2})
	}
	for i := range steps {
		now += time.Duration(random.IntN(4000)) * time.Microsecond
		for e := range dispatch.ExecutorID(4) {
			if end, ok := busy[e]; ok && end <= now {
				delete(busy, e)
				tell(dispatch.Event{Kind: dispatch.ExecutorFree, Executor: e, Took: time.Duration(random.IntN(30)) * ms})
			}
		}
		if timer <= now {
			timer = dispatch.Never
			tell(dispatch.Event{Kind: dispatch.Timer})
		}
		switch e := dispatch.ExecutorID(random.IntN(4)); random.IntN(40) {
		case 0:
			tell(dispatch.Event{Kind: dispatch.Cancel, Request: dispatch.Request{ID: dispatch.RequestID(random.IntN(i + 1))}})
		case 1:
			delete(busy, e)
			tell(dispatch.Event{Kind: dispatch.ExecutorGone, Executor: e})
			tell(dispatch.Event{Kind: dispatch.ExecutorUp, Executor: e, Group: int32(e) % 2, Alone: random.IntN(2) == 0})
		case 2:
			tell(dispatch.Event{Kind: dispatch.DeviceAlone, Executor: e, Alone: random.IntN(2) == 0})
		default:
			r := dispatch.Request{
				ID: dispatch.RequestID(i)<<32 | 7, Class: int32(random.IntN(2)), Size: int32(1 + random.IntN(9)),
				Arrival: now + time.Duration(random.IntN(20))*ms, Deadline: now + time.Duration(40+random.IntN(80))*ms, End: now + 200*ms,
			}
			for more := max(0, random.IntN(8)-4); more > 0; more-- { // others before it, some of them late
				first := r
				first.ID, first.Deadline = first.ID+dispatch.RequestID(more), now+time.Duration(random.IntN(24))*ms
				tell(dispatch.Event{Kind: dispatch.Arrive, Request: first, More: true})
			}
			tell(dispatch.Event{Kind: dispatch.Arrive, Request: r})
		}
	}
	return p
}

func written(t *testing.T, r *Recorder) []byte {
	b, err := Recording{Head: Head{Program: "test"}, Stations: []Station{{Name: "traffic/detect", Parts: r.Parts()}}}.Append(nil)
	require.NoError(t, err)
	return b
}

func TestWhatWasRecordedIsDecidedAgain(t *testing.T) {
	for name, spec := range specs() {
		for _, limit := range []int{0, 16 << 10, 200} {
			t.Run(fmt.Sprintf("%s/limit=%d", name, limit), func(t *testing.T) {
				r := &Recorder{Limit: limit}
				play(t, spec, 1, 2000, r)
				parsed, err := Parse(written(t, r))
				require.NoError(t, err)
				require.Len(t, parsed.Stations, 1)
				again, err := Replay(parsed.Stations[0])
				require.NoError(t, err)
				assert.Nil(t, again.Difference, again.Describe())
				assert.NotEmpty(t, again.Batches)
				if limit == 0 {
					assert.Greater(t, again.Steps, 2000)
					assert.Len(t, again.Policies, 1)
				} else {
					assert.NotNil(t, parsed.Stations[0].Parts[0].State, "it begins in the middle")
				}
			})
		}
	}
}

// A state that is read back makes a policy that equals the one it was taken from, in every field
// that is more than scratch memory.
func TestStatesSurvive(t *testing.T) {
	for name, spec := range specs() {
		for _, steps := range []int{0, 5, 300} {
			p := play(t, spec, 2, steps, nil)
			state, err := remembered(p)
			require.NoError(t, err, name)
			again, err := factory.New(spec)
			require.NoError(t, err)
			require.NoError(t, restore(state, again), name)
			twice, err := remembered(again)
			require.NoError(t, err)
			assert.Equal(t, string(state), string(twice), name)
			assert.Equal(t, p.Describe(), again.Describe(), name)
			for _, other := range []string{
				strings.Replace(string(state), "{", `{"Gone":1,`, 1), `"AQID"`, string(state[:len(state)/2]), `{}`, `null`, `[]`,
			} {
				fresh, _ := factory.New(spec)
				assert.ErrorContains(t, restore(json.RawMessage(other), fresh), "not the same in this version", name)
			}
		}
	}
}

// Every field that a policy can reach is recorded, or marked as scratch memory: with a
// field that encoding/json skips, a replayed policy would decide otherwise than the
// recorded one.
func TestEveryFieldIsRemembered(t *testing.T) {
	seen := map[reflect.Type]bool{}
	var walk func(of reflect.Type, path string)
	walk = func(of reflect.Type, path string) {
		switch of.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
			walk(of.Elem(), path)
		case reflect.Func, reflect.Interface, reflect.Chan, reflect.UnsafePointer:
			t.Errorf("%s is no plain value", path)
		case reflect.Struct:
			if seen[of] {
				return
			}
			seen[of] = true
			written := map[string]string{}
			for _, f := range reflect.VisibleFields(of) {
				at := path + "." + f.Name
				if f.Tag.Get("json") == "-" {
					continue
				}
				if !f.IsExported() && !f.Anonymous {
					t.Errorf("%s: export it, or tag it `json:\"-\"` where it is scratch memory between two steps", at)
				}
				if other := written[f.Name]; other != "" && !f.Anonymous {
					t.Errorf("%s hides another of its name", at)
				}
				written[f.Name] = at
				walk(f.Type, at)
			}
		}
	}
	for name, spec := range specs() {
		p, err := factory.New(spec)
		require.NoError(t, err)
		walk(reflect.TypeOf(p), name)
	}
}

// What an older edition recorded is decided again from the start of a policy, and refused with the way
// out from its middle, where what it remembered was written otherwise, or where the policy is gone.
func TestRecordingsOfAnOlderEdition(t *testing.T) {
	replayed := func(name string) (Replayed, error) {
		text, err := os.ReadFile("testdata/" + name + ".harprec")
		require.NoError(t, err)
		r, err := Parse(text)
		require.NoError(t, err)
		return Replay(r.Stations[0])
	}
	again, err := replayed("tc")
	require.NoError(t, err)
	assert.Nil(t, again.Difference, again.Describe())
	assert.Greater(t, again.Steps, 100)
	assert.NotEmpty(t, again.Batches)
	_, err = replayed("middle")
	assert.ErrorContains(t, err, "it begins in the middle, and what policy tc remembers is not the same in this version of harpagon; replay it with the version that recorded it, or record from the start")
	_, err = replayed("ribbon")
	assert.ErrorContains(t, err, "this harpagon does not have its policy; replay it with the version that recorded it")
}

// A policy whose state cannot be marshalled is recorded from its beginning only.
func TestAPolicyThatHidesWhatItRemembers(t *testing.T) {
	_, err := remembered(hidden{})
	assert.ErrorContains(t, err, "policy hidden hides its state")
	r := &Recorder{Limit: 800}
	r.Begin(hidden{}, factory.Spec{Module: &factory.Module{Policy: "acme/hidden"}}, false)
	for i := range 1000 {
		r.Step(dispatch.Time(i), dispatch.Event{Kind: dispatch.Timer}, nil)
	}
	assert.Len(t, r.Parts(), 1)
	assert.Nil(t, r.Parts()[0].State)
	assert.NotEmpty(t, r.Parts()[0].Steps)
}

type hidden struct{ dispatch.Policy }

func (hidden) Name() string                 { return "hidden" }
func (hidden) MarshalJSON() ([]byte, error) { return []byte("{}"), nil }

func TestMemoryIsBounded(t *testing.T) {
	r := &Recorder{Limit: 80 << 10} // an eighth of it holds a state
	play(t, specs()["adaptive"], 3, 20_000, r)
	kept := size(r.Parts())
	assert.Equal(t, r.kept, kept)
	assert.LessOrEqual(t, kept, r.Limit+4<<10)
	assert.Greater(t, kept, r.Limit/2)
}

// Each change of a service begins with another policy, long before a part is full.
func TestMemoryIsBoundedHoweverManyPoliciesFollow(t *testing.T) {
	turns := []map[string]factory.Spec{specs(), specs()}
	for name := range turns[0] {
		r := &Recorder{Limit: 20 << 10}
		for i := range 500 {
			play(t, turns[i%2][name], uint64(i), i%4, r)
		}
		assert.Equal(t, size(r.Parts()), r.kept, name)
		assert.LessOrEqual(t, r.kept, r.Limit, name)
		assert.Greater(t, len(r.Parts()), 2, name)
		replayed, err := Parse(written(t, r))
		require.NoError(t, err)
		assert.Len(t, replayed.Stations[0].Parts, len(r.Parts()))
	}
}

// size is how many bytes parts take, one after the other.
func size(parts []Part) (n int) {
	for i, p := range parts {
		if n += len(p.State) + len(p.Steps); i == 0 || p.Spec != parts[i-1].Spec {
			n += sizeOf(p.Spec)
		}
	}
	return n
}

// A recording in which one thing was changed differs where it was changed.
func TestTamperingIsFound(t *testing.T) {
	r := &Recorder{}
	play(t, specs()["tc promise"], 4, 300, r)
	part := r.Parts()[0]
	var out codec
	in := codec{b: part.Steps, reading: true}
	at, when := -1, dispatch.Time(0)
	for i := 0; len(in.b) > 0; i++ {
		var s Step
		in.step(&s)
		for k := range s.Actions {
			if a := &s.Actions[k]; at < 0 && i > 100 && a.Act == dispatch.Start {
				at, when = i, s.Now
				a.Executor++
			}
		}
		out.step(&s)
	}
	require.NoError(t, in.err)
	part.Steps = out.b
	again, err := Replay(Station{Name: "x", Parts: []Part{part}})
	require.NoError(t, err)
	require.NotNil(t, again.Difference)
	assert.Equal(t, at, again.Difference.Step)
	assert.Equal(t, when, again.Difference.Now)
	assert.Equal(t, again.Difference.Decided.Executor+1, again.Difference.Recorded.Executor)
	assert.Contains(t, again.Describe(), "differs at")
	assert.Contains(t, again.Describe(), "tc: ")
}

// Another version of a policy, here one with other options, is found out as well.
func TestAnotherPolicyDecidesOtherwise(t *testing.T) {
	r := &Recorder{}
	play(t, specs()["deferred"], 5, 1000, r)
	part := r.Parts()[0]
	part.Spec = specs()["eager"]
	again, err := Replay(Station{Parts: []Part{part}})
	require.NoError(t, err)
	assert.NotNil(t, again.Difference)
}

func TestWhatIsCutOffIsAnError(t *testing.T) {
	r := &Recorder{Limit: 4 << 10}
	play(t, specs()["tc always"], 6, 200, r)
	b := written(t, r)
	_, err := Parse(b)
	require.NoError(t, err)
	for n := range b {
		_, err := Parse(b[:n])
		require.Error(t, err, "%d of %d bytes", n, len(b))
	}
	_, err = Parse(b[:len(b)-3])
	assert.ErrorContains(t, err, "cut off")
	_, err = Parse(append(bytes.Clone(b), 0))
	assert.ErrorContains(t, err, "damaged")
	other := bytes.Clone(b)
	other[len(magic)] = 9
	_, err = Parse(other)
	assert.ErrorContains(t, err, "version 9 of the format")
	_, err = Parse([]byte("RIFF....WAVE"))
	assert.ErrorContains(t, err, "no recording of harpagon")
	for i := range 200 {
		bad := bytes.Clone(b)
		bad[len(magic)+1+i*(len(b)-len(magic)-1)/200] ^= 0x55
		_, err := Parse(bad)
		assert.Error(t, err, "a byte is wrong")
	}
}

func TestNothingIsRecordedOfAnUnknownPolicy(t *testing.T) {
	r := &Recorder{}
	r.Begin(nil, factory.Spec{}, false)
	r.Step(0, dispatch.Event{Kind: dispatch.Timer}, nil)
	assert.Empty(t, r.Parts())
	var none *Recorder
	none.Begin(nil, factory.Spec{}, false)
	none.Step(0, dispatch.Event{}, nil)
	assert.Empty(t, none.Parts())
}

func FuzzParse(f *testing.F) {
	for _, name := range []string{"tc promise", "nexus", "matching"} {
		r := &Recorder{Limit: 1 << 10}
		spec := specs()[name]
		p, err := factory.New(spec)
		require.NoError(f, err)
		r.Begin(p, spec, true)
		for i := range 20 {
			ev := dispatch.Event{Kind: dispatch.Arrive, Request: dispatch.Request{ID: dispatch.RequestID(i), Deadline: time.Second}}
			r.Step(dispatch.Time(i), ev, p.Step(dispatch.Time(i), ev, nil))
		}
		b, err := Recording{Stations: []Station{{Name: name, Parts: r.Parts()}}}.Append(nil)
		require.NoError(f, err)
		f.Add(b)
		f.Add(r.Parts()[0].Steps)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		defer testkit.WatchStalls(t, len(b))()
		if r, err := Parse(b); err == nil {
			for _, s := range r.Stations {
				_, _ = Replay(s)
			}
		}
		for in := (codec{b: b, reading: true}); len(in.b) > 0 && in.err == nil; { // past the checksums
			in.step(&Step{})
		}
		p, _ := factory.New(specs()["tc promise"])
		_ = restore(b, p)
	})
}

// BenchmarkRecord is what a driver pays for a step more: its share of states included.
func BenchmarkRecord(b *testing.B) {
	spec := specs()["adaptive"]
	p, err := factory.New(spec)
	require.NoError(b, err)
	r := &Recorder{Limit: 1 << 20}
	r.Begin(p, spec, false)
	batch := []dispatch.RequestID{1 << 32, 2<<32 | 1, 3<<32 | 2, 4<<32 | 3}
	actions := []dispatch.Action{{Act: dispatch.SetTimer, At: 70 * ms}, {Act: dispatch.Start, Executor: 2, Batch: batch}}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		now := dispatch.Time(i) * ms
		r.Step(now, dispatch.Event{Kind: dispatch.Arrive, Request: dispatch.Request{ID: dispatch.RequestID(i) << 32, Arrival: now, Deadline: now + 100*ms}}, actions[:i%8/7*2])
	}
}
