package server

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/dispatcher"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/dispatch/admission"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/wire/queue"
)

// placed notes which streams have a place, and how often one was refused.
type placed struct {
	open    map[string]bool
	refused int
}

func (p *placed) Placed(of dispatcher.Stream, place admission.Place) {
	if p.open[of.Name] = place.Open; !place.Open {
		delete(p.open, of.Name)
		p.refused++
	}
}

// filmed is a service of so many streams.
func filmed(t *testing.T, d *dispatcher.Dispatcher, count int) *dispatcher.Generation {
	of := version(1)
	of.Pipeline.Stream = pipelines.Stream{Rate: 1, Count: count}
	of.Pipeline.Rate = of.Pipeline.Stream.Total()
	g, err := d.Compile(of)
	require.NoError(t, err)
	d.Install(g, nil, nil)
	return g
}

// Dispatchers are upgraded while streams are open: an older one gives no places, and the gateway does
// so itself. The next learns of those that are open, and of no others; and the other way round.
func TestPlacesBesideAnOlderDispatcher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, h, to := follower(time.Now()), &holder{}, &placed{open: map[string]bool{}}
		g := filmed(t, d, 2)
		stream := func(name string) dispatcher.Stream { return dispatcher.Stream{Service: "p", Pipeline: "p", Name: name} }
		d.OpenStream(g, stream("a"), to)
		require.Empty(t, to.open, "no dispatcher decides")
		first := own(t, d, h, 1)
		for _, name := range []string{"b", "c", "d"} {
			d.OpenStream(g, stream(name), to)
		}
		require.Equal(t, map[string]bool{"a": true, "b": true}, to.open)
		require.Equal(t, 2, to.refused)
		second := ownAs(t, d, h, 2, "places")
		asked := second.of(queue.Ask)
		require.Len(t, asked, 2)
		for _, m := range asked {
			require.True(t, m.Again, "it has a place")
			require.Contains(t, []string{"p\x00a", "p\x00b"}, string(m.Token))
		}
		d.CloseStream(stream("a"), to)
		synctest.Wait()
		require.Len(t, second.of(queue.Shut), 1)
		third := own(t, d, h, 3)
		d.OpenStream(g, stream("c"), to)
		d.OpenStream(g, stream("d"), to)
		require.Equal(t, 3, to.refused, "b and c are open")
		for _, o := range []*owning{first, second, third} {
			_ = o.far.Close()
		}
		require.Empty(t, slices.Concat(first.of(queue.Ask), third.of(queue.Ask)))
	})
}

// Where an update plans for fewer streams, those that opened last lose their places at once, also where
// their pipeline is in a cluster.
func TestAnUpdatePlansFewerStreams(t *testing.T) {
	alone := func(count int) placement.Deployment {
		of := version(count)
		of.Pipeline.Stream = pipelines.Stream{Rate: 1, Count: count}
		of.Pipeline.Rate = of.Pipeline.Stream.Total()
		return of
	}
	inCluster := func(count int) placement.Deployment {
		of := clustered(models)[0]
		of.Generation, of.Slots = count, nil
		p := &of.Cluster.Parts[0].Members[0].Pipeline
		p.Name, p.Stream = "p", pipelines.Stream{Rate: 1, Count: count}
		p.Rate = p.Stream.Total()
		return of
	}
	for name, of := range map[string]func(int) placement.Deployment{"alone": alone, "in a cluster": inCluster} {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			d := dispatcher.New(dispatcher.Options{Now: func() dispatch.Time { return 1 + time.Since(began) }, Record: -1})
			to := &placed{open: map[string]bool{}}
			for _, count := range []int{3, 2, 1} {
				g, err := d.Compile(of(count))
				require.NoError(t, err)
				d.Install(g, nil, nil)
				for _, stream := range []string{"a", "b", "c"}[len(to.open)+to.refused:] {
					d.AdmitStream(dispatcher.Stream{Service: g.Deployment.Name(), Pipeline: "p", Name: stream}, to, false, 0)
				}
				require.Len(t, to.open, count)
				require.Equal(t, 3-count, to.refused)
			}
		})
	}
}

// A server that comes to own all services keeps the places of one that it owns by a higher epoch, which
// gateways do not report again.
func TestPlacesOfAServiceThatIsOwnedAlready(t *testing.T) {
	began := time.Now()
	d := dispatcher.New(dispatcher.Options{Now: func() dispatch.Time { return 1 + time.Since(began) }, Record: -1})
	filmed(t, d, 1)
	s, to := New(d, Options{}), &placed{open: map[string]bool{}}
	stream := func(name string) dispatcher.Stream { return dispatcher.Stream{Service: "p", Pipeline: "p", Name: name} }
	s.Own("p", 5)
	d.AdmitStream(stream("a"), to, false, 0)
	s.Own("", 3)
	d.AdmitStream(stream("b"), to, false, 0)
	require.Equal(t, map[string]bool{"a": true}, to.open)
	s.Own("", 7)
	d.AdmitStream(stream("b"), to, false, 0)
	require.True(t, to.open["b"], "another may have decided since")
}
