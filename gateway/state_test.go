package gateway

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/dispatch/admission"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/attach"
)

// chained adds what comes to what it keeps of the stream, and answers frame and sum.
var chained = kind{
	sig: pipelines.Signature{
		Inputs:  []pipelines.Port{{Name: "h", Datatype: "FP32", Shape: []int64{1}, Loop: "hn"}, port("x", "FP32", 2)},
		Outputs: []pipelines.Port{port("y", "FP32", 2), port("hn", "FP32", 1)},
	},
	run: func(in []wire.Tensor) []wire.Tensor {
		h, x := floats(in[0])[0], floats(in[1])
		sum := after(h, x[0])
		return []wire.Tensor{wire.FromFloat32([]float32{x[0], sum}, 2), wire.FromFloat32([]float32{sum}, 1)}
	},
}

// after is what chained keeps after a frame: of all before, and of their order.
func after(h, x float32) float32 { return float32(int(h*31+x+1) % 65521) }

// keeping is a pipeline of one module with state.
func keeping(slo time.Duration, of pipelines.Stream) pipelines.Pipeline {
	p := single(slo)
	p.Stream, p.Rate = of, of.Total()
	p.Modules[0].State = true
	return p
}

// filmFrame is what came back of a frame.
type filmFrame struct {
	n     int
	y     []float32
	fresh bool
	err   error
}

// TestStateBesideKills sends frames of several streams faster than devices answer them, while executors
// fail, are lost, and come back: the answers of each stream are those of one without interruptions, of the
// frames that the module has answered.
func TestStateBesideKills(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) { stateBesideKills(t, rand.New(rand.NewPCG(seed, 2))) })
	}
}

func stateBesideKills(t *testing.T, rng *rand.Rand) {
	const streams = 5
	filmedBy(t, keeping(200*ms, pipelines.Stream{Rate: 20, Count: streams, Jitter: 45 * ms}), spec{kind: chained, batch: 4, executors: 3, duration: 12 * ms}, func(g *Gateway, workers map[string]*worker) {
		var mu sync.Mutex
		batch := map[string]bool{} // streams seen in one batch
		for name, w := range workers {
			w.mu.Lock()
			w.fault = func(b *attach.Batch) *wire.Error {
				mu.Lock()
				defer mu.Unlock()
				seen := map[int]bool{}
				for _, in := range b.Items {
					of := int(floats(in[1])[1])
					assert.False(t, seen[of], "two frames of stream %d in a batch", of)
					seen[of] = true
				}
				batch[name] = true
				switch rng.IntN(8) {
				case 0:
					return wire.Errorf(wire.CodeUnavailable, "", "the engine was killed")
				case 1:
					return wire.Errorf(wire.CodeInternal, "", "it failed")
				}
				return nil
			}
			w.mu.Unlock()
		}
		all := make([][]filmFrame, streams)
		var under sync.WaitGroup
		for i := range 30 {
			for s := range streams {
				mu.Lock()
				patience, late := time.Duration(30+rng.IntN(200))*ms, time.Duration(rng.IntN(40))*ms
				mu.Unlock()
				under.Go(func() {
					time.Sleep(late)
					ctx, cancel := context.WithTimeout(context.Background(), patience)
					defer cancel()
					a := filmFrame{n: i}
					r, err := g.Infer(ctx, &wire.InferRequest{Pipeline: "p", Inputs: vector(float32(i), float32(s)), Frame: wire.Frame{Stream: fmt.Sprint("camera ", s)}})
					if a.err = err; err == nil {
						a.y, a.fresh = floats(r.Outputs[0].Tensor), r.Fresh
					}
					mu.Lock()
					all[s] = append(all[s], a)
					mu.Unlock()
				})
			}
			time.Sleep(50 * ms)
		}
		under.Wait()
		for s, answers := range all {
			require.Len(t, answers, 30)
			slices.SortFunc(answers, func(a, b filmFrame) int { return a.n - b.n })
			h, first := float32(0), true
			for _, a := range answers {
				if a.err != nil {
					continue
				}
				h = after(h, float32(a.n))
				require.Equal(t, []float32{float32(a.n), h}, a.y, "frame %d of stream %d after %v", a.n, s, answers)
				require.Equal(t, first, a.fresh)
				first = false
			}
		}
	})
}

