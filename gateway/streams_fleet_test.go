package gateway

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/dispatcher"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/dispatch/admission"
	"github.com/harpagon/harpagon/wire"
)

// cameras is a fleet that serves so many streams, by two gateways.
func cameras(t *testing.T, count int) *fleet {
	p := single(time.Minute)
	p.Stream = pipelines.Stream{Rate: 10, Count: count}
	p.Rate = p.Stream.Total()
	return newFleet(t, 2, 1, p)
}

// frame sends one by a gateway.
func (f *fleet) frame(gateway int, stream string, last bool) error {
	_, err := f.gateways[gateway].Infer(context.Background(), &wire.InferRequest{Pipeline: f.deployed.Name(), Inputs: vector(1, float32(gateway)), Frame: wire.Frame{Stream: stream, Last: last}})
	return err
}

// refused holds that a stream has no place at any gateway.
func (f *fleet) refused(stream string) {
	f.t.Helper()
	for i := range f.gateways {
		if !f.lost[i] {
			require.ErrorContains(f.t, f.frame(i, stream, false), "as many streams are open as are planned for, 2, and 0 more fit")
		}
	}
}

// goesOn sends the next frame of a stream, once it may come.
func (f *fleet) goesOn(gateway int, stream string) {
	f.t.Helper()
	require.Eventually(f.t, func() bool { return f.frame(gateway, stream, false) == nil }, 20*time.Second, 30*time.Millisecond)
}

// Two gateways let in as many streams as one would. The places of one that is lost are free, and
// its streams go on at the other.
func TestSeveralGatewaysCountStreamsTogether(t *testing.T) {
	f := cameras(t, 2)
	f.decide().Own("", 1)
	require.NoError(t, f.frame(0, "a", false))
	require.NoError(t, f.frame(1, "b", false))
	f.refused("c")
	require.ErrorIs(t, f.frame(1, "c", false), wire.ErrOverloaded)
	assert.Equal(t, 1, f.shares(0).Open)
	f.lose(0)
	f.goesOn(1, "c")
	f.refused("a")
	f.goesOn(1, "b")
	require.Eventually(t, func() bool { return f.frame(1, "c", true) == nil }, 20*time.Second, 30*time.Millisecond)
	f.goesOn(1, "a")
	f.refused("d")
}

// A stream goes on at another gateway at once, in the place that it has.
func TestAStreamMovesToAnotherGateway(t *testing.T) {
	f := cameras(t, 2)
	f.decide().Own("", 1)
	require.NoError(t, f.frame(0, "a", false))
	require.NoError(t, f.frame(0, "b", false))
	require.NoError(t, f.frame(1, "a", false))
	require.ErrorContains(t, f.frame(0, "a", false), "a stream of this name sends by another gateway")
	f.refused("c")
	assert.Equal(t, 1, f.shares(0).Open)
	assert.Equal(t, 1, f.shares(1).Open)
}

// A gateway that has no executors takes no stream from another, which may have them back sooner than the stream could
// move again.
func TestAStreamStaysWhereNoExecutorsAre(t *testing.T) {
	f := cameras(t, 2)
	f.decide().Own("", 1)
	require.NoError(t, f.frame(0, "a", false))
	f.cancel()
	require.Eventually(t, func() bool {
		return f.gateways[1].lacks(f.gateways[1].pipeline("p").current.Load(), f.gateways[1].now()) != nil
	}, 20*time.Second, time.Millisecond)
	require.ErrorContains(t, f.frame(1, "a", false), "no executor is attached")
	assert.Equal(t, 1, f.shares(0).Open)
	assert.Zero(t, f.shares(1).Open)
}

// A new dispatcher knows which streams have places before it gives any to others.
func TestPlacesSurviveTheirDispatcher(t *testing.T) {
	f := cameras(t, 2)
	first, second := f.decide(), f.decide()
	first.Own("", 1)
	require.NoError(t, f.frame(0, "a", false))
	require.NoError(t, f.frame(1, "b", false))
	first.kill()
	f.goesOn(0, "a")
	f.goesOn(1, "b")
	f.refused("c")
	assert.NotEmpty(t, second.Owns())
	second.kill() // nobody decides
	ctx, done := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer done()
	_, err := f.gateways[0].Infer(ctx, &wire.InferRequest{Pipeline: f.deployed.Name(), Inputs: vector(1, 0), Frame: wire.Frame{Stream: "d"}})
	require.ErrorIs(t, err, wire.ErrDeadline)
	require.ErrorContains(t, err, "no dispatcher has given its stream a place")
}

