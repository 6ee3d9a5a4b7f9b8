// Package build declares pipelines, pools and functions in Go. What comes out is
// the same value that package hcl reads from HCL.
package build

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/files"
)

// Builder declares a pipeline in Go. Its methods may be chained; what is wrong
// comes out of Build, all of it.
//
//	p, err := build.New("traffic").
//		SLO(400*time.Millisecond).Rate(10).
//		Input("frame", "FP32", 3, 96, 96).
//		Module(build.Network("detect", "models/detect.onnx").In("image", build.FromInput("frame"))).
//		Output("map", build.From("detect", "map")).
//		Build()
type Builder struct {
	p    pipelines.Pipeline
	errs []error
}

// New starts a pipeline, to which requests come as those of many people do.
func New(name string) *Builder {
	return &Builder{p: pipelines.Pipeline{Name: name, Arrivals: pipelines.ArrivalsPoisson}}
}

// SLO sets the end-to-end latency objective.
func (b *Builder) SLO(d time.Duration) *Builder { b.p.SLO = d; return b }

// Rate sets the requests per second at the source.
func (b *Builder) Rate(perSecond float64) *Builder { b.p.Rate = perSecond; return b }

// Arrivals sets how requests come: "even", as those of a camera, "poisson" (where it is not called), "gamma:SHAPE", "trace:FILE".
func (b *Builder) Arrivals(kind string) *Builder { b.p.Arrivals = kind; return b }

// Attainment sets the share of requests that must finish within the SLO; 0 asks
// for none. Without it random arrivals are planned for DefaultAttainment.
func (b *Builder) Attainment(share float64) *Builder {
	if b.p.Attainment = share; share == 0 {
		b.p.Attainment = pipelines.NoAttainment
	}
	return b
}

// Headroom sets the share of the SLO that plans leave free for what machines do
// besides: 0.1 for a tenth, 0 for nothing. Without it, it follows from the
// profiles (see Pipeline.Kept).
func (b *Builder) Headroom(share float64) *Builder { b.p.Headroom = &share; return b }

// Accuracy is the least that the variants of modules may add up to; see
// pipelines.Pipeline.Right.
func (b *Builder) Accuracy(share float64) *Builder { b.p.Accuracy = share; return b }

// Dispatch sets the dispatch policy.
func (b *Builder) Dispatch(policy string) *Builder { b.p.Dispatch = policy; return b }

// Update reports how changes are carried out.
func (b *Builder) Update(u pipelines.Update) *Builder { b.p.Update = u; return b }

// Stream reports that requests are frames of streams, which come evenly; the rate is that of all. How many
// there are may follow from how they come and go. It is called once for each kind, where these have
// names.
func (b *Builder) Stream(s pipelines.Stream) *Builder {
	if s = s.Sized(); s.Kind != "" {
		b.p.Kinds = append(b.p.Kinds, s)
	} else {
		b.p.Stream = s
	}
	b.p.Rate, b.p.Arrivals = b.p.StreamsTotal(), pipelines.ArrivalsEven
	return b
}

// Overlay declares what is drawn on the frames of streams.
func (b *Builder) Overlay(o pipelines.Overlay) *Builder { b.p.Overlay = o; return b }

// Plan sets how the pipeline is planned.
func (b *Builder) Plan(p pipelines.Planning) *Builder { b.p.Plan = p; return b }

// Input declares an input of the pipeline, with its shape for one request.
func (b *Builder) Input(name, datatype string, shape ...int64) *Builder {
	if b.p.Input(name) != nil {
		b.errs = append(b.errs, fmt.Errorf("pipelines: input %q is declared twice", name))
	}
	b.p.Inputs = append(b.p.Inputs, pipelines.Port{Name: name, Datatype: datatype, Shape: append([]int64{}, shape...)})
	return b
}

// Typical sets the shape of a typical request of an input whose shape varies.
func (b *Builder) Typical(input string, shape ...int64) *Builder {
	if in := b.p.Input(input); in != nil {
		in.Typical = append([]int64{}, shape...)
	} else {
		b.errs = append(b.errs, fmt.Errorf("pipelines: there is no input %q yet to be typical of", input))
	}
	return b
}