// askFrame sends a frame of a stream, and returns its answer.
func askFrame(t *testing.T, g *Gateway, n float32, f wire.Frame) (y []float32, fresh bool) {
	t.Helper()
	r, err := g.Infer(context.Background(), &wire.InferRequest{Pipeline: "p", Inputs: vector(n, 0), Frame: f})
	require.NoError(t, err)
	time.Sleep(60 * ms)
	return floats(r.Outputs[0].Tensor), r.Fresh
}

// State begins with a stream, ends with it, and reaches no other.
func TestStateBeginsAndEndsWithAStream(t *testing.T) {
	filmedBy(t, keeping(time.Second, pipelines.Stream{Rate: 20, Count: 3}), spec{kind: chained, duration: ms}, func(g *Gateway, _ map[string]*worker) {
		h := float32(0)
		next := func(n float32, f wire.Frame, begins bool) {
			t.Helper()
			if begins {
				h = 0
			}
			h = after(h, n)
			y, fresh := askFrame(t, g, n, f)
			require.Equal(t, []float32{n, h}, y)
			require.Equal(t, begins, fresh)
		}
		next(1, wire.Frame{Stream: "a"}, true)
		next(2, wire.Frame{Stream: "a"}, false)
		next(3, wire.Frame{Stream: "a", First: true}, true)
		next(4, wire.Frame{Stream: "a", Last: true}, false)
		next(5, wire.Frame{Stream: "a"}, true)
		before := h
		next(6, wire.Frame{}, true) // a request of no stream
		next(7, wire.Frame{Stream: "b"}, true)
		h = before
		next(8, wire.Frame{Stream: "a"}, false)
		time.Sleep(9 * time.Second)
		next(9, wire.Frame{Stream: "a"}, false)
		time.Sleep(11 * time.Second)
		for _, name := range []string{"c", "d", "e"} { // which have the places of those that are silent
			next(1, wire.Frame{Stream: name, Last: name == "e"}, true)
		}
		next(10, wire.Frame{Stream: "a"}, true)
	})
}

// A stream that is sent on under its name at once after its last frame is another, and keeps its place and its state.
func TestAStreamGoesOnUnderTheNameOfOneThatEnded(t *testing.T) {
	filmedBy(t, keeping(time.Second, pipelines.Stream{Rate: 20, Count: 1}), spec{kind: chained, duration: ms}, func(g *Gateway, _ map[string]*worker) {
		_, err := g.Infer(context.Background(), &wire.InferRequest{Pipeline: "p", Inputs: vector(1, 0), Frame: wire.Frame{Stream: "a", Last: true}})
		require.NoError(t, err)
		time.Sleep(40 * ms)
		h := float32(0)
		for n := range 4 {
			y, fresh := askFrame(t, g, float32(n), wire.Frame{Stream: "a"})
			h = after(h, float32(n))
			require.Equal(t, []float32{float32(n), h}, y)
			require.Equal(t, n == 0, fresh)
		}
	})
}

