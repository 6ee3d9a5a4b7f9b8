package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/dispatcher"
	"github.com/harpagon/harpagon/dispatcher/server"
	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/dispatch/recording"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/attach"
)

// adder is an engine that adds one to the first number of a vector and gives the second
// back. The second identifies the gateway that the request came through.
type adder struct {
	slow  time.Duration
	mixed atomic.Int64 // batches with requests of several gateways
}

func (*adder) Name() string    { return "adder" }
func (*adder) Version() string { return "1" }

func (a *adder) Load(context.Context, executors.Model) (executors.Instance, error) { return a, nil }

func (*adder) Signature() pipelines.Signature { return addOne.sig }
func (*adder) Memory() int64                  { return 0 }
func (*adder) Close() error                   { return nil }

func (a *adder) Run(_ context.Context, items [][]wire.Tensor) ([][]wire.Tensor, error) {
	time.Sleep(a.slow)
	answers := make([][]wire.Tensor, len(items))
	seen := map[float32]bool{}
	for i, in := range items {
		v := floats(in[0])
		seen[v[1]] = true
		answers[i] = []wire.Tensor{wire.FromFloat32([]float32{v[0] + 1, v[1]}, 2)}
	}
	if len(seen) > 1 {
		a.mixed.Add(1)
	}
	return answers, nil
}

// fleet is several gateways, dispatchers and the executors of a host, joined by pipes.
type fleet struct {
	t        testing.TB
	engine   *adder
	host     *executors.Host
	gateways []*Gateway
	deployed placement.Deployment
	life     context.Context // of executors
	cancel   context.CancelFunc
	ends     sync.WaitGroup

	mu      sync.Mutex
	servers []*decider
	streams [][]attach.Stream // of executors, by gateway
	conns   [][]net.Conn      // to dispatchers, by gateway
	lost    map[int]bool      // gateways
}

// decider is one dispatcher.
type decider struct {
	*server.Server
	queues *dispatcher.Dispatcher
	conns  []net.Conn

	cut     bool // off from executors
	streams []attach.Stream
}

func newFleet(t testing.TB, gateways, n int, p pipelines.Pipeline) *fleet {
	specs := map[string]spec{}
	for _, m := range p.Modules {
		specs[m.Name] = spec{executors: n, batch: 8, window: 5 * time.Millisecond, duration: 2 * time.Millisecond}
	}
	return fleetOf(t, gateways, deployment(p, 1, specs))
}

func fleetOf(t testing.TB, gateways int, d placement.Deployment) *fleet {
	f := &fleet{t: t, deployed: d, engine: &adder{slow: time.Millisecond}, lost: make(map[int]bool)}
	f.streams, f.conns = make([][]attach.Stream, gateways), make([][]net.Conn, gateways)
	f.host = &executors.Host{
		Name: "h", Engines: []executors.Engine{f.engine}, ForceEngine: "adder",
		Retry: executors.Backoff{Min: time.Millisecond, Max: 10 * time.Millisecond}, Dial: f.dial,
	}
	for range gateways {
		f.gateways = append(f.gateways, New(Options{Dispatched: true, Grace: time.Minute}))
	}
	f.host.Gateways.Set(f.addresses())
	ctx, cancel := context.WithCancel(context.Background())
	f.cancel, f.life = cancel, ctx
	f.install(d, d.Slots)
	t.Cleanup(f.end)
	return f
}

// install starts executors, and has the gateways serve a deployment.
func (f *fleet) install(d placement.Deployment, fresh []placement.Slot) {
	for _, slot := range fresh {
		f.ends.Go(func() {
			err := f.host.RunExecutor(f.life, executors.NewTask(d, slot, "g0"), executors.Observer{})
			if err != nil && f.life.Err() == nil {
				f.t.Error(err)
			}
		})
	}
	ready, done := context.WithTimeout(context.Background(), time.Minute)
	defer done()
	for _, g := range f.gateways {
		require.NoError(f.t, g.Prepare(ready, d))
	}
	for _, g := range f.gateways {
		require.NoError(f.t, g.Install(ready, d))
	}
	f.deployed = d
}

// addresses are g0, g1, ... and d0, d1, ...
func (f *fleet) addresses() (all []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.gateways {
		all = append(all, fmt.Sprintf("g%d", i))
	}
	for i := range f.servers {
		all = append(all, fmt.Sprintf("d%d", i))
	}
	return all
}