// Sample takes the shape of a typical request from a file; see SampleShape.
func (b *Builder) Sample(input, path string) *Builder {
	in := b.p.Input(input)
	if in == nil {
		b.errs = append(b.errs, fmt.Errorf("pipelines: there is no input %q yet for the sample %s", input, path))
		return b
	}
	shape, err := files.SampleShape(*in, path)
	if err != nil {
		b.errs = append(b.errs, fmt.Errorf("pipelines: unusable sample: %w", err))
	}
	in.Typical, in.Sample = shape, path
	return b
}

// Module adds a module.
func (b *Builder) Module(m *ModuleBuilder) *Builder {
	if b.p.Module(m.m.Name) != nil {
		b.errs = append(b.errs, fmt.Errorf("pipelines: module %q is declared twice", m.m.Name))
	}
	b.errs = append(b.errs, m.errs...)
	b.p.Modules = append(b.p.Modules, m.m)
	return b
}

// Output declares a value that the pipeline returns.
func (b *Builder) Output(name string, from pipelines.Ref) *Builder {
	b.p.Outputs = append(b.p.Outputs, pipelines.Output{Name: name, From: from})
	return b
}

// Build returns the pipeline, or everything that is wrong with it whatever
// hardware it will meet. pipelines.Document finds the rest.
func (b *Builder) Build() (pipelines.Pipeline, error) {
	if !pipelines.IsName(b.p.Name) {
		b.errs = append(b.errs, fmt.Errorf("pipelines: %q cannot name a pipeline", b.p.Name))
	}
	for _, m := range b.p.Modules {
		if !pipelines.IsName(m.Name) {
			b.errs = append(b.errs, fmt.Errorf("pipelines: %q cannot name a module", m.Name))
		}
	}
	if len(b.errs) > 0 {
		return b.p, errors.Join(b.errs...)
	}
	// Any hardware will do here: names in the modules stand for themselves.
	doc := pipelines.Document{Pipelines: []pipelines.Pipeline{b.p}, Hardware: []pipelines.Hardware{{Name: "any", Price: 1}}}
	for _, m := range b.p.Modules {
		for _, name := range m.Hardware {
			doc.Hardware = append(doc.Hardware, pipelines.Hardware{Name: name, Price: 1})
		}
		for _, at := range m.Profile.Points {
			doc.Hardware = append(doc.Hardware, pipelines.Hardware{Name: at.Hardware, Price: 1})
		}
	}
	return b.p, pipelines.CheckDocument(doc, nil)
}

// From refers to an output of a module.
func From(module, output string) pipelines.Ref { return pipelines.Ref{Module: module, Port: output} }

// FromInput refers to an input of the pipeline.
func FromInput(name string) pipelines.Ref { return pipelines.Ref{Port: name} }

// ModuleBuilder declares one module. What is wrong comes out of Builder.Build.
type ModuleBuilder struct {
	m    pipelines.Module
	errs []error
}

// Network starts a module that runs an ONNX file.
func Network(name, model string) *ModuleBuilder {
	return &ModuleBuilder{m: pipelines.Module{Name: name, Model: model, Fanout: 1}}
}

// Step starts a module that runs a function.
func Step(name, function string) *ModuleBuilder {
	return &ModuleBuilder{m: pipelines.Module{Name: name, Function: function, Fanout: 1}}
}

// Profiled starts a module of which only a profile is known.
func Profiled(name string, points ...pipelines.Point) *ModuleBuilder {
	return (&ModuleBuilder{m: pipelines.Module{Name: name, Fanout: 1}}).Profile(points...)
}

// Either feeds an input of the module from that of two branches which ran: one by when and the
// other by else of one tensor.
func (b *ModuleBuilder) Either(name string, from, or pipelines.Ref) *ModuleBuilder {
	b.m.Inputs = append(b.m.Inputs, pipelines.Binding{Name: name, From: from, Or: or})
	return b
}

// In feeds an input of the module.
func (b *ModuleBuilder) In(name string, from pipelines.Ref) *ModuleBuilder {
	b.m.Inputs = append(b.m.Inputs, pipelines.Binding{Name: name, From: from})
	return b
}

