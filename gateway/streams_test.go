package gateway

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/dispatcher"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/dispatch/admission"
	"github.com/harpagon/harpagon/wire"
)

// filmed serves a pipeline of streams on a clock of its own.
func filmed(t *testing.T, of pipelines.Stream, f func(send func(stream string, last bool) *wire.Error, g *Gateway)) {
	p := single(time.Second)
	p.Stream, p.Rate = of, of.Total()
	filmedBy(t, p, spec{kind: addOne, batch: 4, duration: 5 * ms}, func(g *Gateway, _ map[string]*worker) {
		f(func(stream string, last bool) *wire.Error {
			_, err := g.Infer(context.Background(), &wire.InferRequest{Pipeline: "p", Inputs: vector(1, 2), Frame: wire.Frame{Stream: stream, Last: last}})
			if err == nil {
				return nil
			}
			return err.(*wire.Error)
		}, g)
	})
}

// filmedBy serves a pipeline of one module on a clock of its own.
func filmedBy(t *testing.T, p pipelines.Pipeline, m spec, f func(g *Gateway, workers map[string]*worker)) {
	synctest.Test(t, func(t *testing.T) {
		specs := map[string]spec{"m": m}
		g, workers := serve(t, Options{}, deployment(p, 1, specs), specs)
		f(g, workers)
		stop(g, workers)
		time.Sleep(time.Minute)
	})
}

// framesTo sends frames to pipeline p.
func framesTo(g *Gateway) func(wire.Frame) error {
	return func(f wire.Frame) error {
		_, err := g.Infer(context.Background(), &wire.InferRequest{Pipeline: "p", Inputs: vector(1, 2), Frame: f})
		return err
	}
}

// One more stream than planned is refused, and those that are open go on.
func TestOneStreamMoreIsRefused(t *testing.T) {
	filmed(t, pipelines.Stream{Rate: 10, Count: 2}, func(send func(string, bool) *wire.Error, g *Gateway) {
		for range 5 {
			for _, name := range []string{"a", "b"} {
				require.Nil(t, send(name, false))
			}
			err := send("c", false)
			require.NotNil(t, err)
			assert.Equal(t, wire.CodeOverloaded, err.Code)
			assert.Contains(t, err.Reason, "as many streams are open as are planned for, 2, and 0 more fit")
			require.NotNil(t, send("", false), "a request of no stream takes a place, too")
			time.Sleep(100 * ms)
		}
		shares, ok := g.Streams("p")
		require.True(t, ok)
		assert.Equal(t, 2, shares.Open)
		assert.InDelta(t, 1, shares.Worst, 0)
		require.Nil(t, send("b", true))
		time.Sleep(100 * ms)
		require.Nil(t, send("c", false))
		time.Sleep(11 * time.Second)
		require.Nil(t, send("", false), "the others are silent")
	})
}

// A stream that sends too much loses frames of its own, each with one outcome.
func TestAStreamThatSendsTooMuchHurtsItself(t *testing.T) {
	for rule, want := range map[string]int{pipelines.StaleOldest: 11, pipelines.StaleNewest: 11, pipelines.StaleAlternate: 11} {
		t.Run(rule, func(t *testing.T) {
			filmed(t, pipelines.Stream{Rate: 10, Count: 2, Stale: rule}, func(send func(string, bool) *wire.Error, g *Gateway) {
				var mu sync.Mutex
				var group sync.WaitGroup
				inTime, dropped := map[string]int{}, map[string]int{}
				one := func(name string) {
					group.Go(func() {
						err := send(name, false)
						mu.Lock()
						defer mu.Unlock()
						if err == nil {
							inTime[name]++
							return
						}
						assert.Equal(t, wire.CodeOverloaded, err.Code)
						assert.Contains(t, err.Reason, "sends more than the 10 frames a second")
						assert.Contains(t, err.Reason, rule)
						dropped[name]++
					})
				}
				for i := range 40 { // a second of 40 frames, and one of 10
					one("fast")
					if i%4 == 0 {
						one("calm")
					}
					time.Sleep(25 * ms)
				}
				group.Wait()
				assert.Equal(t, 10, inTime["calm"])
				assert.Equal(t, want, inTime["fast"])
				assert.Equal(t, 40-want, dropped["fast"])
				shares, _ := g.Streams("p")
				assert.InDelta(t, 1, shares.Worst, 0, "of the frames within the rate all were in time")
				assert.EqualValues(t, 40-want, shares.TooFast)
				for _, line := range g.StreamLines("p", 2) {
					assert.Equal(t, line.Name == "fast", line.TooFast > 0, line.Name)
				}
			})
		})
	}
}

