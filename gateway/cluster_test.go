package gateway

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/wire"
)

// adders is a pipeline of so many adders, one after the other.
func adders(name string, n int) pipelines.Pipeline {
	p := pipelines.Pipeline{Name: name, SLO: 2 * time.Second, Rate: 50, Inputs: []pipelines.Port{port("x", "FP32", 2)}}
	from := ref("", "x")
	for i := range n {
		m := pipelines.Module{Name: fmt.Sprintf("m%d", i), Fanout: 1, Inputs: []pipelines.Binding{{Name: "x", From: from}}}
		for _, batch := range []int{1, 2, 4, 8} {
			m.Profile.Points = append(m.Profile.Points, pipelines.Point{Hardware: "cpu", Batch: batch, Concurrency: 1, Duration: 2 * time.Millisecond})
		}
		p.Modules, from = append(p.Modules, m), ref(m.Name, "y")
	}
	p.Outputs = []pipelines.Output{{Name: "y", From: from}}
	return p
}

// clustered is a cluster with a part for each list of pipelines, with two devices each.
func clustered(t testing.TB, generation int, dispatch string, before []placement.Slot, parts ...[]pipelines.Pipeline) placement.Deployment {
	d := placement.Deployment{Generation: generation, Cluster: &placement.Cluster{Dispatch: dispatch, Hardware: "cpu"}}
	d.Pipeline.Name = "vision"
	var devices []placement.Device
	for i, members := range parts {
		part := placement.Part{Name: fmt.Sprintf("vision-%d", i+1), Devices: 2}
		for _, p := range members {
			m := placement.Member{Pipeline: p, Budgets: map[string]time.Duration{}}
			for _, module := range p.Modules {
				m.Budgets[module.Name] = p.SLO / time.Duration(len(p.Modules))
			}
			part.Members = append(part.Members, m)
		}
		d.Cluster.Parts = append(d.Cluster.Parts, part)
	}
	for i := range 4 {
		devices = append(devices, placement.Device{Host: "h", Name: fmt.Sprintf("d%d", i), Hardware: "cpu"})
	}
	placed, err := placement.PlaceCluster(placement.ClusterRequest{Cluster: *d.Cluster, Devices: devices, Actual: before})
	require.NoError(t, err)
	d.Slots = placed.Slots
	return d
}

// askMember has a pipeline of n adders add to a number.
func askMember(g *Gateway, name string, n int, x float32) error {
	r, err := g.Infer(context.Background(), &wire.InferRequest{Pipeline: name, Inputs: vector(x, 7)})
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if v := floats(r.Outputs[0].Tensor); v[0] != x+float32(n) || v[1] != 7 {
		return fmt.Errorf("%s: %v for %v", name, v, x)
	}
	return nil
}

// keepAsking sends requests to all pipelines through all gateways until stop is closed, and
// returns the errors.
func (f *fleet) keepAsking(stop <-chan struct{}, lengths map[string]int) (asked func() int64, wrong func() []error) {
	var n atomic.Int64
	var mu sync.Mutex
	var errs []error
	var under sync.WaitGroup
	for name, length := range lengths {
		for i := range 8 {
			g := f.gateways[i%len(f.gateways)]
			under.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					if err := askMember(g, name, length, float32(n.Add(1))); err != nil {
						mu.Lock()
						errs = append(errs, err)
						mu.Unlock()
					}
				}
			})
		}
	}
	return n.Load, func() []error { under.Wait(); return errs }
}