// InConstant feeds an input of the module with a constant: a number, string or
// boolean of any Go type, which is a scalar, or a slice or array of these.
func (b *ModuleBuilder) InConstant(name string, value any) *ModuleBuilder {
	plain, err := pipelines.Plain(value)
	if err == nil && !pipelines.IsPlainTensor(plain) {
		err = errors.New("a constant is a number, string or boolean, or a list of these")
	}
	if err != nil {
		b.errs = append(b.errs, fmt.Errorf("pipelines: input %q of module %q: %w", name, b.m.Name, err))
		return b
	}
	b.m.Inputs = append(b.m.Inputs, pipelines.Binding{Name: name, Value: plain})
	return b
}

// Unbatched makes the module take one request at a time, whose tensors go through
// as they are, without a batch dimension.
func (b *ModuleBuilder) Unbatched() *ModuleBuilder { b.m.Unbatched = true; return b }

// State makes the module keep state between the frames of a stream.
func (b *ModuleBuilder) State() *ModuleBuilder { b.m.State = true; return b }

// StateOf makes the module keep what an output gives for the input of the next frame, where their
// names do not pair them.
func (b *ModuleBuilder) StateOf(input, output string) *ModuleBuilder {
	if b.m.Loops == nil {
		b.m.Loops = map[string]string{}
	}
	b.m.State, b.m.Loops[input] = true, output
	return b
}

// BatchAxis reports which dimension of an input or output of the model is the batch,
// counted from 0, or NoBatchAxis where it has none.
func (b *ModuleBuilder) BatchAxis(name string, axis int) *ModuleBuilder {
	if b.m.BatchAxis == nil {
		b.m.BatchAxis = map[string]int{}
	}
	b.m.BatchAxis[name] = axis
	return b
}

// Fanout splits inputs with a varying first dimension into requests, mean per
// upstream request.
func (b *ModuleBuilder) Fanout(mean float64) *ModuleBuilder {
	b.m.Scatter, b.m.Fanout = true, mean
	return b
}

// FanoutAtMost is Fanout where there are at most so many requests per upstream request.
func (b *ModuleBuilder) FanoutAtMost(mean float64, most int) *ModuleBuilder {
	b.m.Most = most
	return b.Fanout(mean)
}

// When makes the module run only in items in which some element of the tensor is not zero;
// Fanout is then the share of these.
func (b *ModuleBuilder) When(condition pipelines.Ref) *ModuleBuilder {
	b.m.Scatter, b.m.Most, b.m.When = true, 1, condition
	return b
}

// Else makes the module run only in items in which no element of the tensor is other than zero.
func (b *ModuleBuilder) Else(condition pipelines.Ref) *ModuleBuilder {
	b.m.Else = true
	return b.When(condition)
}

// Gather makes the module run once for each item of the scope of a module above it, with all
// that have come of that item. Without a name it is the scope around that of its inputs.
func (b *ModuleBuilder) Gather(module string) *ModuleBuilder {
	b.m.Gather = cmp.Or(module, pipelines.GatherAround)
	return b
}

// Rate overrides the module's request rate.
func (b *ModuleBuilder) Rate(perSecond float64) *ModuleBuilder { b.m.Rate = perSecond; return b }

// Engine asks for an engine by name.
func (b *ModuleBuilder) Engine(name string) *ModuleBuilder { b.m.Engine = name; return b }

// Command is the program, with its arguments, that serves the model over a
// socket; see package executors/process.
func (b *ModuleBuilder) Command(program string, arguments ...string) *ModuleBuilder {
	b.m.Command = append([]string{program}, arguments...)
	return b
}

// Libraries are shared libraries with operators that the network uses; see
// pipelines.Module.
func (b *ModuleBuilder) Libraries(paths ...string) *ModuleBuilder { b.m.Libraries = paths; return b }

// Files are paths of what the command needs besides its arguments.
func (b *ModuleBuilder) Files(paths ...string) *ModuleBuilder { b.m.Files = paths; return b }

// On limits the hardware that may run the module.
func (b *ModuleBuilder) On(hardware ...string) *ModuleBuilder { b.m.Hardware = hardware; return b }

// Batches sets the batch sizes to profile.
func (b *ModuleBuilder) Batches(sizes ...int) *ModuleBuilder {
	b.m.Batches = slices.Compact(slices.Sorted(slices.Values(sizes)))
	return b
}