func (f *fleet) dial(_ context.Context, address string) (attach.Stream, error) {
	var i int
	_, _ = fmt.Sscanf(address[1:], "%d", &i)
	f.mu.Lock()
	defer f.mu.Unlock()
	ours, theirs := attach.Pipe()
	switch {
	case address[0] == 'd' && f.servers[i].cut:
		return nil, errors.New("nobody answers")
	case address[0] == 'd':
		server := f.servers[i]
		server.streams = append(server.streams, theirs)
		go func() { _ = server.Attach(theirs) }()
	case f.lost[i]:
		return nil, errors.New("nobody answers")
	default:
		f.streams[i] = append(f.streams[i], theirs)
		go func() { _ = f.gateways[i].Attach(theirs) }()
	}
	return ours, nil
}

// decide adds a dispatcher that all gateways and executors are joined to.
func (f *fleet) decide() *decider {
	began := time.Now()
	d := &decider{queues: dispatcher.New(dispatcher.Options{
		Now: func() time.Duration { return time.Since(began) + 1 }, Margin: time.Second, Span: DefaultSpan, FunctionSpan: DefaultFunctionSpan, Record: 1 << 22,
	})}
	d.Server = server.New(d.queues, server.Options{Name: "d", Patience: -1, Orphaned: func(service string, epoch uint64) { d.OwnAfter(service, epoch) }})
	f.mu.Lock()
	f.servers = append(f.servers, d)
	for i, g := range f.gateways {
		near, far := net.Pipe()
		d.conns = append(d.conns, near)
		f.conns[i] = append(f.conns[i], near)
		f.ends.Go(func() { _ = d.Serve(far) })
		f.ends.Go(func() { _ = g.ServeDispatcher(near, fmt.Sprint("g", i), "", -1) })
	}
	f.mu.Unlock()
	f.host.Gateways.Set(f.addresses())
	return d
}

// kill cuts all connections of a dispatcher to gateways.
func (d *decider) kill() {
	for _, c := range d.conns {
		_ = c.Close()
	}
}

// cutOff cuts executors off from a dispatcher, or lets them come again.
func (f *fleet) cutOff(d *decider, off bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	d.cut = off
	for _, s := range d.streams {
		attach.Abort(s, errors.New("cut"))
	}
	d.streams = nil
}

// lose cuts all connections of a gateway.
func (f *fleet) lose(i int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lost[i] = true
	for _, c := range f.conns[i] {
		_ = c.Close()
	}
	for _, s := range f.streams[i] {
		attach.Abort(s, errors.New("cut"))
	}
}

func (f *fleet) end() {
	f.cancel()
	for _, g := range f.gateways {
		_ = g.Close()
	}
	for _, d := range f.servers {
		d.kill()
	}
	f.ends.Wait()
}

// ask sends a number through a gateway.
func (f *fleet) ask(gateway int, x float32) error {
	r, err := f.gateways[gateway].Infer(context.Background(), &wire.InferRequest{Pipeline: f.deployed.Name(), Inputs: vector(x, float32(gateway))})
	if err != nil {
		return err
	}
	want := x + float32(len(f.deployed.Pipeline.Modules))
	if v := floats(r.Outputs[0].Tensor); v[0] != want || v[1] != float32(gateway) {
		return fmt.Errorf("gateway %d was answered %v for %v", gateway, v, x)
	}
	return nil
}

// load has callers send requests through the gateway until stop is closed or the fleet ends, and returns
// their number and the errors. Every number is sent once.
func (f *fleet) load(gateway, callers int, stop <-chan struct{}) (asked func() int64, wrong func() []error) {
	var n atomic.Int64
	var mu sync.Mutex
	var errs []error
	var under sync.WaitGroup
	for range callers {
		under.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-f.life.Done():
					return
				default:
				}
				if err := f.ask(gateway, float32(n.Add(1))); err != nil {
					mu.Lock()
					errs = append(errs, err)
					mu.Unlock()
				}
			}
		})
	}
	return n.Load, func() []error { under.Wait(); return errs }
}

// more waits until n more requests have been sent.
func (f *fleet) more(n int64, asked ...func() int64) {
	for _, asked := range asked {
		to := asked() + n
		require.Eventually(f.t, func() bool { return asked() >= to }, time.Minute, time.Millisecond)
	}
}

// chain is a pipeline of two adders.
func chain(slo time.Duration) pipelines.Pipeline {
	p := single(slo)
	p.Modules = append(p.Modules, pipelines.Module{Name: "n", Inputs: []pipelines.Binding{bind("x", "m", "y")}})
	p.Outputs[0].From = ref("n", "y")
	return p
}

