package onnxruntime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/executors/onnx"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
)

// Name is the name in declarations of the engine on the CPU; see Provider.Engine for the
// others.
const Name = "onnxruntime"

// way changes when this package uses the library in a way that may change
// measured durations.
const way = "2"

// Options select the library and what to compute on. The zero value finds the library and
// computes on the CPU.
type Options struct {
	Library  string              // path of the shared library; empty looks for it
	Provider Provider            // empty means CPU
	Getenv   func(string) string // nil means os.Getenv
}

type engine struct{ options Options }

// New returns the engine, which runs models in this process.
func New(o Options) executors.Engine { return engine{options: o} }

// Name is "onnxruntime", with the provider where that is not the CPU.
func (e engine) Name() string { return e.options.Provider.Engine() }

// Version is the library's and that of this package's way to use it; "missing"
// where there is no library.
func (e engine) Version() string {
	lib, err := Find(e.options)
	if err != nil {
		return "missing"
	}
	return lib.Version + "-" + way
}

// Available reports why the engine cannot run here; nil when it can.
func (e engine) Available() error {
	if err := supported(); err != nil {
		return err
	}
	lib, err := Find(e.options)
	if err != nil {
		return err
	}
	return e.options.Provider.check(lib)
}

// Signature reads the model's declaration.
func (e engine) Signature(m pipelines.Module) (pipelines.Signature, error) { return Signature(m) }

// Signature is what a module's model declares, constant inputs included; it needs
// no library.
func Signature(m pipelines.Module) (pipelines.Signature, error) {
	l, err := layout(m)
	return l.Signature, err
}

// layout is how the tensors of requests lie in those of the module's model.
func layout(m pipelines.Module) (onnx.Layout, error) {
	d, err := declaration(m)
	if err != nil {
		return onnx.Layout{}, err
	}
	l, err := d.Layout(m)
	if err != nil {
		return l, invalid(m.Name, "%s: %v", m.Model, err)
	}
	return l, nil
}

// Limit is the largest batch that a module's model takes; 0 where it is open or unknown.
func (e engine) Limit(m pipelines.Module) int { return limit(m) }

func limit(m pipelines.Module) int {
	l, err := layout(m)
	if err != nil {
		return 0
	}
	return l.Limit
}

func declaration(m pipelines.Module) (onnx.Declaration, error) {
	if m.Model == "" {
		return onnx.Declaration{}, invalid(m.Name, "there is no model; set model to an ONNX file")
	}
	d, err := onnx.ReadDeclaration(m.Model)
	if errors.Is(err, fs.ErrNotExist) {
		return d, fmt.Errorf("onnxruntime: module %q: %w", m.Name, err)
	}
	if err != nil {
		return d, invalid(m.Name, "%v", err)
	}
	return d, nil
}

func invalid(module, format string, args ...any) *wire.Error {
	return wire.Errorf(wire.CodeInvalid, module, "onnxruntime: "+format, args...)
}

// Load opens the module's model and runs every batch size once.
func (e engine) Load(ctx context.Context, m executors.Model) (executors.Instance, error) {
	if err := e.Available(); err != nil {
		return nil, err
	}
	lib, err := Find(e.options)
	if err != nil {
		return nil, err
	}
	l, err := layout(m.Module)
	if err != nil {
		return nil, err
	}
	if l, err = l.Only(m.Outputs); err != nil {
		return nil, invalid(m.Module.Name, "%s: %v", m.Module.Model, err)
	}
	constants, err := executors.NewConstants(m.Module, l.Signature)
	if err != nil {
		return nil, err
	}
	sizes, err := sizes(m, l.Limit)
	if err != nil {
		return nil, err
	}
	before := resident()
	pruned, err := prune(m.Module.Model, l)
	if err != nil {
		return nil, invalid(m.Module.Name, "%v", err)
	}
	n, err := open(lib, e.options.Provider, m.Module.Model, pruned, m.Module.Libraries, l, m.Cores)
	if err != nil {
		return nil, named(err, m.Module.Name)
	}
	in := &instance{
		module: m.Module.Name, signature: constants.Signature(l.Signature), constants: constants, layout: l, single: m.Module.Unbatched,
		network: n, most: sizes[0], fixed: l.Limit,
	}
	onCPU := e.options.Provider == CPU || e.options.Provider == ""
	if err := in.warmUp(ctx, sizes, m.Feeds, !onCPU); err != nil {
		_ = in.Close()
		return nil, named(err, m.Module.Name)
	}
	if onCPU {
		if pruned != nil { // its bytes have served
			debug.FreeOSMemory()
		}
		in.memory = max(resident()-before, 0)
	}
	return in, nil
}

