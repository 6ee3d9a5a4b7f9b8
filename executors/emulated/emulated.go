package emulated

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"hash/fnv"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/internal/osutil"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
)

// Options of the engine; the zero value is what serving uses.
type Options struct {
	// Signatures returns the signatures of modules that are real networks or functions, so that
	// their stand-ins answer with tensors of the real shapes. When nil or failing, the outputs are
	// small FP32 tensors.
	Signatures pipelines.SignatureFunc

	// Duration overrides the profile. The zero duration returns at once.
	Duration func(m executors.Model, batch int) time.Duration

	// Noise makes durations vary evenly within ±Noise of the profiled one (0.1
	// is ten per cent) by a fixed sequence.
	Noise float64

	// Echo puts a checksum of a request's inputs into the first element of its
	// FP32 outputs, so that a test can match answers to requests.
	Echo bool

	// Fault is called before the n-th batch (from 1, over all instances of the engine) runs; the
	// batch fails with what it returns. Code "unavailable" breaks the instance, as a crash would.
	// See failOn and CrashOn.
	Fault func(m executors.Model, n int64) *wire.Error

	// Sleep replaces the clock in tests. It returns early with ctx's error.
	Sleep func(ctx context.Context, d time.Duration) error
}

// New returns the engine "emulated".
func New(o Options) executors.Engine {
	if o.Sleep == nil {
		o.Sleep = osutil.Sleep
	}
	return &engine{options: o}
}

// failOn is an Options.Fault that fails the n-th batch and leaves its instance
// alive.
func failOn(n int64) func(executors.Model, int64) *wire.Error {
	return faultOn(n, wire.CodeInternal, "emulated failure")
}

// CrashOn is an Options.Fault that breaks the instance of the n-th batch.
func CrashOn(n int64) func(executors.Model, int64) *wire.Error {
	return faultOn(n, wire.CodeUnavailable, "emulated crash")
}

func faultOn(n int64, code wire.Code, what string) func(executors.Model, int64) *wire.Error {
	return func(m executors.Model, batch int64) *wire.Error {
		if batch != n {
			return nil
		}
		return wire.Errorf(code, m.Module.Name, "%s at batch %d", what, n)
	}
}

type engine struct {
	options Options
	batches atomic.Int64 // run so far by all instances; counted only for Fault
}

// Name is "emulated".
func (e *engine) Name() string { return "emulated" }

// Version changes with the meaning of durations.
func (e *engine) Version() string { return "1" }

// Signature is that of Options.Signatures; otherwise inputs in the order of the declaration
// that take anything, and no outputs.
func (e *engine) Signature(m pipelines.Module) (pipelines.Signature, error) {
	sig, known := e.signature(executors.Model{Module: m})
	if !known {
		sig.Outputs = nil // but state
	}
	return sig, nil
}

// Load looks up the durations. It fails when the profile states nothing about
// the hardware, or about a batch as large as the model is to run.
func (e *engine) Load(ctx context.Context, m executors.Model) (executors.Instance, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	durations, err := e.durations(m)
	if err != nil {
		return nil, err
	}
	sig, known := e.signature(m)
	return &instance{
		engine:    e,
		model:     m,
		signature: sig,
		durations: durations,
		memory:    memory(m),
		outputs:   newOutputs(sig, m.OutputRows, known, e.options.Echo),
	}, nil
}

// signature reports whether it comes from Options.Signatures.
func (e *engine) signature(m executors.Model) (pipelines.Signature, bool) {
	if e.options.Signatures != nil {
		if sig, err := e.options.Signatures(m.Module); err == nil && len(sig.Outputs) > 0 {
			return closedLoops(sig), true
		}
	}
	var sig pipelines.Signature
	for _, b := range m.Module.Inputs {
		if b.IsConstant() {
			continue // nothing is computed of it
		}
		sig.Inputs = append(sig.Inputs, pipelines.Port{Name: b.Name})
	}
	for _, name := range m.Outputs {
		port := pipelines.Port{Name: name, Datatype: "FP32", Shape: []int64{1}}
		if _, scattered := m.OutputRows[name]; scattered {
			port.Shape = []int64{-1, 1}
		}
		sig.Outputs = append(sig.Outputs, port)
	}
	if m.Module.State {
		port := pipelines.Port{Name: stateName, Datatype: wire.Uint64, Shape: []int64{1}}
		sig.Outputs = append(sig.Outputs, port)
		port.Loop = stateName
		sig.Inputs = append(sig.Inputs, port)
	}
	return sig, false
}

// stateName is the state of a module of which no more is known; it is none that declarations have.
const stateName = "harpagon.state"

