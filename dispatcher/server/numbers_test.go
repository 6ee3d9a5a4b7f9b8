package server

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/dispatcher"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/dispatch/admission"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/wire/queue"
)

// version is a generation of a pipeline of one module, which no two generations have the
// same.
func version(n int) placement.Deployment {
	p := pipelines.Pipeline{
		Name: "p", SLO: time.Hour, Rate: 1, Inputs: []pipelines.Port{{Name: "x", Datatype: "FP32", Shape: []int64{1}}},
		Modules: []pipelines.Module{{Name: "m", Model: fmt.Sprint("v", n), Inputs: []pipelines.Binding{{Name: "x", From: pipelines.Ref{Port: "x"}}}}},
		Outputs: []pipelines.Output{{Name: "y", From: pipelines.Ref{Module: "m", Port: "y"}}},
	}
	of := placement.Deployment{Generation: n, Pipeline: p}
	of.Plan.Modules = []plan.Module{{Name: "m", Budget: time.Hour, Groups: []plan.Group{{Hardware: "cpu", Batch: 1, Concurrency: 1, Duration: time.Millisecond, Machines: 1}}}}
	return of
}

// follower is the dispatcher of a gateway that another decides for.
func follower(began time.Time) *dispatcher.Dispatcher {
	return dispatcher.New(dispatcher.Options{Now: func() dispatch.Time { return 1 + time.Since(began) }, Elsewhere: true, Record: -1})
}

// holder is a gateway; it notes what is given up.
type holder struct{ dropped []*dispatcher.Item }

func (*holder) Start(*dispatcher.Batch, []*dispatcher.Item, int) {}
func (h *holder) Drop(it *dispatcher.Item, _ dispatcher.Drop)    { h.dropped = append(h.dropped, it) }

// install puts a version in charge, and has an item of it come.
func (h *holder) install(t *testing.T, d *dispatcher.Dispatcher, n int) *dispatcher.Item {
	g, err := d.Compile(version(n))
	require.NoError(t, err)
	d.Install(g, nil, nil)
	it := &dispatcher.Item{Request: &dispatcher.Request{Generation: g, Gateway: h, Arrival: d.Now()}, Size: 1}
	d.Arrive(it)
	return it
}

// finish has an item's request leave, and its generation go.
func finish(d *dispatcher.Dispatcher, it *dispatcher.Item) {
	it.Request.End()
	d.Cancel(it)
	d.Leave(it.Request, d.Now(), admission.InTime)
	d.Forget(it.Request.Generation)
}

// TestNumbersOfModulesAreGivenBack has a gateway serve one module after the other by the
// decisions of a dispatcher elsewhere that takes three of one gateway at a time: before the
// numbers of modules were given back the connection ended after so many.
func TestNumbersOfModulesAreGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		s := New(dispatcher.New(dispatcher.Options{Now: func() dispatch.Time { return 1 + time.Since(began) }, Record: -1}), Options{Name: "d", Patience: -1, Modules: 3})
		s.Claim()
		near, far := net.Pipe()
		served := make(chan error, 1)
		go func() { served <- s.Serve(far) }()
		conn, err := queue.Open(near, queue.Self{Role: queue.Gateway, Name: "g", Patience: -1}, queue.Dispatcher, nil)
		require.NoError(t, err)
		d, h := follower(began), &holder{}
		go func() { _ = d.Obey(conn, h) }()
		synctest.Wait()

		const changes = 5000
		var before *dispatcher.Item
		for n := range changes {
			it := h.install(t, d, n+1)
			if before != nil {
				finish(d, before) // two of them are served at a time
			}
			before = it
			if n%50 == 0 {
				synctest.Wait()
				require.Equal(t, 1, s.Loads("p")[0].Held, "after %d changes", n)
			}
		}
		finish(d, before)
		synctest.Wait()
		require.Zero(t, s.Loads("p")[0].Held)
		require.Empty(t, h.dropped)
		select {
		case err := <-served:
			require.Fail(t, "the connection has ended", "%v", err)
		default:
		}
		require.Empty(t, s.generations)
		require.NoError(t, conn.Close())
		require.NoError(t, <-served)
	})
}

// TestALateWordNamesNoOtherModule has a dispatcher's message about an item arrive when its
// module is gone and another has its place, with an item of the same number: neither end takes
// it for that one.
func TestALateWordNamesNoOtherModule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, h := follower(time.Now()), &holder{}
		owner := own(t, d, h, 1)
		finish(d, h.install(t, d, 1))
		it := h.install(t, d, 2)
		synctest.Wait()
		told := owner.of(queue.Arrive)
		require.Len(t, told, 2)
		require.Equal(t, told[0].Item, told[1].Item)
		require.Equal(t, queue.Place(told[0].Station), queue.Place(told[1].Station))
		say := func(of queue.Message, kind queue.Kind) {
			_, err := owner.far.Write(queue.Append(nil, &queue.Message{Kind: kind, Station: of.Station, Item: of.Item, How: uint64(dispatcher.Late), Items: []queue.Ref{{Station: of.Station, Item: of.Item}}}))
			require.NoError(t, err)
			synctest.Wait()
		}
		say(told[0], queue.Start)
		say(told[0], queue.Drop)
		require.Empty(t, h.dropped, "it was about another")
		say(told[1], queue.Drop)
		require.Equal(t, []*dispatcher.Item{it}, h.dropped)
		_ = owner.near.Close()
		_ = owner.far.Close()
	})
}

// TestALateCancelNamesNoOtherModule is the same at the dispatcher.
func TestALateCancelNamesNoOtherModule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		s := New(dispatcher.New(dispatcher.Options{Now: func() dispatch.Time { return 1 + time.Since(began) }, Record: -1}), Options{Name: "d", Patience: -1})
		s.Claim()
		near, far := net.Pipe()
		served := make(chan error, 1)
		go func() { served <- s.Serve(far) }()
		go func() { _, _ = io.Copy(io.Discard, near) }()
		text, err := json.Marshal(version(1))
		require.NoError(t, err)
		cancel := func(station uint64) queue.Message {
			return queue.Message{Kind: queue.Cancel, Station: station, Item: 1 << 32}
		}
		tell := func(all ...queue.Message) {
			var frames []byte
			for _, m := range all {
				frames = queue.Append(frames, &m)
			}
			_, err := near.Write(frames)
			require.NoError(t, err)
			synctest.Wait()
		}
		_, err = near.Write([]byte("hpgq\x05\r\n\r\n"))
		require.NoError(t, err)
		tell(queue.Message{Kind: queue.Hello, Role: queue.Gateway, Text: []byte("g")},
			queue.Message{Kind: queue.Install, Generation: 1, Text: text},
			queue.Message{Kind: queue.Arrive, Generation: 1, Station: queue.Station(0, 1), Item: 1 << 32, Size: 1, Left: time.Hour, Timed: true},
			cancel(queue.Station(0, 0)))
		require.Equal(t, 1, s.Loads("p")[0].Held)
		tell(cancel(queue.Station(0, 1)))
		require.Zero(t, s.Loads("p")[0].Held)
		require.NoError(t, near.Close())
		<-served
	})
}