// settled holds that nothing of the load is left anywhere.
func (f *fleet) settled(servers ...*decider) {
	require.EventuallyWithT(f.t, func(c *assert.CollectT) {
		for i, g := range f.gateways {
			if f.lost[i] {
				continue
			}
			assert.Zero(c, g.Measures(f.deployed.Name()).InFlight)
			for _, l := range g.queue.Loads(g.pipeline(f.deployed.Name()).current.Load().Generation) {
				assert.Zero(c, l.Held, "gateway %d, %s", i, l.Module)
			}
		}
		for _, d := range servers {
			for _, l := range d.Loads(f.deployed.Name()) {
				assert.Zero(c, l.Held, "%s: %s", l.Module, l.Policy)
				assert.Zero(c, l.Waiting)
			}
		}
	}, 10*time.Second, 10*time.Millisecond)
}

func TestTwoGatewaysShareBatches(t *testing.T) {
	for _, policy := range []string{"tc", "adaptive", "deferred", "eager"} {
		t.Run(policy, func(t *testing.T) {
			p := chain(2 * time.Second) // for as long some of them hold a batch back
			p.Dispatch = policy
			f := newFleet(t, 2, 2, p)
			d := f.decide()
			d.Own("", 1)
			stop := make(chan struct{})
			asked, wrong := f.load(0, 8, stop)
			askedToo, wrongToo := f.load(1, 8, stop)
			f.more(50, asked, askedToo)
			close(stop)
			for _, err := range append(wrong(), wrongToo()...) {
				// The last of a load wait for others that do not come, as long as may be.
				var e *wire.Error
				require.ErrorAs(t, err, &e)
				require.Equal(t, wire.CodeDeadline, e.Code, "%v", e)
				require.Contains(t, []string{"adaptive", "deferred"}, policy)
			}
			if policy == "tc" { // which collects for a window
				require.Positive(t, f.engine.mixed.Load(), "batches held requests of both")
			}
			f.settled(d)
			stations := d.queues.Recording()
			require.Len(t, stations, 2)
			decidedAgain(t, recording.Recording{Head: recording.Head{Program: "test"}, Stations: stations})
			m := f.gateways[0].Measures(p.Name)
			require.Positive(t, m.Completed)
			require.Len(t, m.Modules, 2)
			require.Positive(t, m.Modules[0].MeanBatch)
		})
	}
}

func TestAnotherDispatcherTakesOver(t *testing.T) {
	f := newFleet(t, 2, 2, chain(10*time.Second))
	first := f.decide()
	first.Own("p", 1)
	stop := make(chan struct{})
	asked, wrong := f.load(0, 8, stop)
	askedToo, wrongToo := f.load(1, 8, stop)
	f.more(20, asked, askedToo)
	// A second one connects but owns nothing; then it owns by a higher epoch, while the first goes
	// on as if nothing had happened.
	second := f.decide()
	f.more(20, asked, askedToo)
	require.Empty(t, batchesOf(t, second))
	// A gateway that connected before the first dispatcher had claimed the service has requested
	// that it own it, by an epoch of the gateway's choice.
	second.Own("p", first.Owns()["p"]+1)
	f.decides(second)
	f.more(50, asked, askedToo)
	first.kill()
	f.more(20, asked, askedToo)
	// It dies, and no dispatcher decides until the next comes.
	second.kill()
	time.Sleep(20 * time.Millisecond)
	third := f.decide()
	third.Own("", second.Owns()["p"]+1)
	f.decides(third)
	f.more(50, asked, askedToo)
	close(stop)
	require.Empty(t, wrong())
	require.Empty(t, wrongToo())
	f.settled(third)
}

func TestTheOneThatIsLeftDecides(t *testing.T) {
	f := newFleet(t, 2, 2, chain(10*time.Second))
	first := f.decide()
	first.Claim()
	stop := make(chan struct{})
	asked, wrong := f.load(0, 4, stop)
	askedToo, wrongToo := f.load(1, 4, stop)
	f.more(10, asked, askedToo)
	time.Sleep(5 * time.Millisecond)
	second := f.decide()
	second.Claim() // it has started later
	f.decides(second)
	f.more(40, asked, askedToo)
	second.kill()
	f.more(40, asked, askedToo)
	close(stop)
	require.Empty(t, wrong())
	require.Empty(t, wrongToo())
	f.settled(first)
}