// A frame is one request: a batch of them would count as one at the door.
func TestAFrameIsOneRequest(t *testing.T) {
	filmed(t, pipelines.Stream{Rate: 10, Count: 1}, func(_ func(string, bool) *wire.Error, g *Gateway) {
		many := []wire.NamedTensor{{Name: "x", Tensor: wire.FromFloat32(make([]float32, 6), 3, 2)}}
		_, err := g.Infer(context.Background(), &wire.InferRequest{Pipeline: "p", Inputs: many, Frame: wire.Frame{Stream: "a"}})
		require.ErrorIs(t, err, wire.ErrInvalid)
		require.ErrorContains(t, err, "a frame is one request, and this has 3")
		one := []wire.NamedTensor{{Name: "x", Tensor: wire.FromFloat32(make([]float32, 2), 1, 2)}}
		_, err = g.Infer(context.Background(), &wire.InferRequest{Pipeline: "p", Inputs: one, Frame: wire.Frame{Stream: "a"}})
		require.NoError(t, err)
	})
}

// Frames that come too soon are their sender's mistake, and no load to plan for.
func TestFramesThatComeTooSoonAreNoLoad(t *testing.T) {
	filmed(t, pipelines.Stream{Rate: 10, Count: 1}, func(send func(string, bool) *wire.Error, g *Gateway) {
		for range 100 {
			_ = send("a", false)
			time.Sleep(5 * ms)
		}
		m := g.Measures("p")
		assert.LessOrEqual(t, m.Arrived, int64(12))
		assert.InDelta(t, 1, m.Attainment, 0)
	})
}

// Nobody waits for a frame whose caller is gone; a stream of a pipeline without any is an error.
func TestFramesThatNobodyWaitsFor(t *testing.T) {
	filmed(t, pipelines.Stream{Rate: 10, Count: 1}, func(send func(string, bool) *wire.Error, g *Gateway) {
		require.Nil(t, send("a", false))
		time.Sleep(75 * ms)
		ctx, cancel := context.WithCancel(context.Background())
		time.AfterFunc(5*ms, cancel)
		_, err := g.Infer(ctx, &wire.InferRequest{Pipeline: "p", Inputs: vector(1, 2), Frame: wire.Frame{Stream: "a"}})
		require.ErrorIs(t, err, wire.ErrCanceled)
		require.Nil(t, send("a", false), "its place is free")
		time.Sleep(80 * ms)
		ctx, cancel = context.WithTimeout(context.Background(), 10*ms)
		defer cancel()
		_, err = g.Infer(ctx, &wire.InferRequest{Pipeline: "p", Inputs: vector(1, 2), Frame: wire.Frame{Stream: "a"}})
		require.Error(t, err, "it may not begin before its deadline")
	})
	bubble(t, Options{}, time.Second, spec{kind: addOne}, func(g *Gateway, _ map[string]*worker) {
		_, err := g.Infer(context.Background(), &wire.InferRequest{Pipeline: "p", Inputs: vector(1, 2), Frame: wire.Frame{Stream: "a"}})
		require.ErrorIs(t, err, wire.ErrInvalid)
		require.ErrorContains(t, err, "has no streams: leave sequence_id out")
		_, ok := g.Streams("p")
		require.False(t, ok)
	})
}

