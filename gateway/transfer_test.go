package gateway

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler"
	"github.com/harpagon/harpagon/scheduler/autoscale"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/wire/attach"
)

// far is a stream on which everything takes half a way longer, in each direction, and in
// order.
type far struct {
	attach.Stream
	way      time.Duration
	out, in  chan parcelled
	received sync.Once
}

type parcelled struct {
	m   *attach.Message
	err error
	at  time.Time
}

func distant(s attach.Stream, way time.Duration) *far {
	f := &far{Stream: s, way: way, out: make(chan parcelled, 64), in: make(chan parcelled, 64)}
	go func() {
		for p := range f.out {
			time.Sleep(time.Until(p.at))
			if f.Stream.Send(p.m) != nil {
				return
			}
		}
	}()
	return f
}

func (f *far) Send(m *attach.Message) error {
	f.out <- parcelled{m: m, at: time.Now().Add(f.way / 2)}
	return nil
}

func (f *far) Recv() (*attach.Message, error) {
	f.received.Do(func() {
		go func() {
			for {
				m, err := f.Stream.Recv()
				f.in <- parcelled{m, err, time.Now().Add(f.way / 2)}
				if err != nil {
					return
				}
			}
		}()
	})
	p := <-f.in
	time.Sleep(time.Until(p.at))
	return p.m, p.err
}

func (f *far) Close() error {
	close(f.out)
	return f.Stream.Close()
}

// TestASlowHostIsServedAsPlanned: with a host that is far away, a plan without the network
// delay breaks its promise, and one that includes it keeps it for every request. The delay is
// measured, for that host.
func TestASlowHostIsServedAsPlanned(t *testing.T) {
	const way = 30 * ms
	blind, seen := overAWay(t, way, 0)
	assert.Positive(t, blind.Late+blind.Dropped+blind.Refused, "%+v", blind)
	require.Len(t, seen, 1)
	assert.Equal(t, "h", seen[0].Host)
	assert.GreaterOrEqual(t, seen[0].P50, way)

	knowing, seen := overAWay(t, way, way)
	assert.Zero(t, knowing.Late+knowing.Dropped+knowing.Refused+knowing.Failed, "%+v", knowing)
	assert.Positive(t, knowing.Completed)
	assert.InDelta(t, way, seen[0].P99, float64(2*ms))
}

// overAWay serves two modules for some seconds at the planned rate, by a plan that counts
// on counted, on executors that are so far away.
func overAWay(t *testing.T, way, counted time.Duration) (m autoscale.Measures, seen []autoscale.HostTransfer) {
	synctest.Test(t, func(t *testing.T) {
		declared := single(160 * ms)
		declared.Rate = 60
		var points []pipelines.Point
		took := func(n int) time.Duration { return time.Duration(15+5*n) * ms }
		for b := 1; b <= 8; b++ {
			points = append(points, pipelines.Point{Hardware: "cpu", Batch: b, Concurrency: 1, Duration: took(b)})
		}
		declared.Modules[0].Profile.Points = points
		second := pipelines.Module{Name: "n", Profile: declared.Modules[0].Profile, Inputs: []pipelines.Binding{bind("x", "m", "y")}}
		declared.Modules = append(declared.Modules, second)
		declared.Outputs[0].From = ref("n", "y")
		spec := scheduler.Spec{Pipeline: &declared, Hardware: []pipelines.Hardware{{Name: "cpu", Price: 1}}}
		made := scheduler.Solve([]scheduler.Spec{spec}, scheduler.Fleet{Transfer: counted}, scheduler.Limits{})[0]
		d := spec.Deploy(1, made)
		var devices []placement.Device
		for i := range 16 {
			devices = append(devices, placement.Device{Host: "h", Name: "cpu/" + string(rune('a'+i)), Hardware: "cpu"})
		}
		placed, err := placement.Place(placement.Request{Pipeline: declared, Plan: d.Plan, Devices: devices})
		require.NoError(t, err)
		d.Slots = placed.Slots

		g := recorded(t, Options{})
		workers := map[string]*worker{}
		for _, s := range d.Slots {
			w := &worker{kind: addOne, delay: took, hello: attach.Hello{
				Executor: s.Executor, Pipeline: s.Pipeline, Module: s.Module, Host: s.Host, Device: s.Device, Hardware: s.Hardware, MaxBatch: s.Batch, Concurrency: 1,
			}}
			w.result = func(r *attach.Result) { r.Compute = took(len(r.Items)) }
			w.far = way
			w.attach(g)
			workers[s.Executor] = w
		}
		require.NoError(t, g.Prepare(context.Background(), d))
		require.NoError(t, g.Install(context.Background(), d))
		var group sync.WaitGroup
		for i := range 60 * 8 {
			group.Go(func() {
				time.Sleep(time.Duration(i) * time.Second / 60)
				_, _ = ask(context.Background(), g)
			})
		}
		group.Wait()
		m = g.Measures("p")
		seen = m.Module("m").Transfers
		stop(g, workers)
		time.Sleep(time.Minute)
	})
	return m, seen
}
