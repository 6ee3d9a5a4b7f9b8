package gateway

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/attach"
)

// kind is what a module of a test computes, one request at a time.
type kind struct {
	sig pipelines.Signature
	run func(in []wire.Tensor) []wire.Tensor
}

func port(name, datatype string, shape ...int64) pipelines.Port {
	return pipelines.Port{Name: name, Datatype: datatype, Shape: shape}
}

func floats(t wire.Tensor) []float32 {
	v, err := t.Float32s()
	if err != nil {
		panic(err)
	}
	return v
}

// addOne adds one to every element of a vector of 2.
var addOne = kind{
	sig: pipelines.Signature{Inputs: []pipelines.Port{port("x", "FP32", 2)}, Outputs: []pipelines.Port{port("y", "FP32", 2)}},
	run: func(in []wire.Tensor) []wire.Tensor {
		v := floats(in[0])
		return []wire.Tensor{wire.FromFloat32([]float32{v[0] + 1, v[1] + 1}, 2)}
	},
}

// spread makes x[0] rows: (x[1], 0), (x[1], 1), ...
var spread = kind{
	sig: pipelines.Signature{Inputs: []pipelines.Port{port("x", "FP32", 2)}, Outputs: []pipelines.Port{port("rows", "FP32", -1, 2), port("n", "FP32")}},
	run: func(in []wire.Tensor) []wire.Tensor {
		v := floats(in[0])
		var rows []float32
		for i := range int(v[0]) {
			rows = append(rows, v[1], float32(i))
		}
		return []wire.Tensor{wire.FromFloat32(rows, int64(v[0]), 2), wire.FromFloat32(v[:1]).Reshape()}
	},
}

// join adds two vectors of 2 and gives the sum as a scalar too.
var join = kind{
	sig: pipelines.Signature{Inputs: []pipelines.Port{port("a", "FP32", 2), port("b", "FP32", 2)}, Outputs: []pipelines.Port{port("sum", "FP32"), port("y", "FP32", 2)}},
	run: func(in []wire.Tensor) []wire.Tensor {
		a, b := floats(in[0]), floats(in[1])
		y := []float32{a[0] + b[0], a[1] + b[1]}
		return []wire.Tensor{wire.FromFloat32([]float32{y[0] + y[1]}).Reshape(), wire.FromFloat32(y, 2)}
	},
}

// count gives the number of rows of anything gathered, as a string.
var count = kind{
	sig: pipelines.Signature{Inputs: []pipelines.Port{port("n", ""), port("rows", "")}, Outputs: []pipelines.Port{port("text", "BYTES", 1)}},
	run: func(in []wire.Tensor) []wire.Tensor {
		return []wire.Tensor{wire.FromStrings([]string{fmt.Sprint(in[1].Shape)})}
	},
}

// worker is an executor of a test.
type worker struct {
	kind
	hello   attach.Hello
	delay   func(n int) time.Duration // of a batch
	fault   func(b *attach.Batch) *wire.Error
	result  func(*attach.Result) // may change it; called by one goroutine
	serving func(attach.Stream)  // instead of serve; nil for that
	far     time.Duration        // delay to the gateway and back
	stream  attach.Stream
	done    chan error // the end of Attach

	mu      sync.Mutex
	batches int
	sizes   []int
}

// attach runs the worker until its stream ends.
func (w *worker) attach(g *Gateway) {
	ours, theirs := attach.Pipe()
	if w.far > 0 {
		ours = distant(ours, w.far)
	}
	w.stream = ours
	w.done = make(chan error, 1)
	go func() { w.done <- g.Attach(theirs) }()
	hello := w.hello
	hello.Signature = w.sig
	_ = ours.Send(&attach.Message{Hello: &hello})
	if w.serving != nil {
		go w.serving(ours)
		return
	}
	go w.serve(ours)
}

func (w *worker) serve(s attach.Stream) {
	defer s.Close()
	for {
		m, err := s.Recv()
		if err != nil || m.Drain != nil {
			return
		}
		if w.delay != nil {
			if d := w.delay(len(m.Batch.Items)); d > 0 {
				time.Sleep(d)
			}
		}
		r := w.answer(m.Batch)
		if w.result != nil {
			w.result(r)
		}
		if s.Send(&attach.Message{Result: r}) != nil {
			return
		}
	}
}

func (w *worker) answer(b *attach.Batch) *attach.Result {
	w.mu.Lock()
	w.batches++
	w.sizes = append(w.sizes, len(b.Items))
	w.mu.Unlock()
	r := &attach.Result{ID: b.ID}
	if w.fault != nil {
		if r.Err = w.fault(b); r.Err != nil {
			return r
		}
	}
	r.Items = make([][]wire.Tensor, len(b.Items))
	for i, in := range b.Items {
		r.Items[i] = w.run(in)
	}
	return r
}