// State goes to another gateway with the caller who requests it: sealed, for its own stream alone, and fresh where
// it is of none.
func TestStateGoesAlongWithItsCaller(t *testing.T) {
	of := keeping(time.Second, pipelines.Stream{Rate: 20, Count: 3})
	with := func(t *testing.T, g *Gateway, n float32, f wire.Frame, state []byte) (y []float32, fresh bool, left []byte) {
		t.Helper()
		r, err := g.Infer(context.Background(), &wire.InferRequest{Pipeline: "p", Frame: f, Inputs: append(vector(n, 0), wire.NamedTensor{
			Name: wire.SequenceState, Tensor: wire.Tensor{Datatype: wire.Uint8, Shape: []int64{int64(len(state))}, Data: state},
		})})
		require.NoError(t, err)
		require.Len(t, r.Outputs, 2)
		time.Sleep(60 * ms)
		return floats(r.Outputs[0].Tensor), r.Fresh, r.Outputs[1].Data
	}
	frame := wire.Frame{Stream: "a"}
	var before, after1 []byte
	filmedBy(t, of, spec{kind: chained, duration: ms}, func(g *Gateway, _ map[string]*worker) {
		_, fresh, state := with(t, g, 1, wire.Frame{Stream: "a", First: true}, nil)
		require.True(t, fresh)
		before = state
		_, fresh, after1 = with(t, g, 2, frame, nil)
		require.False(t, fresh)
	})
	filmedBy(t, of, spec{kind: chained, duration: ms}, func(g *Gateway, _ map[string]*worker) {
		_, err := g.Infer(context.Background(), &wire.InferRequest{Pipeline: "p", Frame: frame, Inputs: append(vector(3, 0), wire.NamedTensor{
			Name: wire.SequenceState, Tensor: wire.Tensor{Datatype: wire.Uint8, Shape: []int64{0}},
		})})
		var lacks *wire.Error
		require.ErrorAs(t, err, &lacks, "nothing of it is here, and it does not begin")
		require.Equal(t, wire.CauseNoState, lacks.Cause)
		h := after(after(0, 1), 2)
		h3 := after(h, 3)
		y, fresh, _ := with(t, g, 3, frame, after1)
		require.Equal(t, []float32{3, h3}, y)
		require.False(t, fresh)
		y, fresh, _ = with(t, g, 4, frame, nil)
		require.Equal(t, []float32{4, after(h3, 4)}, y, "it goes on with what is here")
		require.False(t, fresh)
		y, _, _ = with(t, g, 5, frame, before)
		require.Equal(t, []float32{5, after(after(0, 1), 5)}, y, "what comes counts more")
		for name, state := range map[string][]byte{"of another stream": after1, "nonsense": {1, 2, 3}, "changed": append(after1[:len(after1)-1:len(after1)-1], after1[len(after1)-1]^1)} {
			other := wire.Frame{Stream: "b", First: true}
			_, fresh, _ = with(t, g, 1, other, nil)
			require.True(t, fresh)
			y, fresh, _ = with(t, g, 7, wire.Frame{Stream: "b"}, state)
			require.Equal(t, []float32{7, after(after(0, 1), 7)}, y, name)
			require.False(t, fresh)
		}
		_, fresh, _ = with(t, g, 8, wire.Frame{Stream: "a", First: true}, after1)
		require.True(t, fresh, "nothing before counts")
		_, err = g.Infer(context.Background(), &wire.InferRequest{Pipeline: "p", Frame: frame, Inputs: vector(9, 0)})
		require.NoError(t, err)
	})
}

// What modules keep of streams counts among the bytes of requests, until the streams are over.
func TestStateCountsInBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bytes := NewBytes(ByteLimits{Total: 1000})
		held := bytes.Begin("p")
		require.NoError(t, held.Grow(1000-12))
		s := newSession(bytes.Begin("p"), nil)
		left := moduleState{"m", []wire.NamedTensor{{Name: "h", Tensor: wire.FromFloat32([]float32{1, 2}, 2)}}}
		one, two := s.enters(), s.enters()
		_, err := one.answer("m", left)
		require.Nil(t, err)
		require.EqualValues(t, 996, bytes.Now())
		_, err = two.answer("m", left)
		require.Equal(t, wire.CodeOverloaded, err.Code)
		require.Equal(t, "m", err.Stage)
		one.end()
		two.end()
		require.EqualValues(t, 996, bytes.Now(), "of the last that was answered")
		three := s.enters()
		s.close()
		require.EqualValues(t, 996, bytes.Now(), "a frame is still there")
		three.end()
		require.EqualValues(t, 988, bytes.Now())
		require.True(t, newSession(bytes.Begin("p"), map[string]moduleState{"m": left}).turns.Idle())
		require.EqualValues(t, 996, bytes.Now())
	})
}