// Cameras that begin together and follow what the gateway says send one after the other.
func TestStreamsThatFollowTheGatewayComeApart(t *testing.T) {
	filmed(t, pipelines.Stream{Rate: 10, Count: 4, Phases: pipelines.PhasesChosen}, func(_ func(string, bool) *wire.Error, g *Gateway) {
		var mu sync.Mutex
		var all sync.WaitGroup
		phases := map[string]time.Duration{}
		began := time.Now()
		for _, name := range []string{"a", "b", "c", "d"} {
			all.Go(func() {
				for range 40 {
					came := time.Since(began)
					r, err := g.Infer(context.Background(), &wire.InferRequest{Pipeline: "p", Inputs: vector(1, 2), Frame: wire.Frame{Stream: name}})
					assert.NoError(t, err)
					mu.Lock()
					phases[name] = (came%(100*ms) + 100*ms) % (100 * ms)
					mu.Unlock()
					time.Sleep(100*ms - (time.Since(began) - came) + r.Shift)
				}
			})
		}
		all.Wait()
		var sorted []time.Duration
		for _, at := range phases {
			sorted = append(sorted, at)
		}
		slices.Sort(sorted)
		for i := range sorted[1:] {
			assert.InDelta(t, float64(25*ms), float64(sorted[i+1]-sorted[i]), float64(ms))
		}
	})
}

// What one stream does wrong is told to it, and the others go on: a frame of another shape, two senders
// of one name, and silence.
func TestStreamsThatGoWrong(t *testing.T) {
	filmed(t, pipelines.Stream{Rate: 10, Count: 2}, func(send func(string, bool) *wire.Error, g *Gateway) {
		other := wire.FromFloat32(make([]float32, 3), 3)
		for n := range 20 {
			require.Nil(t, send("calm", false))
			if n%2 == 0 {
				require.Nil(t, send("odd", false))
			} else {
				_, err := g.Infer(context.Background(), &wire.InferRequest{Pipeline: "p", Inputs: []wire.NamedTensor{{Name: "x", Tensor: other}}, Frame: wire.Frame{Stream: "odd"}})
				require.ErrorIs(t, err, wire.ErrInvalid)
			}
			time.Sleep(100 * ms)
		}
		time.Sleep(11 * time.Second) // both are silent
		var group sync.WaitGroup
		answered := make([]int, 2)
		for i := range answered {
			group.Go(func() {
				for range 20 {
					switch err := send("twice", false); {
					case err == nil:
						answered[i]++
					default:
						assert.Equal(t, wire.CodeOverloaded, err.Code)
						assert.Contains(t, err.Reason, "sends more than the 10 frames a second")
					}
					time.Sleep(100 * ms)
				}
			})
		}
		for range 20 {
			require.Nil(t, send("calm", false))
			time.Sleep(100 * ms)
		}
		group.Wait()
		assert.LessOrEqual(t, answered[0]+answered[1], 23, "both share the rate of one")
		assert.GreaterOrEqual(t, answered[0]+answered[1], 18)
		shares, _ := g.Streams("p")
		assert.Equal(t, 2, shares.Open)
		assert.EqualValues(t, 40-answered[0]-answered[1], shares.TooFast)
	})
}

// What the streams attain together is what the service attains, whatever becomes of their frames: they are
// in time, late, dropped, come too fast, are wrong in themselves, or nobody waits for them.
func TestStreamsAttainWhatTheServiceDoes(t *testing.T) {
	for seed := range uint64(20) {
		p := single(50 * ms)
		p.Stream = pipelines.Stream{Rate: 10, Count: 3, Jitter: 20 * ms}
		p.Rate = p.Stream.Total()
		m := spec{kind: addOne, batch: 1, duration: time.Duration(15+seed) * ms}
		filmedBy(t, p, m, func(g *Gateway, _ map[string]*worker) {
			rng := rand.New(rand.NewPCG(seed, 7))
			var group sync.WaitGroup
			for _, name := range []string{"a", "b", "c"} {
				for range 30 {
					inputs, patience := vector(1, 2), time.Minute
					frame := wire.Frame{Stream: name}
					switch rng.IntN(10) {
					case 2:
						frame.Kind = "none of them"
					case 0:
						inputs[0].Tensor = wire.FromFloat32(make([]float32, 3), 3)
					case 1:
						patience = 12 * ms // it gives up while a batch of one runs
					}
					at := time.Duration(rng.IntN(4000)) * ms
					group.Go(func() {
						time.Sleep(at)
						ctx, cancel := context.WithCancel(context.Background())
						defer cancel()
						time.AfterFunc(patience, cancel)
						_, _ = g.Infer(ctx, &wire.InferRequest{Pipeline: "p", Inputs: inputs, Frame: frame})
					})
				}
			}
			group.Wait()
			service := g.Measures("p")
			var frames int64
			inTime := 0.0
			for _, of := range g.StreamLines("p", 3) {
				frames, inTime = frames+of.Frames, inTime+of.Attainment*float64(of.Frames)
			}
			assert.Equal(t, service.Outcomes(), frames, "seed %d", seed)
			assert.InDelta(t, service.Completed, inTime, 1e-6, "seed %d", seed)
			assert.Positive(t, service.Invalid)
		})
	}
}