// TestAnOwnerWithoutExecutors: another dispatcher decides when executors are cut off from the
// owner alone, again and again, and the owner stays when no dispatcher has any.
func TestAnOwnerWithoutExecutors(t *testing.T) {
	f := newFleet(t, 2, 2, chain(10*time.Second))
	both := []*decider{f.decide(), f.decide()}
	both[0].Own("p", 1)
	stop := make(chan struct{})
	asked, wrong := f.load(0, 8, stop)
	askedToo, wrongToo := f.load(1, 8, stop)
	f.more(20, asked, askedToo)
	for i := range 4 {
		f.cutOff(both[i%2], true)
		require.Eventually(t, func() bool { return both[(i+1)%2].Owns()["p"] > both[i%2].Owns()["p"] }, time.Minute, time.Millisecond)
		f.more(50, asked, askedToo)
		f.cutOff(both[i%2], false)
		f.more(20, asked, askedToo)
	}
	f.cutOff(both[0], true)
	f.cutOff(both[1], true)
	owners := func() [2]uint64 { return [2]uint64{both[0].Owns()["p"], both[1].Owns()["p"]} }
	last, changes := owners(), 0
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if now := owners(); now != last {
			last, changes = now, changes+1
		}
	}
	require.LessOrEqual(t, changes, 2, "each gateway may request another once, before it learns that the other has none either")
	f.cutOff(both[1], false)
	f.more(20, asked, askedToo)
	f.cutOff(both[0], false)
	close(stop)
	require.Empty(t, wrong())
	require.Empty(t, wrongToo())
	f.settled(both[1])
}

// decides waits, under load, until a dispatcher has made a batch.
func (f *fleet) decides(d *decider) {
	for end := time.Now().Add(time.Minute); len(batchesOf(f.t, d)) == 0; time.Sleep(time.Millisecond) {
		require.True(f.t, time.Now().Before(end), "it decides nothing")
	}
}

func batchesOf(t testing.TB, d *decider) []recording.Batch {
	_, batches := decidedAgain(t, recording.Recording{Head: recording.Head{Program: "test"}, Stations: d.queues.Recording()})
	return batches
}

func TestAGatewayIsLost(t *testing.T) {
	f := newFleet(t, 2, 2, chain(10*time.Second))
	d := f.decide()
	d.Own("p", 1)
	stop := make(chan struct{})
	asked, wrong := f.load(0, 8, stop)
	askedToo, _ := f.load(1, 8, stop) // its requests are lost with its gateway
	f.more(20, asked, askedToo)
	f.lose(1)
	f.more(50, asked)
	close(stop)
	require.Empty(t, wrong())
	f.settled(d)
}

// TestAnExecutorThatAGatewayLacks holds that requests of a gateway find others while one
// executor has come to the dispatcher and not to the gateway, and that it serves all the
// same once it has.
func TestAnExecutorThatAGatewayLacks(t *testing.T) {
	f := newFleet(t, 2, 1, chain(time.Minute))
	d := f.decide()
	d.Own("p", 1)
	stop := make(chan struct{})
	asked, wrong := f.load(0, 4, stop)
	askedToo, wrongToo := f.load(1, 4, stop)
	f.more(20, asked, askedToo)
	f.mu.Lock()
	f.lost[1] = true // for executors, not for the dispatcher
	for _, s := range f.streams[1] {
		attach.Abort(s, errors.New("cut"))
	}
	f.mu.Unlock()
	f.more(20, asked)
	f.mu.Lock()
	f.lost[1] = false
	f.mu.Unlock()
	f.more(20, asked, askedToo)
	close(stop)
	require.Empty(t, wrong())
	require.Empty(t, wrongToo())
	f.settled(d)
}

// TestAHostIsLost holds that executors which are lost together count as one loss.
func TestAHostIsLost(t *testing.T) {
	f := newFleet(t, 1, 4, single(10*time.Second))
	d := f.decide()
	d.Own("p", 1)
	stop := make(chan struct{})
	asked, wrong := f.load(0, 64, stop)
	f.more(100, asked)
	for range 5 {
		f.mu.Lock()
		streams := f.streams[0]
		f.streams[0] = nil
		f.mu.Unlock()
		for _, s := range streams { // one after the other, as connections of a host break
			attach.Abort(s, errors.New("cut"))
			time.Sleep(time.Millisecond)
		}
		f.more(200, asked)
	}
	close(stop)
	require.Empty(t, wrong())
	f.settled(d)
}