// closedLoops gives outputs that go back to inputs the shapes of these.
func closedLoops(sig pipelines.Signature) pipelines.Signature {
	sig.Outputs = slices.Clone(sig.Outputs)
	for _, in := range sig.Inputs {
		for i := range sig.Outputs {
			if in.Loop != "" && sig.Outputs[i].Name == in.Loop {
				sig.Outputs[i].Shape = in.Shape
			}
		}
	}
	return sig
}

// durations returns the duration of every batch size from 0 to the largest.
func (e *engine) durations(m executors.Model) ([]time.Duration, error) {
	largest := max(m.MaxBatch, 1)
	table := make([]time.Duration, largest+1)
	latency := m.Module.Profile.Latency(m.Hardware)
	for n := 1; n <= largest; n++ {
		if e.options.Duration != nil {
			table[n] = e.options.Duration(m, n)
			continue
		}
		if m.Module.Sized && len(latency) > 0 { // queries are not padded
			table[n] = latency.At(n)
			continue
		}
		point, ok := smallest(m, n)
		if !ok {
			return nil, missing(m, n)
		}
		table[n] = point.Duration
	}
	return table, nil
}

// smallest finds the point of the smallest measured batch of at least n.
func smallest(m executors.Model, n int) (pipelines.Point, bool) {
	var best pipelines.Point
	for _, p := range m.Module.Profile.Points {
		if p.Hardware == m.Hardware && max(p.Concurrency, 1) == max(m.Concurrency, 1) &&
			p.Batch >= n && (best.Batch == 0 || p.Batch < best.Batch) {
			best = p
		}
	}
	return best, best.Batch > 0
}

func missing(m executors.Model, n int) error {
	return fmt.Errorf("executors/emulated: the profile of module %q has no point for hardware %q, batch %d or more, concurrency %d; "+
		"add it to the profile, or name a batch and hardware that it holds", m.Module.Name, m.Hardware, n, max(m.Concurrency, 1))
}

// memory is the most that the profile states of this hardware, in bytes.
func memory(m executors.Model) int64 {
	var most float64
	for _, p := range m.Module.Profile.Points {
		if p.Hardware == m.Hardware {
			most = max(most, p.MemoryMiB)
		}
	}
	return int64(most * (1 << 20))
}

type instance struct {
	engine    *engine
	model     executors.Model
	signature pipelines.Signature
	durations []time.Duration // by number of requests
	memory    int64
	outputs   *outputs
	batches   int         // of this instance
	broken    atomic.Bool // by a fault or by Close
}

// Signature is described at the package.
func (i *instance) Signature() pipelines.Signature { return i.signature }

// Memory is what the profile states.
func (i *instance) Memory() int64 { return i.memory }

// Close makes further batches fail with code "unavailable".
func (i *instance) Close() error {
	i.broken.Store(true)
	return nil
}

// Run sleeps for the duration of the batch. When ctx ends first, the batch
// fails with code "canceled".
func (i *instance) Run(ctx context.Context, items [][]wire.Tensor) ([][]wire.Tensor, error) {
	if err := i.fault(len(items)); err != nil {
		return nil, err
	}
	if d := i.jitter(i.durations[len(items)]); d > 0 {
		if err := i.engine.options.Sleep(ctx, d); err != nil {
			return nil, wire.Errorf(wire.CodeCanceled, i.model.Module.Name, "stopped within a batch of %d: %v", len(items), err)
		}
	}
	return i.outputs.batch(items), nil
}

func (i *instance) fault(n int) error {
	if i.broken.Load() {
		return wire.Errorf(wire.CodeUnavailable, i.model.Module.Name, "the emulated engine has stopped")
	}
	if n < 1 || n >= len(i.durations) {
		return wire.Errorf(wire.CodeInvalid, i.model.Module.Name, "a batch of %d requests, but 1 to %d were loaded", n, len(i.durations)-1)
	}
	i.batches++
	if i.engine.options.Fault == nil {
		return nil
	}
	fault := i.engine.options.Fault(i.model, i.engine.batches.Add(1))
	if fault == nil {
		return nil
	}
	if fault.Code == wire.CodeUnavailable {
		i.broken.Store(true)
	}
	return fault
}

// jitter spreads durations evenly: multiples of the golden ratio, taken modulo
// one, fill the interval without a random source.
func (i *instance) jitter(d time.Duration) time.Duration {
	if i.engine.options.Noise == 0 || d == 0 {
		return d
	}
	const golden = 0.6180339887498949
	u := golden * float64(i.batches)
	u -= float64(int64(u))
	return time.Duration(float64(d) * (1 + i.engine.options.Noise*(2*u-1)))
}