// Parameter sets a parameter of the function: a number, string or boolean of any
// Go type, or a slice or map of these, such as []string{"car", "bus"}. It is kept
// as a file would declare it: numbers as float64, slices as []any and maps as
// map[string]any.
func (b *ModuleBuilder) Parameter(name string, value any) *ModuleBuilder {
	plain, err := pipelines.Plain(value)
	if err != nil {
		b.errs = append(b.errs, fmt.Errorf("pipelines: parameter %q of module %q: %w", name, b.m.Name, err))
		return b
	}
	if b.m.Parameters == nil {
		b.m.Parameters = map[string]any{}
	}
	b.m.Parameters[name] = plain
	return b
}

// Typical sets the shape of a typical request at an input of the module whose
// shape varies.
func (b *ModuleBuilder) Typical(input string, shape ...int64) *ModuleBuilder {
	if b.m.Typical == nil {
		b.m.Typical = map[string][]int64{}
	}
	b.m.Typical[input] = append([]int64{}, shape...)
	return b
}

// Profile reports what was measured of the module.
func (b *ModuleBuilder) Profile(points ...pipelines.Point) *ModuleBuilder {
	b.m.Profile.Points = append(b.m.Profile.Points, points...)
	return b
}

// Accuracy is the share of the network's answers that are right.
func (b *ModuleBuilder) Accuracy(share float64) *ModuleBuilder { b.m.Accuracy = share; return b }

// Variant is another network that may serve in place of the module's own.
func (b *ModuleBuilder) Variant(v pipelines.Variant) *ModuleBuilder {
	b.m.Variants = append(b.m.Variants, v)
	return b
}

// PoolBuilder declares a pool in Go. Its methods may be chained; what is wrong
// comes out of Build, all of it.
//
//	p, err := build.NewPool("ranking").
//		SLO(350*time.Millisecond).Budget(2.5).
//		Base("g4dn.xlarge").On("g4dn.xlarge", "r5n.large").
//		Profile(points...).Sizes(mix...).
//		Build()
type PoolBuilder struct {
	p    pipelines.Pool
	errs []error
}

// NewPool starts a pool.
func NewPool(name string) *PoolBuilder { return &PoolBuilder{p: pipelines.Pool{Name: name}} }

// SLO sets the latency objective of every query.
func (b *PoolBuilder) SLO(d time.Duration) *PoolBuilder { b.p.SLO = d; return b }

// Budget sets the money per hour that the pool may cost.
func (b *PoolBuilder) Budget(perHour float64) *PoolBuilder { b.p.Budget = perHour; return b }

// Base names the kind of hardware that meets the SLO at every size.
func (b *PoolBuilder) Base(hardware string) *PoolBuilder { b.p.Base = hardware; return b }

// On limits the hardware that may be in the pool.
func (b *PoolBuilder) On(hardware ...string) *PoolBuilder { b.p.Hardware = hardware; return b }

// Arrivals sets how queries come: "even", "poisson", "gamma:SHAPE".
func (b *PoolBuilder) Arrivals(kind string) *PoolBuilder { b.p.Arrivals = kind; return b }

// Plan sets how the pool is planned.
func (b *PoolBuilder) Plan(p pipelines.Planning) *PoolBuilder { b.p.Plan = p; return b }

// Profile reports how long queries take; the Batch of a point is a size.
func (b *PoolBuilder) Profile(points ...pipelines.Point) *PoolBuilder {
	b.p.Profile.Points = append(b.p.Profile.Points, points...)
	return b
}

// Learned leaves the pool unmeasured: what queries take is learned while it serves.
func (b *PoolBuilder) Learned() *PoolBuilder { b.p.Learned = true; return b }

// Sizes reports how often queries have which size.
func (b *PoolBuilder) Sizes(sizes ...pipelines.Size) *PoolBuilder {
	for _, s := range sizes {
		switch {
		case s.Size < 1 || s.Size > pipelines.MaxBatch:
			b.errs = append(b.errs, fmt.Errorf("pipelines: a query has between 1 and %d items, not %d", pipelines.MaxBatch, s.Size))
		case !(s.Weight >= 0) || s.Weight > pipelines.MaxWeight:
			b.errs = append(b.errs, fmt.Errorf("pipelines: size %d has the weight %v; a weight is from zero to %.0g", s.Size, s.Weight, pipelines.MaxWeight))
		case slices.ContainsFunc(b.p.Sizes, func(other pipelines.Size) bool { return other.Size == s.Size }):
			b.errs = append(b.errs, fmt.Errorf("pipelines: size %d is given twice", s.Size))
		}
		b.p.Sizes = append(b.p.Sizes, s)
	}
	slices.SortFunc(b.p.Sizes, func(a, b pipelines.Size) int { return a.Size - b.Size })
	return b
}

