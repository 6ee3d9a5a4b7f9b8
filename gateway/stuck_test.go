package gateway

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/attach"
)

// moody is an engine that takes a millisecond, hangs over the number askHang, and is lost over
// the number askDeath.
type moody struct {
	mu    sync.Mutex
	sizes []int
	loads time.Duration // how long it takes to load
}

const askHang = -17

func (*moody) Name() string    { return "moody" }
func (*moody) Version() string { return "1" }

func (m *moody) Load(context.Context, executors.Model) (executors.Instance, error) {
	m.mu.Lock()
	loads := m.loads
	m.mu.Unlock()
	time.Sleep(loads)
	return m, nil
}

func (*moody) Signature() pipelines.Signature { return addOne.sig }
func (*moody) Memory() int64                  { return 0 }
func (*moody) Close() error                   { return nil }

func (m *moody) Run(ctx context.Context, items [][]wire.Tensor) ([][]wire.Tensor, error) {
	m.mu.Lock()
	m.sizes = append(m.sizes, len(items))
	m.mu.Unlock()
	time.Sleep(time.Millisecond)
	answers := make([][]wire.Tensor, len(items))
	for i, in := range items {
		switch x := floats(in[0])[0]; x {
		case askHang:
			<-ctx.Done()
			return nil, ctx.Err()
		case askDeath:
			return nil, wire.Errorf(wire.CodeUnavailable, "m", "a crash")
		default:
			answers[i] = []wire.Tensor{wire.FromFloat32([]float32{x + 1, 0}, 2)}
		}
	}
	return answers, nil
}

// moodies is a gateway with executors of a moody engine, for each deployment on the devices
// named.
func moodies(t *testing.T, all map[*placement.Deployment][]string) (*Gateway, *moody) {
	g, engine := recorded(t, Options{}), &moody{}
	host := &executors.Host{
		Name: "h", Engines: []executors.Engine{engine}, ForceEngine: "moody",
		Dial: func(context.Context, string) (attach.Stream, error) {
			ours, theirs := attach.Pipe()
			go func() { _ = g.Attach(theirs) }()
			return ours, nil
		},
	}
	ctx, cancel := context.WithCancel(context.Background())
	var ends sync.WaitGroup
	for d, devices := range all {
		for i := range d.Slots {
			d.Slots[i].Device, d.Slots[i].Executor = devices[i], fmt.Sprint(d.Pipeline.Name, i)
			slot := d.Slots[i]
			ends.Go(func() { _ = host.RunExecutor(ctx, executors.NewTask(*d, slot, "here"), executors.Observer{}) })
		}
		require.NoError(t, g.Prepare(ctx, *d))
		require.NoError(t, g.Install(ctx, *d))
	}
	t.Cleanup(func() {
		cancel()
		ends.Wait()
		_ = g.Close()
	})
	return g, engine
}

// profiledAs is a pipeline of one module that takes a millisecond.
func profiledAs(name string, slo time.Duration, executors, batch int) *placement.Deployment {
	p := single(slo)
	p.Name = name
	for b := range batch {
		p.Modules[0].Profile.Points = append(p.Modules[0].Profile.Points, pipelines.Point{Hardware: "cpu", Batch: b + 1, Duration: time.Millisecond})
	}
	d := deployment(p, 1, map[string]spec{"m": {executors: executors, batch: batch, window: 5 * time.Millisecond, duration: time.Millisecond}})
	return &d
}

func askAll(g *Gateway, pipeline string, numbers ...float32) (took []time.Duration, errs []error) {
	took, errs = make([]time.Duration, len(numbers)), make([]error, len(numbers))
	var under sync.WaitGroup
	for i, x := range numbers {
		under.Go(func() {
			began := time.Now()
			_, errs[i] = g.Infer(context.Background(), &wire.InferRequest{Pipeline: pipeline, Inputs: vector(x, 0)})
			took[i] = time.Since(began)
		})
	}
	under.Wait()
	return took, errs
}

// TestOverAnEngineThatHangs: the request is answered at its deadline, its engine replaced, and
// others that share the device go elsewhere from then on.
func TestOverAnEngineThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs, shares := profiledAs("hangs", 100*time.Millisecond, 1, 1), profiledAs("shares", 100*time.Millisecond, 2, 1)
		g, _ := moodies(t, map[*placement.Deployment][]string{hangs: {"gpu/0"}, shares: {"gpu/0", "gpu/1"}})
		began := time.Now()
		took, errs := askAll(g, "hangs", askHang)
		require.ErrorIs(t, errs[0], wire.ErrDeadline)
		require.ErrorContains(t, errs[0], "far longer")
		require.Equal(t, 100*time.Millisecond, took[0])
		time.Sleep(time.Millisecond)
		for time.Since(began) < 900*time.Millisecond { // the engine is not given up before a second
			_, errs = askAll(g, "shares", 1, 2, 3, 4)
			for _, err := range errs {
				require.NoError(t, err, "%v after the hang", time.Since(began))
			}
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(1500 * time.Millisecond) // and no request of its is left to hang over again
		_, errs = askAll(g, "hangs", 1)
		require.NoError(t, errs[0])
		time.Sleep(time.Second)
		for range 20 {
			_, errs = askAll(g, "shares", 1, 2)
			require.NoError(t, errs[0])
		}
		var on []string
		for _, b := range g.Measures("shares").Modules[0].Executors {
			if b.Batches > 0 {
				on = append(on, b.Executor)
			}
		}
		require.Equal(t, []string{"shares0", "shares1"}, on, "the device is used again")
	})
}

// TestMatesOfARequestThatKillsAreAnswered holds that of a batch with which an engine is lost only
// the request fails that it is lost over, wherever it stands.
func TestMatesOfARequestThatKillsAreAnswered(t *testing.T) {
	for at := range 8 {
		synctest.Test(t, func(t *testing.T) {
			d := profiledAs("p", 10*time.Second, 1, 8)
			g, _ := moodies(t, map[*placement.Deployment][]string{d: {"gpu/0"}})
			numbers := []float32{1, 2, 3, 4, 5, 6, 7, 8}
			numbers[at] = askDeath
			_, errs := askAll(g, "p", numbers...)
			for i, err := range errs {
				if i == at {
					require.ErrorIs(t, err, wire.ErrUnavailable)
				} else {
					require.NoError(t, err, "beside one at %d", at)
				}
			}
		})
	}
}

// TestARequestThatKillsWaitsForOthers: what may have cost an engine is computed after all that
// wait and have not, so that they wait for one engine to be loaded and not for two.
func TestARequestThatKillsWaitsForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, engine := moodies(t, map[*placement.Deployment][]string{profiledAs("p", 1500*time.Millisecond, 1, 1): {"gpu/0"}})
		engine.mu.Lock()
		engine.loads = time.Second
		engine.mu.Unlock()
		var killed error
		var under sync.WaitGroup
		under.Go(func() { _, errs := askAll(g, "p", askDeath); killed = errs[0] })
		time.Sleep(500 * time.Microsecond) // it runs
		_, errs := askAll(g, "p", 1, 2, 3, 4, 5, 6, 7)
		under.Wait()
		require.ErrorIs(t, killed, wire.ErrUnavailable)
		for i, err := range errs {
			require.NoError(t, err, "of %d", i+1)
		}
	})
}