// A stream begins where its first frame is dropped, and ends where its last one is.
func TestStateBeginsWhereTheFirstFrameIsDropped(t *testing.T) {
	filmedBy(t, keeping(time.Second, pipelines.Stream{Rate: 10, Count: 2}), spec{kind: chained, duration: ms}, func(g *Gateway, _ map[string]*worker) {
		dropped := func(f wire.Frame) {
			_, err := g.Infer(context.Background(), &wire.InferRequest{Pipeline: "p", Inputs: vector(99, 0), Frame: f})
			require.ErrorIs(t, err, wire.ErrOverloaded)
			time.Sleep(200 * ms)
		}
		fast := func(n float32, f wire.Frame) {
			t.Helper()
			r, err := g.Infer(context.Background(), &wire.InferRequest{Pipeline: "p", Inputs: vector(n, 0), Frame: f})
			require.NoError(t, err)
			require.Equal(t, []float32{n, after(0, n)}, floats(r.Outputs[0].Tensor))
			require.True(t, r.Fresh)
		}
		fast(1, wire.Frame{Stream: "a", First: true})
		dropped(wire.Frame{Stream: "a", First: true})
		fast(2, wire.Frame{Stream: "a"})
		dropped(wire.Frame{Stream: "a", Last: true})
		fast(3, wire.Frame{Stream: "a"})
	})
}

// Modules of one network keep state of their own.
func TestModulesOfOneNetworkKeepTheirOwnState(t *testing.T) {
	var s session
	module := &Module{Identity: "one network"}
	item := func(name string) *Item { return &Item{Node: &Node{Name: name, Module: module, state: true}} }
	left, right := item("left"), item("right")
	first, next := &Request{turn: s.enters()}, &Request{turn: s.enters()}
	require.True(t, first.admit(left))
	require.True(t, first.admit(right))
	left.left, right.left = []wire.NamedTensor{{Name: "l"}}, []wire.NamedTensor{{Name: "r"}}
	_, err := first.turn.answer("left", left.leaves())
	require.Nil(t, err)
	require.False(t, next.admit(item("right")), "the frame before is still there")
	waited, err := first.turn.answer("right", right.leaves())
	require.Nil(t, err)
	require.Len(t, waited, 1)
	for _, it := range []*Item{left, right} {
		again := item(it.Node.Name)
		require.True(t, next.admit(again))
		require.Equal(t, it.left, again.state)
	}
}

// What a module may leave is bounded, and is what it takes; a frame that leaves something else fails, and changes
// nothing.
func TestStateThatCannotBeKept(t *testing.T) {
	sig := pipelines.Signature{
		Inputs:  []pipelines.Port{port("x", "FP32", 2), {Name: "h", Datatype: "FP32", Shape: []int64{-1}, Loop: "hn"}},
		Outputs: []pipelines.Port{port("y", "FP32", 2), port("hn", "FP32", -1)},
	}
	sig.Inputs[1].Shape[0] = MaxState/4 + 1
	large := kind{sig, func(in []wire.Tensor) []wire.Tensor {
		return []wire.Tensor{in[0], wire.Zeros("FP32", []int64{MaxState/4 + 1})}
	}}
	odd := kind{pipelines.Signature{Inputs: chained.sig.Inputs, Outputs: chained.sig.Outputs}, func(in []wire.Tensor) []wire.Tensor {
		made := chained.run(in)
		if floats(in[1])[0] == 2 {
			made[1] = wire.FromFloat32([]float32{1, 2}, 2)
		}
		return made
	}}
	frame := func(g *Gateway, n float32) error {
		_, err := g.Infer(context.Background(), &wire.InferRequest{Pipeline: "p", Inputs: vector(n, 0), Frame: wire.Frame{Stream: "a"}})
		time.Sleep(60 * ms)
		return err
	}
	of := pipelines.Stream{Rate: 20, Count: 3}
	filmedBy(t, keeping(time.Second, of), spec{kind: large, duration: ms}, func(g *Gateway, _ map[string]*worker) {
		err := frame(g, 1)
		require.ErrorIs(t, err, wire.ErrInternal)
		require.ErrorContains(t, err, "its state of this stream has 1 MiB, and at most 1 MiB are kept")
	})
	filmedBy(t, keeping(time.Second, of), spec{kind: odd, duration: ms}, func(g *Gateway, _ map[string]*worker) {
		require.NoError(t, frame(g, 1))
		require.ErrorContains(t, frame(g, 2), `output "hn" is FP32 [2], and cannot go back to input "h", which is FP32 [1]`)
		y, _ := askFrame(t, g, 3, wire.Frame{Stream: "a"})
		require.Equal(t, []float32{3, after(after(0, 1), 3)}, y)
	})
}