// outputs makes the answers of one instance.
type outputs struct {
	ports []output
	means []float64 // distinct means of OutputRows
	given []int64   // rows given out so far, by mean
	items int64     // requests answered so far
	fixed []wire.Tensor
	echo  bool
	loops []int // outputs that go back to inputs
}

// output is one port: its datatype and its row, repeated as often as needed.
type output struct {
	datatype string
	row      []int64 // shape of one row, or of the whole tensor when mean is -1
	bytes    int     // of one row
	mean     int     // index into means; -1 when the rows do not vary
}

func newOutputs(sig pipelines.Signature, rows map[string]float64, known, echo bool) *outputs {
	o := &outputs{echo: echo}
	for i, port := range sig.Outputs {
		o.ports = append(o.ports, o.port(port, rows, known))
		if slices.Contains(sig.Loops(), port.Name) {
			o.loops = append(o.loops, i)
		}
	}
	for _, p := range o.ports {
		if p.mean >= 0 {
			return o
		}
	}
	if !echo && len(o.loops) == 0 {
		o.fixed = o.item(make([]int64, 0), nil)
	}
	return o
}

func (o *outputs) port(port pipelines.Port, rows map[string]float64, known bool) output {
	shape := append([]int64{}, port.Shape...)
	varies := len(shape) > 0 && shape[0] < 0
	out := output{datatype: port.Datatype, mean: -1}
	mean, scattered := rows[port.Name]
	if varies && (scattered || known) {
		if !scattered {
			mean = 1
		}
		out.mean = o.index(mean)
		shape = shape[1:]
	}
	if out.datatype == "" {
		out.datatype = "FP32"
	}
	size := int64(wire.Size(out.datatype))
	if size <= 0 {
		size = 4 // an empty BYTES element is its length alone
	}
	for i, d := range shape {
		shape[i] = max(d, 1)
		size *= shape[i]
	}
	out.row, out.bytes = shape, int(size)
	return out
}

func (o *outputs) index(mean float64) int {
	for i, m := range o.means {
		if m == mean {
			return i
		}
	}
	o.means = append(o.means, mean)
	o.given = append(o.given, 0)
	return len(o.means) - 1
}

// batch answers one batch. Tensors of fixed shape are shared between answers:
// tensors are read-only once they are sent.
func (o *outputs) batch(items [][]wire.Tensor) [][]wire.Tensor {
	answers := make([][]wire.Tensor, len(items))
	if o.fixed != nil {
		for i := range answers {
			answers[i] = o.fixed
		}
		return answers
	}
	counts := make([]int64, len(o.means))
	for i := range answers {
		o.next(counts)
		answers[i] = o.item(counts, items[i])
	}
	return answers
}

// next sets counts to the rows of the next request: what is missing to
// floor(items·mean).
func (o *outputs) next(counts []int64) {
	o.items++
	for i, mean := range o.means {
		total := int64(math.Floor(float64(o.items)*mean + 1e-9))
		counts[i] = min(max(total-o.given[i], 0), pipelines.MaxItems)
		o.given[i] += counts[i]
	}
}

func (o *outputs) item(counts []int64, inputs []wire.Tensor) []wire.Tensor {
	answer := make([]wire.Tensor, len(o.ports))
	for j, p := range o.ports {
		shape, size := p.row, p.bytes
		if p.mean >= 0 {
			shape = append([]int64{counts[p.mean]}, p.row...)
			size *= int(counts[p.mean])
		}
		answer[j] = wire.Tensor{Datatype: p.datatype, Shape: shape, Data: make([]byte, size)}
		if p.mean >= 0 && size > 0 && p.datatype != wire.Bytes {
			answer[j].Data[0] = 1 // so that a condition holds where there are rows
		}
		if o.echo && p.datatype == "FP32" && size >= 4 {
			binary.LittleEndian.PutUint32(answer[j].Data, math.Float32bits(Checksum(inputs)))
		}
	}
	for _, j := range o.loops {
		answer[j] = State(answer[j], inputs)
	}
	return answer
}

// State is what an emulated module keeps of a stream: a hash of all inputs of a frame, the state
// before among them, so that it identifies the frames that came, and their order.
func State(like wire.Tensor, inputs []wire.Tensor) wire.Tensor {
	h := fnv.New64a()
	for _, t := range inputs {
		_, _ = h.Write(t.Data)
	}
	copy(like.Data, h.Sum(nil))
	return like
}

// Checksum is what Options.Echo puts into an answer: a whole number that
// float32 holds exactly, from the bytes of all inputs.
func Checksum(inputs []wire.Tensor) float32 {
	var sum uint32
	for _, t := range inputs {
		sum = crc32.Update(sum, crc32.IEEETable, t.Data)
	}
	return float32(sum >> 8)
}