// Build returns the pool, or everything that is wrong with it whatever prices
// it will meet. pipelines.Document finds the rest.
func (b *PoolBuilder) Build() (pipelines.Pool, error) {
	if !pipelines.IsName(b.p.Name) {
		b.errs = append(b.errs, fmt.Errorf("pipelines: %q cannot name a pool", b.p.Name))
	}
	if len(b.errs) > 0 {
		return b.p, errors.Join(b.errs...)
	}
	doc := pipelines.Document{Pools: []pipelines.Pool{b.p}}
	for _, at := range b.p.Profile.Points {
		if doc.HardwareNamed(at.Hardware).Name == "" {
			doc.Hardware = append(doc.Hardware, pipelines.Hardware{Name: at.Hardware, Price: b.p.Budget})
		}
	}
	if !(b.p.Budget > 0) {
		doc.Hardware = nil // a budget of nothing is reported, prices are not
		for _, at := range b.p.Profile.Points {
			if doc.HardwareNamed(at.Hardware).Name == "" {
				doc.Hardware = append(doc.Hardware, pipelines.Hardware{Name: at.Hardware, Price: 1})
			}
		}
	}
	return b.p, pipelines.CheckDocument(doc, nil)
}

// FunctionBuilder declares a function in Go. Its methods may be chained; what
// is wrong comes out of Build, all of it.
//
//	f, err := build.NewFunction("vgg19", cloud).
//		Profile(coefficients).
//		Input("image", "FP32", 3, 224, 224).
//		Application("assistant", 500*time.Millisecond, 5).
//		Application("archive", time.Second, 20).
//		Build()
type FunctionBuilder struct {
	f     pipelines.Function
	cloud pipelines.Provider
}

// NewFunction starts a function that a provider runs.
func NewFunction(name string, p pipelines.Provider) *FunctionBuilder {
	return &FunctionBuilder{f: pipelines.Function{Name: name, Provider: p.Name}, cloud: p}
}

// Profile sets how long the model takes; see ReadFunctionProfile.
func (b *FunctionBuilder) Profile(p pipelines.FunctionProfile) *FunctionBuilder {
	b.f.Profile = p
	return b
}

// Plan sets how the function is planned.
func (b *FunctionBuilder) Plan(p pipelines.Planning) *FunctionBuilder { b.f.Plan = p; return b }

// Model sets the ONNX file that a provider on this machine computes with.
func (b *FunctionBuilder) Model(path string) *FunctionBuilder { b.f.Model = path; return b }

// Input declares an input, with its shape for one request.
func (b *FunctionBuilder) Input(name, datatype string, shape ...int64) *FunctionBuilder {
	b.f.Inputs = append(b.f.Inputs, pipelines.Port{Name: name, Datatype: datatype, Shape: append([]int64{}, shape...)})
	return b
}

// Application adds a source of requests.
func (b *FunctionBuilder) Application(name string, slo time.Duration, rate float64) *FunctionBuilder {
	b.f.Applications = append(b.f.Applications, pipelines.Application{Name: name, SLO: slo, Rate: rate})
	return b
}

// Build returns the function, or everything that is wrong with it or its
// provider.
func (b *FunctionBuilder) Build() (pipelines.Function, error) {
	var errs []error
	if !pipelines.IsName(b.f.Name) {
		errs = append(errs, fmt.Errorf("pipelines: %q cannot name a function", b.f.Name))
	}
	for _, a := range b.f.Applications {
		if !pipelines.IsName(a.Name) {
			errs = append(errs, fmt.Errorf("pipelines: %q cannot name an application", a.Name))
		}
	}
	return b.f, errors.Join(append(errs, pipelines.CheckFunction(&b.f, &b.cloud))...)
}