// A stream comes again after a time in which its pipeline had none.
func TestStreamsThatComeAgainWithTheirBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		specs := map[string]spec{"m": {kind: addOne, batch: 4, duration: 5 * ms}}
		with, without := single(time.Second), single(time.Second)
		with.Stream, with.Rate, without.Rate = pipelines.Stream{Rate: 10, Count: 1}, 10, 10
		first := deployment(with, 1, specs)
		g, workers := serve(t, Options{}, first, specs)
		install := func(p pipelines.Pipeline, generation int) {
			next := deployment(p, generation, specs)
			next.Slots = first.Slots
			require.NoError(t, g.Install(context.Background(), next))
		}
		send := func(stream string) error {
			_, err := g.Infer(context.Background(), &wire.InferRequest{Pipeline: "p", Inputs: vector(1, 2), Frame: wire.Frame{Stream: stream}})
			return err
		}
		require.NoError(t, send("a"))
		install(without, 2)
		time.Sleep(20 * time.Second)
		install(with, 3)
		for range 3 {
			require.NoError(t, send("a"))
			require.ErrorIs(t, send("b"), wire.ErrOverloaded)
			time.Sleep(100 * ms)
		}
		time.Sleep(20 * time.Second)
		require.NoError(t, send("b"), "the other is over")
		stop(g, workers)
		time.Sleep(time.Minute)
	})
}