// spec is a module of a test deployment.
type spec struct {
	kind
	executors int
	batch     int
	window    time.Duration
	duration  time.Duration
}

// deployment gives every module one group with its executors, named
// module/generation/i.
func deployment(p pipelines.Pipeline, generation int, specs map[string]spec) placement.Deployment {
	d := placement.Deployment{Generation: generation, Pipeline: p}
	for _, m := range p.Modules {
		s := specs[m.Name]
		s.batch, s.executors = max(s.batch, 1), max(s.executors, 1)
		d.Plan.Modules = append(d.Plan.Modules, plan.Module{
			Name: m.Name, Budget: s.window + s.duration,
			Groups: []plan.Group{{Hardware: "cpu", Batch: s.batch, Concurrency: 1, Duration: s.duration, Machines: float64(s.executors), Window: s.window, Period: s.window}},
		})
		for i := range s.executors {
			d.Slots = append(d.Slots, placement.Slot{
				Executor: fmt.Sprintf("%s/%d/%d", m.Name, generation, i), Pipeline: p.Name, Module: m.Name,
				Batch: s.batch, Window: s.window, Duration: s.duration, Hardware: "cpu", Host: "h",
			})
		}
	}
	return d
}

// start attaches a worker for every slot of the deployment.
func start(g *Gateway, d placement.Deployment, specs map[string]spec) map[string]*worker {
	all := make(map[string]*worker)
	for _, s := range d.Slots {
		duration := specs[s.Module].duration
		w := &worker{kind: specs[s.Module].kind, delay: func(int) time.Duration { return duration }}
		w.hello = attach.Hello{Executor: s.Executor, Pipeline: s.Pipeline, Module: s.Module, Host: s.Host, MaxBatch: s.Batch, Concurrency: 1}
		w.attach(g)
		all[s.Executor] = w
	}
	return all
}

// serve makes a gateway that serves the deployment on new workers.
func serve(t testing.TB, o Options, d placement.Deployment, specs map[string]spec) (*Gateway, map[string]*worker) {
	g := recorded(t, o)
	workers := start(g, d, specs)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	require.NoError(t, g.Prepare(ctx, d))
	require.NoError(t, g.Install(ctx, d))
	return g, workers
}

// stop closes the gateway and waits for the workers' ends.
func stop(g *Gateway, workers map[string]*worker) {
	_ = g.Close()
	for _, w := range workers {
		<-w.done
	}
}

func ref(module, port string) pipelines.Ref { return pipelines.Ref{Module: module, Port: port} }

func bind(name, module, port string) pipelines.Binding {
	return pipelines.Binding{Name: name, From: ref(module, port)}
}

func vector(a, b float32) []wire.NamedTensor {
	return []wire.NamedTensor{{Name: "x", Tensor: wire.FromFloat32([]float32{a, b}, 2)}}
}

// single is a pipeline of one module.
func single(slo time.Duration) pipelines.Pipeline {
	return pipelines.Pipeline{
		Name: "p", SLO: slo, Inputs: []pipelines.Port{port("x", "FP32", 2)},
		Modules: []pipelines.Module{{Name: "m", Inputs: []pipelines.Binding{bind("x", "", "x")}}},
		Outputs: []pipelines.Output{{Name: "y", From: ref("m", "y")}},
	}
}

// fanning is spread -> inc (per row) -> tally (gathered), with a join of the
// rows' values per row.
func fanning(slo time.Duration) pipelines.Pipeline {
	return pipelines.Pipeline{
		Name: "p", SLO: slo, Inputs: []pipelines.Port{port("x", "FP32", 2)},
		Modules: []pipelines.Module{
			{Name: "spread", Inputs: []pipelines.Binding{bind("x", "", "x")}},
			{Name: "inc", Scatter: true, Fanout: 2, Inputs: []pipelines.Binding{bind("x", "spread", "rows")}},
			{Name: "again", Inputs: []pipelines.Binding{bind("x", "inc", "y")}},
			{Name: "join", Inputs: []pipelines.Binding{bind("b", "again", "y"), bind("a", "inc", "y")}},
			{Name: "tally", Inputs: []pipelines.Binding{bind("rows", "join", "y"), bind("n", "spread", "n")}},
		},
		Outputs: []pipelines.Output{
			{Name: "sum", From: ref("join", "sum")}, {Name: "rows", From: ref("again", "y")},
			{Name: "text", From: ref("tally", "text")}, {Name: "n", From: ref("spread", "n")}, {Name: "x", From: ref("", "x")},
		},
	}
}

func fanningSpecs() map[string]spec {
	return map[string]spec{
		"spread": {kind: spread}, "inc": {kind: addOne}, "again": {kind: addOne}, "join": {kind: join}, "tally": {kind: count},
	}
}

func tensors(out []wire.NamedTensor) map[string]wire.Tensor {
	all := make(map[string]wire.Tensor)
	for _, t := range out {
		all[t.Name] = t.Tensor
	}
	return all
}