// The pipelines of a cluster are served by any of its devices; the policy changes while
// they are, and so does the part that serves one of them, on another dispatcher. No
// request is lost.
func TestAClusterServes(t *testing.T) {
	a, b, c := adders("a", 2), adders("b", 1), adders("c", 3)
	lengths := map[string]int{"a": 2, "b": 1, "c": 3}
	d := clustered(t, 1, "adaptive", nil, []pipelines.Pipeline{a, b}, []pipelines.Pipeline{c})
	f := fleetOf(t, 2, d)
	first, second := f.decide(), f.decide()
	first.Own("vision-1", 1)
	second.Own("vision-2", 2)

	stop := make(chan struct{})
	asked, wrong := f.keepAsking(stop, lengths)
	f.more(200, asked)
	for i, policy := range []string{"eager", "clockwork", "nexus", "deferred", "adaptive"} {
		next := clustered(t, 2+i, policy, d.Slots, []pipelines.Pipeline{a, b}, []pipelines.Pipeline{c})
		require.Empty(t, placement.Reconcile(next.Slots, d.Slots).Start, "the executors stay")
		f.install(next, nil)
		f.more(200, asked)
	}
	moved := clustered(t, 9, "adaptive", d.Slots, []pipelines.Pipeline{a}, []pipelines.Pipeline{c, b})
	changes := placement.Reconcile(moved.Slots, d.Slots)
	require.Len(t, changes.Start, 4, "both parts have other modules now")
	f.install(moved, changes.Start)
	f.more(200, asked)
	var old []string
	for _, s := range changes.Stop {
		old = append(old, s.Executor)
	}
	for _, g := range f.gateways {
		ctx, done := context.WithTimeout(context.Background(), time.Minute)
		require.NoError(t, g.Release(ctx, "vision", old))
		done()
	}
	f.more(200, asked)
	close(stop)
	for _, err := range wrong() {
		// The last of a load wait for others that do not come, as long as may be.
		require.ErrorIs(t, err, wire.ErrDeadline)
	}

	g := f.gateways[0]
	assert.Equal(t, []string{"vision"}, g.Services())
	names, err := g.Pipelines(context.Background())
	require.NoError(t, err)
	assert.Equal(t, []string{"a", "b", "c"}, names)
	m := g.Measures("vision")
	require.Len(t, m.Members, 3)
	assert.Equal(t, pipelines.KindCluster, m.Kind)
	assert.Equal(t, m.Members[0].Arrived+m.Members[1].Arrived+m.Members[2].Arrived, m.Arrived)
	assert.NotNil(t, m.Module("c/m2"))
	var e *wire.Error
	_, err = g.Infer(context.Background(), &wire.InferRequest{Pipeline: "vision", Inputs: vector(1, 2)})
	require.ErrorAs(t, err, &e)
	assert.Equal(t, wire.CodeInvalid, e.Code)
	assert.Contains(t, e.Reason, "send requests to one of its pipelines: a, c, b")
	for _, g := range f.gateways {
		require.NoError(t, g.Remove(context.Background(), "vision", placement.Age{}))
		assert.Empty(t, g.Services())
		assert.ErrorIs(t, askMember(g, "a", 2, 1), wire.ErrNotFound)
	}
}

// Streams of a pipeline keep their places when another part of its cluster serves it: no more than are planned for
// are open before and after.
func TestStreamsMoveWithTheirPart(t *testing.T) {
	a, b := adders("a", 1), adders("b", 1)
	a.Stream = pipelines.Stream{Rate: 1, Count: 2, Jitter: 900 * time.Millisecond}
	a.Rate = a.Stream.Total()
	d := clustered(t, 1, "adaptive", nil, []pipelines.Pipeline{a, b})
	f := fleetOf(t, 1, d)
	first, second := f.decide(), f.decide()
	first.Own("vision-1", 1)
	second.Own("vision-2", 2)
	g := f.gateways[0]
	send := func(stream string) error {
		_, err := g.Infer(context.Background(), &wire.InferRequest{Pipeline: "a", Inputs: vector(1, 2), Frame: wire.Frame{Stream: stream}})
		return err
	}
	require.NoError(t, send("one"))
	require.NoError(t, send("two"))
	require.ErrorIs(t, send("three"), wire.ErrOverloaded)
	moved := clustered(t, 2, "adaptive", d.Slots, []pipelines.Pipeline{b}, []pipelines.Pipeline{a})
	f.install(moved, placement.Reconcile(moved.Slots, d.Slots).Start)
	for _, stream := range []string{"three", "four"} {
		err := send(stream)
		require.ErrorIs(t, err, wire.ErrOverloaded)
		require.ErrorContains(t, err, "as many streams are open as are planned for, 2")
	}
	require.NoError(t, send("one"))
	require.NoError(t, send("two"))
	shares, _ := g.Streams("a")
	assert.Equal(t, 2, shares.Open)
}

// What is served by itself, or in another cluster, is not served in a second place.
func TestAPipelineIsInOneCluster(t *testing.T) {
	a, b := adders("a", 1), adders("b", 1)
	f := fleetOf(t, 1, clustered(t, 1, "adaptive", nil, []pipelines.Pipeline{a}))
	f.decide().Own("", 1)
	g := f.gateways[0]
	other := clustered(t, 1, "adaptive", nil, []pipelines.Pipeline{b, a})
	other.Pipeline.Name = "sound"
	assert.ErrorContains(t, g.Install(context.Background(), other), `pipeline "a" is in cluster "vision" already`)
	assert.ErrorContains(t, g.Install(context.Background(), deployment(a, 1, nil)), `pipeline "a" is served in cluster "vision"; take it out of that first`)
	older := clustered(t, 0, "adaptive", nil, []pipelines.Pipeline{a})
	assert.ErrorContains(t, g.Install(context.Background(), older), "generation 0 is older")
	require.NoError(t, askMember(g, "a", 1, 3))

	f = newFleet(t, 1, 1, adders("b", 1))
	assert.ErrorContains(t, f.gateways[0].Install(context.Background(), other), `pipeline "b" is served by itself, and cluster "sound" is to serve it, too`)
}