// Of several kinds each has places of its own, and its own pace; a frame says which kind its stream is of
// when that opens.
func TestStreamsOfSeveralKinds(t *testing.T) {
	p := single(time.Second)
	p.Kinds = []pipelines.Stream{{Kind: "fast", Rate: 20, Count: 1}, {Kind: "slow", Rate: 5, Count: 2}}
	p.Rate = p.StreamsTotal()
	filmedBy(t, p, spec{kind: addOne, batch: 4, duration: 5 * ms}, func(g *Gateway, _ map[string]*worker) {
		send := framesTo(g)
		for _, f := range []wire.Frame{{Stream: "a"}, {}} {
			err := send(f)
			require.ErrorIs(t, err, wire.ErrInvalid)
			require.ErrorContains(t, err, `has streams of several kinds; say with stream_kind which one this is of: "fast", "slow"`)
		}
		err := send(wire.Frame{Stream: "a", Kind: "quick"})
		require.ErrorIs(t, err, wire.ErrInvalid)
		require.ErrorContains(t, err, `has no streams of kind "quick"; there is "fast", "slow"`)

		require.NoError(t, send(wire.Frame{Stream: "a", Kind: "fast"}))
		require.NoError(t, send(wire.Frame{Stream: "b", Kind: "slow"}))
		err = send(wire.Frame{Stream: "c", Kind: "fast"})
		require.ErrorIs(t, err, wire.ErrOverloaded, "a place of another kind is none for it")
		require.ErrorContains(t, err, `as many streams of kind "fast" are open as are planned for, 1, and 0 more fit`)
		require.NoError(t, send(wire.Frame{Stream: "c", Kind: "slow"}))
		err = send(wire.Frame{Stream: "d", Kind: "slow"})
		require.ErrorContains(t, err, `as many streams of kind "slow" are open as are planned for, 2, and 0 more fit`)

		time.Sleep(50 * ms)
		require.NoError(t, send(wire.Frame{Stream: "a"}), "it has said so")
		err = send(wire.Frame{Stream: "b"})
		require.ErrorIs(t, err, wire.ErrOverloaded)
		require.ErrorContains(t, err, "its stream sends more than the 5 frames a second")
		err = send(wire.Frame{Stream: "a", Kind: "slow"})
		require.ErrorIs(t, err, wire.ErrInvalid)
		require.ErrorContains(t, err, `its stream is open as one of kind "fast", not "slow"`)
		time.Sleep(50 * ms)
		require.NoError(t, send(wire.Frame{Stream: "a", Last: true}))
		time.Sleep(50 * ms)
		require.NoError(t, send(wire.Frame{Stream: "d", Kind: "fast"}), "the place is free")

		shares, ok := g.Streams("p")
		require.True(t, ok)
		assert.Equal(t, 3, shares.Open)
		assert.Equal(t, 3, shares.Most)
		assert.Equal(t, []int{1, 1, 2, 2}, []int{shares.Kinds[0].Open, shares.Kinds[0].Most, shares.Kinds[1].Open, shares.Kinds[1].Most})
		assert.Len(t, g.StreamLines("p", 50), 3)
		assert.Len(t, g.StreamLines("p", 2), 2)
		m, err := g.Metadata(context.Background(), "p")
		require.NoError(t, err)
		assert.Zero(t, m.FrameRate)
		assert.Equal(t, []wire.Kind{{Name: "fast", Streams: 1, FrameRate: 20}, {Name: "slow", Streams: 2, FrameRate: 5}}, m.Kinds)
		time.Sleep(11 * time.Second)
		shares, _ = g.Streams("p")
		assert.Zero(t, shares.Open, "they are silent")
	})
}

// Where there is one kind without a name, none is to be given.
func TestAKindWhereThereIsOne(t *testing.T) {
	filmed(t, pipelines.Stream{Rate: 10, Count: 2}, func(_ func(string, bool) *wire.Error, g *Gateway) {
		_, err := g.Infer(context.Background(), &wire.InferRequest{Pipeline: "p", Inputs: vector(1, 2), Frame: wire.Frame{Stream: "a", Kind: "fast"}})
		require.ErrorIs(t, err, wire.ErrInvalid)
		require.ErrorContains(t, err, "has streams of one kind, which has no name; leave stream_kind out")
	})
}

// A stream without frames is over after a time of its own kind, whatever streams of others are open.
func TestASilentStreamBesideSlowerOnes(t *testing.T) {
	p := single(time.Second)
	p.Kinds = []pipelines.Stream{{Kind: "night", Rate: 0.05, Count: 1}, {Kind: "fast", Rate: 20, Count: 1}}
	p.Rate = p.StreamsTotal()
	filmedBy(t, p, spec{kind: addOne, batch: 4, duration: 5 * ms}, func(g *Gateway, _ map[string]*worker) {
		send := framesTo(g)
		require.NoError(t, send(wire.Frame{Stream: "a", Kind: "night"}))
		time.Sleep(time.Second)
		require.NoError(t, send(wire.Frame{Stream: "b", Kind: "fast"}))
		time.Sleep(11 * time.Second)
		shares, _ := g.Streams("p")
		assert.Equal(t, []int{1, 0}, []int{shares.Kinds[0].Open, shares.Kinds[1].Open})
		require.NoError(t, send(wire.Frame{Stream: "c", Kind: "fast"}))
		time.Sleep(200 * time.Second)
		shares, _ = g.Streams("p")
		assert.Zero(t, shares.Open)
	})
}

