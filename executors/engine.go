package executors

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
)

// Model states what an engine is to load.
type Model struct {
	Module      pipelines.Module   // model path, function name, parameters, profile
	Hardware    string             // kind of device it will run on
	Device      string             // its name; empty for any of the kind
	Batches     []int              // batch sizes that will be used; each is warmed up
	MaxBatch    int                // largest of Batches
	Cores       int                // processor cores of the device, where it is an instance; 0 means 1
	Concurrency int                // instances of this module side by side on the device; 0 means 1
	Outputs     []string           // outputs that the pipeline refers to; for engines that cannot derive them
	OutputRows  map[string]float64 // emulated only: mean rows of outputs that a scattering module consumes

	// Feeds states what the pipeline sends to inputs whose size the model leaves
	// open, by name, where that is known; for warming up.
	Feeds map[string]pipelines.Port
}

// Engine loads models. It is a value without global state; several engines of
// the same kind may live side by side.
type Engine interface {
	// Name is the value of `engine = "..."` in HCL and the key of profiles.
	Name() string
	// Version changes when measured durations may change.
	Version() string
	// Load makes the model ready to run and warms up every batch size.
	Load(ctx context.Context, m Model) (Instance, error)
}

// Instance is a loaded model. Run is called by one goroutine at a time.
type Instance interface {
	// Signature gives inputs and outputs for one request, without batch
	// dimension. A port whose Datatype is empty takes or gives any tensor.
	Signature() pipelines.Signature
	// Memory is the number of bytes that the instance holds on its device, or 0 when unknown.
	Memory() int64
	// Run computes one batch. items[i][j] is input j of request i, in the order
	// of the signature; so is the result for outputs. len(items) is at least 1
	// and at most the largest batch size loaded. The error is a *wire.Error;
	// after one with code "unavailable" the instance is gone and must be
	// loaded again.
	Run(ctx context.Context, items [][]wire.Tensor) ([][]wire.Tensor, error)
	// Close frees everything; it may be called more than once.
	Close() error
}

// Placer is an Instance that can write its outputs where its caller needs them, such as into
// memory shared with another process.
type Placer interface {
	// RunPlaced is Run for a caller who puts the inputs at the same places for
	// every batch of the same shapes, and leaves them there until the next
	// batch. lend gives n bytes for an output, at the same places again for every
	// batch; they are the instance's until the next batch and stay readable until
	// it is closed. It gives nil when there is no more. What the instance has
	// prepared for a place it may use again.
	RunPlaced(ctx context.Context, items [][]wire.Tensor, lend func(n int) []byte) ([][]wire.Tensor, error)
}

// stager is an Instance that takes the next batch while it computes one, so that
// it need not wait for it between the two.
type stager interface {
	// Stage hands over a batch, to be computed after the one before, and returns
	// what waits for its answer as Run does. At most one batch is staged beside one
	// that is computed. Run may still be called, and computes what it is given
	// after what was staged before. After an error nothing has been handed over,
	// and the batch can be given to Run.
	Stage(items [][]wire.Tensor) (answer func(ctx context.Context) ([][]wire.Tensor, error), err error)
}

// mortal is an Instance that may end by itself, such as one with a process of its own.
type mortal interface {
	// AwaitEnd reports how it ended by itself, as Run would then; nil when ctx ends first.
	AwaitEnd(ctx context.Context) error
}

// LoadsOnce is an Engine whose models take long to load, as those of programs that bring a GPU's libraries, and
// whose instances report what ones for smaller batches would hold: all batch sizes are measured on one.
type LoadsOnce interface {
	LoadsOnce()
}

// Graded is an Instance of such an engine.
type Graded interface {
	// MemoryFor is Memory of an instance that is loaded for batches of up to a size.
	MemoryFor(size int) int64
}

// Keeper is an Instance that takes long to load, and may be loaded again soon.
type Keeper interface {
	// Keep is Close, but a load of the same model on the same device within a while reuses it.
	Keep()
}

// Signer is an Engine that returns what a module consumes and produces without loading it, for
// checks before anything runs.
type Signer interface {
	Signature(m pipelines.Module) (pipelines.Signature, error)
}

// Checker is an Engine that may be missing on a machine, such as one whose
// shared library is found when the program runs. Available returns why it cannot run and how to
// get it; nil when it can.
type Checker interface {
	Available() error
}

// Sampler is an Instance that makes its own inputs for measuring, because its
// running time depends on what they hold. shapes has one entry per input of
// the signature, without unknown dimensions.
type Sampler interface {
	Sample(shapes [][]int64, rng *rand.Rand) []wire.Tensor
}

// errBatchAxis is the error of engines that take the batch in the first axis only.
var errBatchAxis = errors.New("batch_axis is supported by the onnxruntime engines only; set engine = \"onnxruntime\", or export the model with the batch first")

// errLibraries is why an engine cannot take the place of ONNX Runtime.
var errLibraries = errors.New("operators come from libraries for the onnxruntime engines only")