// prune is the model without what only outputs need that are not wanted; nil where all are.
func prune(path string, l onnx.Layout) ([]byte, error) {
	if l.Whole {
		return nil, nil
	}
	raw, err := onnx.ReadRaw(path)
	if err != nil {
		return nil, err
	}
	var wanted []string
	for _, p := range l.Signature.Outputs {
		wanted = append(wanted, p.Name)
	}
	return onnx.Prune(raw, wanted)
}

// sizes are the batch sizes to be ready for, the largest first.
func sizes(m executors.Model, limit int) ([]int, error) {
	all := append(slices.Clone(m.Batches), m.MaxBatch)
	all = slices.DeleteFunc(all, func(n int) bool { return n == 0 })
	if len(all) == 0 {
		all = []int{1}
	}
	slices.SortFunc(all, func(a, b int) int { return cmp.Compare(b, a) })
	all = slices.Compact(all)
	if all[len(all)-1] < 1 || all[0] > maxBatch {
		return nil, invalid(m.Module.Name, "batch sizes %v are not all between 1 and %d", all, maxBatch)
	}
	if m.Module.Unbatched && all[0] > 1 {
		return nil, invalid(m.Module.Name, "a batch of %d for a module that takes one request at a time (batching = false)", all[0])
	}
	if limit > 0 && all[0] > limit {
		return nil, invalid(m.Module.Name, "a batch of %d is above the model's limit: its batch dimension is fixed at %d; set batches to at most that, or export the model with a dynamic batch dimension", all[0], limit)
	}
	return all, nil
}

// named puts the module into an error that does not name one yet.
func named(err error, module string) error {
	var e *wire.Error
	if errors.As(err, &e) && e.Stage == "" {
		e.Stage = module
	}
	return err
}

// InChild completes an engine that runs New(o) in child processes with what needs no child:
// whether it can run here, and signatures. Both look for the library once.
func InChild(inner executors.Engine, o Options) executors.Engine {
	return &remote{Engine: inner, available: sync.OnceValue(engine{options: o}.Available)}
}

type remote struct {
	executors.Engine
	available func() error
}

// Load loads the model in a child.
func (r *remote) Load(ctx context.Context, m executors.Model) (executors.Instance, error) {
	in, err := r.Engine.Load(ctx, m)
	return in, blamed(err, m)
}

// LoadTogether loads the models in one child.
func (r *remote) LoadTogether(ctx context.Context, all []executors.Model) ([]executors.Instance, error) {
	ins, err := executors.LoadTogether(ctx, r.Engine, all)
	if of := new(executors.TogetherError); errors.As(err, &of) {
		of.Err = blamed(of.Err, all[of.At])
	}
	return ins, err
}

// blamed adds to the end of a child the libraries that it had loaded, which are code of others.
func blamed(err error, m executors.Model) error {
	if e := new(wire.Error); errors.As(err, &e) && e.Code == wire.CodeUnavailable && len(m.Module.Libraries) > 0 {
		e.Reason += fmt.Sprintf("; the model loads %s, which may have ended it", strings.Join(m.Module.Libraries, ", "))
	}
	return err
}

// Available reports why the engine cannot run here; nil when it can.
func (r *remote) Available() error { return r.available() }

// Limit is the largest batch that the model takes; 0 where it is open.
func (r *remote) Limit(m pipelines.Module) int { return limit(m) }

// Signature reads the model's declaration.
func (r *remote) Signature(m pipelines.Module) (pipelines.Signature, error) { return Signature(m) }