// An answer for a stream of one kind says nothing of another of that name: who asks for none any more gives the
// place back.
func TestAPlaceOfAnotherKind(t *testing.T) {
	p := single(time.Second)
	p.Kinds = []pipelines.Stream{{Kind: "fast", Rate: 20, Count: 1}, {Kind: "slow", Rate: 5, Count: 1}}
	p.Rate = p.StreamsTotal()
	filmedBy(t, p, spec{kind: addOne, batch: 4, duration: 5 * ms}, func(g *Gateway, _ map[string]*worker) {
		send := framesTo(g)
		require.NoError(t, send(wire.Frame{Stream: "a", Kind: "fast"}))
		of, _ := g.find("p")
		late := dispatcher.Stream{Service: "p", Pipeline: "p", Kind: "slow", Name: "\x00a"}
		door{g, of}.Placed(late, admission.Place{Planned: 1})
		door{g, of}.Placed(late, admission.Place{Open: true, Planned: 1})
		time.Sleep(50 * ms)
		require.NoError(t, send(wire.Frame{Stream: "a"}), "its place is another")
		time.Sleep(50 * ms)
		require.NoError(t, send(wire.Frame{Stream: "a", Last: true}))
	})
}

// A kind that is renamed takes the places of its streams: they begin again, and are not their clients' mistake.
func TestStreamsOfAKindThatIsRenamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		specs := map[string]spec{"m": {kind: addOne, batch: 4, duration: 5 * ms}}
		p := single(time.Second)
		p.Kinds = []pipelines.Stream{{Kind: "a", Rate: 10, Count: 1}, {Kind: "b", Rate: 10, Count: 1}}
		p.Rate = 20
		first := deployment(p, 1, specs)
		g, workers := serve(t, Options{}, first, specs)
		send := framesTo(g)
		require.NoError(t, send(wire.Frame{Stream: "x", Kind: "a"}))
		p.Kinds = []pipelines.Stream{{Kind: "c", Rate: 10, Count: 1}, {Kind: "b", Rate: 10, Count: 1}}
		next := deployment(p, 2, specs)
		next.Slots = first.Slots
		require.NoError(t, g.Install(context.Background(), next))
		synctest.Wait()
		require.ErrorIs(t, send(wire.Frame{Stream: "x", Kind: "a"}), wire.ErrInvalid, "there is none of that name")
		require.NoError(t, send(wire.Frame{Stream: "x", Kind: "c"}))
		stop(g, workers)
		time.Sleep(time.Minute)
	})
}

// A server that refuses requests before it reads them does not refuse frames so: whose they are their bodies state.
func TestFramesAreReadBeforeTheyAreRefused(t *testing.T) {
	for of, stream := range map[string]pipelines.Stream{"requests": {}, "frames": {Rate: 1000, Count: 400}} {
		t.Run(of, func(t *testing.T) {
			p := single(100 * ms)
			p.Rate = 100
			if p.Stream = stream; !stream.IsZero() {
				p.Rate = stream.Total()
			}
			filmedBy(t, p, spec{kind: addOne, batch: 1, duration: 40 * ms}, func(g *Gateway, _ map[string]*worker) {
				var under sync.WaitGroup
				for i := range 20 {
					under.Go(func() {
						q := &wire.InferRequest{Pipeline: "p", Inputs: vector(1, 2)}
						if !stream.IsZero() {
							q.Frame.Stream = fmt.Sprint(i)
						}
						_, _ = g.Infer(context.Background(), q)
					})
				}
				synctest.Wait()
				early := g.RejectEarly(context.Background(), "p", time.Time{})
				assert.Equal(t, stream.IsZero(), early != nil, "%v", early)
				under.Wait()
			})
		})
	}
}

// Of frames that come one behind the other the later goes in behind the earlier, and is heard of in that order.
func TestAFrameTellsWhenItIsInLine(t *testing.T) {
	filmed(t, pipelines.Stream{Rate: 10, Count: 2}, func(_ func(string, bool) *wire.Error, g *Gateway) {
		var told []string
		q := &wire.InferRequest{Pipeline: "p", Inputs: vector(1, 2), Frame: wire.Frame{Stream: "a"}}
		q.InLine = func() { told = append(told, "in line") }
		_, err := g.Infer(context.Background(), q)
		require.NoError(t, err)
		assert.Equal(t, []string{"in line"}, told)
	})
}