// errState is why an engine cannot serve a module that keeps state.
var errState = errors.New("it keeps no state between the frames of a stream; take state out of the module, pair what goes back with state = { INPUT = \"OUTPUT\" }, set engine = \"onnxruntime\" for a recurrent network, or serve it by a program with a Session (command)")

// keepsState compares whether a module declares state with what was loaded.
func keepsState(m *pipelines.Module, sig pipelines.Signature) error {
	switch loops := sig.Loops(); {
	case m.State && len(loops) == 0:
		return errState
	case !m.State && len(loops) > 0:
		return fmt.Errorf("it keeps state between the frames of a stream (input %q is fed with output %q); set state = true", sig.Inputs[slices.IndexFunc(sig.Inputs, func(p pipelines.Port) bool { return p.Loop != "" })].Name, loops[0])
	}
	return nil
}

// BatchFirst checks that a module has the batch first everywhere, for engines that support
// nothing else. The error states what to do.
func BatchFirst(m pipelines.Module) error {
	if len(m.BatchAxis) > 0 {
		return errBatchAxis
	}
	return nil
}

// Single is a signature with a first dimension of 1, as the tensors of an
// unbatched module have it.
func Single(sig pipelines.Signature) pipelines.Signature {
	add := func(ports []pipelines.Port) []pipelines.Port {
		ports = slices.Clone(ports)
		for i := range ports {
			if ports[i].Datatype != "" {
				ports[i].Shape = append([]int64{1}, ports[i].Shape...)
			}
		}
		return ports
	}
	return pipelines.Signature{Inputs: add(sig.Inputs), Outputs: add(sig.Outputs)}
}

// OneByOne serves an unbatched module with an instance that adds the batch
// dimension itself: it takes the first dimension of 1 off what goes in, and puts
// it before what comes out.
func OneByOne(in Instance) Instance { return oneByOne{in} }

type oneByOne struct{ Instance }

func (o oneByOne) Signature() pipelines.Signature { return Single(o.Instance.Signature()) }

func (o oneByOne) Run(ctx context.Context, items [][]wire.Tensor) ([][]wire.Tensor, error) {
	if len(items) != 1 {
		return nil, wire.Errorf(wire.CodeInvalid, "", "a batch of %d requests for a module that takes one at a time (batching = false)", len(items))
	}
	if err := Check(o.Signature().Inputs, items[0]); err != nil {
		return nil, wire.Errorf(wire.CodeInvalid, "", "%v", err)
	}
	item := slices.Clone(items[0])
	for j := range item {
		item[j].Shape = item[j].Shape[1:]
	}
	answers, err := o.Instance.Run(ctx, [][]wire.Tensor{item})
	if err != nil || len(answers) != 1 {
		return nil, err
	}
	out := slices.Clone(answers[0])
	for j := range out {
		out[j].Shape = append([]int64{1}, out[j].Shape...)
	}
	return [][]wire.Tensor{out}, nil
}

// Check compares tensors with the ports that they belong to: as many, each of
// the port's datatype, rank and dimensions (-1 takes any), and with as much
// data as the shape states. A port without a datatype takes any tensor.
func Check(ports []pipelines.Port, tensors []wire.Tensor) error {
	if len(tensors) != len(ports) {
		return fmt.Errorf("%d tensors where %d are expected", len(tensors), len(ports))
	}
	for j := range ports {
		if err := checkTensor(&ports[j], &tensors[j]); err != nil {
			return err
		}
	}
	return nil
}

func checkTensor(p *pipelines.Port, t *wire.Tensor) error {
	if p.Datatype == "" {
		return nil
	}
	if t.Datatype != p.Datatype {
		return fmt.Errorf("%q is %s where %s is expected", p.Name, orNothing(t.Datatype), p.Datatype)
	}
	fits := len(t.Shape) == len(p.Shape)
	for k := 0; fits && k < len(t.Shape); k++ {
		fits = p.Shape[k] < 0 || t.Shape[k] == p.Shape[k]
	}
	if !fits {
		return fmt.Errorf("%q has shape %v where %v is expected", p.Name, t.Shape, p.Shape)
	}
	if err := t.Validate(); err != nil {
		return fmt.Errorf("%q: %w", p.Name, err)
	}
	return nil
}

// checkAnswers holds an engine to its own signature, in number only: shapes
// are its own business.
func checkAnswers(sig pipelines.Signature, answers [][]wire.Tensor, items int) error {
	if len(answers) != items {
		return fmt.Errorf("the engine answered %d of %d requests", len(answers), items)
	}
	for _, outputs := range answers {
		if len(outputs) != len(sig.Outputs) {
			return fmt.Errorf("the engine gave %d outputs where its signature has %d", len(outputs), len(sig.Outputs))
		}
	}
	return nil
}

func orNothing(s string) string {
	if s == "" {
		return "nothing"
	}
	return s
}