// Streams of two callers under one name have a place and a state each, and what one takes along is
// nothing to the other.
func TestStreamsOfOneNameAreTheirCallers(t *testing.T) {
	filmedBy(t, keeping(time.Second, pipelines.Stream{Rate: 20, Count: 2}), spec{kind: chained, duration: ms}, func(g *Gateway, _ map[string]*worker) {
		send := func(caller string, n float32, state []byte) (y []float32, left []byte) {
			r, err := g.Infer(wire.WithTenant(context.Background(), &wire.Tenant{Name: caller}), &wire.InferRequest{Pipeline: "p", Frame: wire.Frame{Stream: "door"}, Inputs: append(vector(n, 0), wire.NamedTensor{
				Name: wire.SequenceState, Tensor: wire.FromUint8(state, int64(len(state))),
			})})
			var e *wire.Error
			if errors.As(err, &e) && e.Cause == wire.CauseNoState { // it begins
				r, err = g.Infer(wire.WithTenant(context.Background(), &wire.Tenant{Name: caller}), &wire.InferRequest{Pipeline: "p", Frame: wire.Frame{Stream: "door", First: true}, Inputs: append(vector(n, 0), wire.NamedTensor{
					Name: wire.SequenceState, Tensor: wire.FromUint8(nil, 0),
				})})
			}
			require.NoError(t, err)
			time.Sleep(60 * ms)
			return floats(r.Outputs[0].Tensor), r.Outputs[1].Data
		}
		h := map[string]float32{}
		var taken []byte
		for n := range 10 {
			for caller, factor := range map[string]float32{"north": 1, "south": 3} {
				x := factor * float32(n)
				h[caller] = after(h[caller], x)
				y, left := send(caller, x, nil)
				require.Equal(t, []float32{x, h[caller]}, y)
				if caller == "north" {
					taken = left
				}
			}
		}
		shares, _ := g.Streams("p")
		require.Equal(t, 2, shares.Open)
		y, _ := send("south", 5, taken)
		require.Equal(t, []float32{5, after(h["south"], 5)}, y, "that of another caller counts as none")
	})
}

// Frames of another size are refused, and state is that of the frames around them.
func TestFramesOfChangingSizeLeaveState(t *testing.T) {
	filmedBy(t, keeping(time.Second, pipelines.Stream{Rate: 20, Count: 3}), spec{kind: chained, duration: ms}, func(g *Gateway, _ map[string]*worker) {
		h := map[string]float32{}
		for i := range 20 {
			n := float32(i)
			if i%3 == 1 {
				size := int64(3 + i%5) // and not 2
				_, err := g.Infer(context.Background(), &wire.InferRequest{Pipeline: "p", Frame: wire.Frame{Stream: "odd"}, Inputs: []wire.NamedTensor{{Name: "x", Tensor: wire.Zeros("FP32", []int64{size})}}})
				require.ErrorIs(t, err, wire.ErrInvalid)
			} else {
				y, fresh := askFrame(t, g, n, wire.Frame{Stream: "odd"})
				h["odd"] = after(h["odd"], n)
				require.Equal(t, []float32{n, h["odd"]}, y)
				require.Equal(t, n == 0, fresh)
			}
			y, _ := askFrame(t, g, n, wire.Frame{Stream: "calm"})
			h["calm"] = after(h["calm"], n)
			require.Equal(t, []float32{n, h["calm"]}, y)
		}
	})
}