// Streams come and go at both gateways, one of which is lost; never are more open than planned.
func TestStreamsComeAndGoAtTwoGateways(t *testing.T) {
	f := cameras(t, 3)
	f.decide().Own("", 1)
	var senders sync.WaitGroup
	for i := range 8 {
		senders.Go(func() {
			for n := range 20 {
				if f.frame((i+n)%2, string(rune('a'+i)), n%5 == 4) != nil {
					time.Sleep(5 * time.Millisecond)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { senders.Wait(); close(done) }()
	for {
		select {
		case <-done:
			return
		default:
		}
		if open := f.shares(0).Open + f.shares(1).Open; open > 3 { // one moves while we look
			time.Sleep(50 * time.Millisecond)
			assert.LessOrEqual(t, min(open, f.shares(0).Open+f.shares(1).Open), 3)
		}
		time.Sleep(time.Millisecond)
	}
}

func (f *fleet) shares(gateway int) admission.StreamShares {
	s, _ := f.gateways[gateway].Streams(f.deployed.Name())
	return s
}

// deaf is a holder of places who hears only when it is let.
type deaf chan struct{}

func (d deaf) Placed(dispatcher.Stream, admission.Place) { <-d }

// A stream whose name comes again while the place of the one before is given back has a place of its own,
// which counts.
func TestAStreamComesAgainWhileItCloses(t *testing.T) {
	f := cameras(t, 1)
	f.decide().Own("", 1)
	g := f.gateways[0]
	s, at := &g.pipeline(f.deployed.Name()).streams, dispatcher.Stream{Service: f.deployed.Name(), Pipeline: f.deployed.Pipeline.Name}
	require.NoError(t, f.frame(0, "a", false))
	hears, asks := make(deaf), make(chan struct{})
	go func() {
		defer close(asks)
		g.queue.AdmitStream(at, hears, false, 0) // who tells it, closes no stream meanwhile
	}()
	require.Eventually(t, func() bool { return f.frame(0, "a", true) == nil }, 20*time.Second, 30*time.Millisecond)
	require.Eventually(t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.places) == 0
	}, 20*time.Second, time.Millisecond)
	again := make(chan error, 1)
	go func() { again <- f.frame(0, "a", false) }()
	time.Sleep(20 * time.Millisecond)
	close(hears)
	<-asks
	require.NoError(t, <-again)
	f.goesOn(0, "a")
	require.ErrorContains(t, f.frame(1, "b", false), "as many streams are open as are planned for, 1")
}

// A stream that comes while its service goes is refused, whether somebody decides for it or not, and
// nothing is left of it.
func TestAStreamComesWhileItsServiceGoes(t *testing.T) {
	f := cameras(t, 2)
	g := f.gateways[0]
	waits := make(chan error, 1)
	go func() { waits <- f.frame(0, "a", false) }()
	require.Eventually(t, func() bool { return f.asked(0) == 1 }, 20*time.Second, time.Millisecond)
	g.queue.Remove(f.deployed.Name())
	require.ErrorContains(t, <-waits, "its pipeline has just been removed")
	require.ErrorContains(t, f.frame(0, "b", false), "its pipeline has just been removed")
	f.decide().Own("", 1)
	require.NoError(t, f.frame(1, "a", false))
	require.ErrorContains(t, f.frame(0, "b", false), "its pipeline has just been removed")
	assert.Zero(t, f.asked(0))
}

// asked is how many places a gateway has asked for, or has.
func (f *fleet) asked(gateway int) int {
	s := &f.gateways[gateway].pipeline(f.deployed.Name()).streams
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.places)
}

// Streams whose frames give up before somebody decides leave nothing: others get the places.
func TestStreamsThatNobodyWaitsFor(t *testing.T) {
	f := cameras(t, 2)
	wait := func(ctx context.Context, stream string) {
		_, err := f.gateways[0].Infer(ctx, &wire.InferRequest{Pipeline: f.deployed.Name(), Inputs: vector(1, 0), Frame: wire.Frame{Stream: stream}})
		assert.Error(t, err)
	}
	var group sync.WaitGroup
	for _, stream := range []string{"", "", "", "a", "a", "b"} {
		group.Go(func() {
			ctx, done := context.WithTimeout(context.Background(), 20*time.Millisecond)
			defer done()
			wait(ctx, stream)
		})
	}
	ctx, gone := context.WithCancel(context.Background())
	defer gone()
	go wait(ctx, "b")
	group.Wait()
	require.Eventually(t, func() bool { return f.asked(0) <= 1 }, 20*time.Second, time.Millisecond)
	gone()
	require.Eventually(t, func() bool { return f.asked(0) == 0 }, 20*time.Second, time.Millisecond)
	f.decide().Own("", 1)
	require.NoError(t, f.frame(0, "c", false))
	require.NoError(t, f.frame(1, "d", false))
	f.refused("e")
}

// A frame whose stream ends after it learned of its place, and before it goes in, begins another.
func TestAStreamEndsBeforeAFrameGoesIn(t *testing.T) {
	f := cameras(t, 1)
	s := &f.gateways[0].pipeline(f.deployed.Name()).streams
	answer := make(chan error, 1)
	go func() { answer <- f.frame(0, "a", false) }()
	require.Eventually(t, func() bool { return f.asked(0) == 1 }, 20*time.Second, time.Millisecond)
	s.mu.Lock()
	for name, place := range s.places {
		place.told = admission.Place{Open: true, Planned: 1}
		close(place.settled)
		delete(s.places, name)
	}
	s.mu.Unlock()
	f.decide().Own("", 1)
	require.NoError(t, <-answer)
}