// State goes on with the next generation where the module stays the same, on whichever executors; where another network
// serves, it begins.
func TestStateMovesWithItsModule(t *testing.T) {
	p := keeping(time.Second, pipelines.Stream{Rate: 20, Count: 3})
	filmedBy(t, p, spec{kind: chained, duration: ms}, func(g *Gateway, workers map[string]*worker) {
		specs := map[string]spec{"m": {kind: chained, duration: ms, executors: 2}}
		install := func(d placement.Deployment) {
			for name, w := range start(g, d, specs) {
				workers[name] = w
			}
			require.NoError(t, g.Prepare(context.Background(), d))
			require.NoError(t, g.Install(context.Background(), d))
		}
		h := float32(0)
		for n, generation := range []int{1, 1, 2, 2, 3, 3, 4} {
			switch n {
			case 2: // other executors
				install(deployment(p, 2, specs))
				require.NoError(t, g.Release(context.Background(), "p", []string{"m/1/0"}))
			case 4: // another network
				other := deployment(p, 3, specs)
				for i := range other.Slots {
					other.Slots[i].Model = "sha256:other"
				}
				install(other)
				h = 0
			case 6: // the one before, which has missed two frames
				install(deployment(p, 4, specs))
				h = 0
			}
			h = after(h, float32(n))
			y, fresh := askFrame(t, g, float32(n), wire.Frame{Stream: "a"})
			require.Equal(t, []float32{float32(n), h}, y, "generation %d", generation)
			require.Equal(t, n == 0 || n >= 4 && n%2 == 0, fresh)
		}
	})
}

// Frames that wait for the place of their stream go in as they have come, whoever of them goes away.
func TestFramesThatWaitForAPlaceGoInInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, p, place := New(Options{}), &pipeline{name: "p"}, &streamPlace{settled: make(chan struct{})}
		p.streams.places = map[string]*streamPlace{"a": place}
		var in []int
		var leave []context.CancelFunc
		for i := range 30 {
			ctx, cancel := context.WithCancel(context.Background())
			if i%3 == 1 {
				leave = append(leave, cancel)
			}
			go func() {
				defer cancel()
				_, next, err := g.place(ctx, p, &frameOf{rules: new(admission.StreamRules)}, "a")
				if err != nil {
					return
				}
				in = append(in, i) // one after the other
				time.Sleep(ms)
				next()
			}()
			synctest.Wait()
		}
		for _, one := range leave {
			one()
		}
		synctest.Wait()
		close(place.settled)
		time.Sleep(time.Second)
		synctest.Wait()
		require.Len(t, in, 20)
		require.IsIncreasing(t, in)
		require.NoError(t, g.Close())
	})
}

// A frame that waits behind one that hangs is late at its deadline, and not when the engine should have
// answered that has not got it.
func TestAFrameBehindOneThatHangsIsLate(t *testing.T) {
	filmedBy(t, keeping(100*ms, pipelines.Stream{Rate: 20, Count: 1}), spec{kind: chained, batch: 4, duration: 5 * ms}, func(g *Gateway, workers map[string]*worker) {
		for _, w := range workers {
			w.mu.Lock()
			w.delay = func(int) time.Duration { return time.Minute }
			w.mu.Unlock()
		}
		var under sync.WaitGroup
		send := func(n float32) error {
			_, err := g.Infer(context.Background(), &wire.InferRequest{Pipeline: "p", Inputs: vector(n, 0), Frame: wire.Frame{Stream: "a"}})
			return err
		}
		under.Go(func() { assert.ErrorContains(t, send(1), "look at the log of its worker") })
		time.Sleep(60 * ms)
		err := send(2)
		require.ErrorIs(t, err, wire.ErrDeadline)
		require.Equal(t, 100*ms, err.(*wire.Error).Elapsed)
		require.Equal(t, "m", err.(*wire.Error).Stage)
		under.Wait()
		time.Sleep(time.Minute)
	})
}
