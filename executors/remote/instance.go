package remote

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/internal/osutil"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/oip"
)

// Instance is a model on a server. Close ends its connection, not the server.
type Instance struct {
	target    Target
	module    string
	options   Options
	signature pipelines.Signature  // of what Run takes
	sent      pipelines.Signature  // with the constants of which every request has its own
	constants *executors.Constants // these
	whole     []wire.NamedTensor   // constants that go along once, however many requests there are
	stacked   bool
	names     []string // outputs that are requested
	largest   int      // requests in a batch
	regions   *regions // nil where tensors travel
	ahead     bool     // the server keeps a batch until it is done with the one before
	graded    []graded // its memory after each batch size

	mu   sync.Mutex
	down error // why batches fail at once; nil while the model is ready

	stop  context.CancelFunc
	watch sync.WaitGroup
}

// Attach waits until the target is ready, reads its metadata and warms it up.
// The instance owns the target's client; it is closed, too, when this fails.
func Attach(ctx context.Context, t Target, m executors.Model, o Options) (*Instance, error) {
	in := &Instance{target: t, module: m.Module.Name, options: o.withDefaults(), largest: max(m.MaxBatch, 1)}
	if in.target.Timeout <= 0 {
		in.target.Timeout = in.options.Timeout
	}
	if err := in.load(ctx, m); err != nil {
		if in.regions != nil {
			in.regions.close()
		}
		_ = t.Server.Close()
		return nil, fmt.Errorf("model %q on %s: %w", t.Model, t.Where, err)
	}
	life, stop := context.WithCancel(context.Background())
	in.stop = stop
	in.watch.Go(func() { in.watchHealth(life) })
	return in, nil
}

func (in *Instance) load(ctx context.Context, m executors.Model) error {
	if err := in.wait(ctx); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, in.options.LoadTimeout)
	defer cancel()
	meta, err := in.target.Server.Metadata(limited, in.target.Model, in.target.Version)
	if err != nil {
		return err
	}
	if err := in.describe(meta, m.Module, m.Outputs); err != nil {
		return err
	}
	if s, ok := in.target.Server.(sharer); ok && in.target.Here {
		extensions, err := s.Extensions(limited)
		if err != nil {
			return err
		}
		in.regions, in.ahead = newRegions(s, extensions), slices.Contains(extensions, oip.ExtensionAhead)
	}
	return in.warmUp(ctx, m)
}

// describe makes the signature for one request from the server's metadata. wanted are the
// outputs that the pipeline refers to; none means all.
func (in *Instance) describe(meta *wire.Metadata, m pipelines.Module, wanted []string) error {
	if err := executors.BatchFirst(m); err != nil {
		return err
	}
	if len(meta.Inputs) == 0 || len(meta.Outputs) == 0 {
		return errors.New("its metadata names no inputs or no outputs; a server of the Open Inference Protocol v2 names both")
	}
	for _, p := range append(slices.Clone(meta.Inputs), meta.Outputs...) {
		if p.Name == "" || p.Datatype != "" && wire.Size(p.Datatype) < 0 {
			return fmt.Errorf("its metadata has the tensor %q of datatype %q, which the protocol does not have", p.Name, p.Datatype)
		}
	}
	told := pipelines.Signature{Inputs: paired(meta, m), Outputs: meta.Outputs}
	if why := m.UnknownLoop(told); why != "" {
		return errors.New(why)
	}
	if len(wanted) > 0 {
		wanted = slices.Concat(wanted, told.Loops())
	}
	fed, err := in.shared(told.Inputs, m)
	if err != nil {
		return err
	}
	in.stacked = !m.Unbatched && (in.target.Batch == pipelines.BatchStack || in.target.Batch == "" && meta.Platform != oip.Platform &&
		!slices.ContainsFunc(append(slices.Clone(fed), meta.Outputs...), func(p pipelines.Port) bool { return !varies(p) }))
	for _, p := range fed {
		one := in.single(p)
		if m.Loops[p.Name] != "" && slices.Contains(one.Shape, -1) {
			return fmt.Errorf("its input %q keeps state, of a shape %v that varies for one request, so it has no beginning; give it a fixed one", p.Name, one.Shape)
		}
		in.sent.Inputs = append(in.sent.Inputs, one)
	}
	for _, p := range meta.Outputs {
		if len(wanted) == 0 || slices.Contains(wanted, p.Name) {
			in.sent.Outputs = append(in.sent.Outputs, in.single(p))
			in.names = append(in.names, p.Name)
		}
	}
	if in.constants, err = executors.NewConstants(m, in.sent); err != nil {
		return err
	}
	in.signature = in.constants.Signature(in.sent)
	for _, name := range wanted {
		if !slices.Contains(in.names, name) {
			return fmt.Errorf("it has no output %q; it has %s", name, portNames(meta.Outputs))
		}
	}
	return nil
}

// paired are the inputs with what goes back to them, as the module pairs them: metadata over gRPC
// cannot.
func paired(meta *wire.Metadata, m pipelines.Module) []pipelines.Port {
	inputs := slices.Clone(meta.Inputs)
	for i := range inputs {
		p := &inputs[i]
		if slices.ContainsFunc(meta.Outputs, func(o pipelines.Port) bool { return o.Name == m.Loops[p.Name] && o.Datatype == p.Datatype }) {
			p.Loop = m.Loops[p.Name]
		}
	}
	return inputs
}

func varies(p pipelines.Port) bool { return len(p.Shape) > 0 && p.Shape[0] < 0 }

// shared takes out the constants that all requests of a batch share, because their
// first dimension is no batch, and returns the other inputs.
func (in *Instance) shared(inputs []pipelines.Port, m pipelines.Module) (others []pipelines.Port, err error) {
	for _, p := range inputs {
		at := slices.IndexFunc(m.Inputs, func(b pipelines.Binding) bool { return b.Name == p.Name && b.IsConstant() })
		if at < 0 || varies(p) && !m.Unbatched {
			others = append(others, p)
			continue
		}
		c, err := pipelines.ConstantAt(m.Inputs[at].Value, p)
		if err != nil {
			return nil, wire.Errorf(wire.CodeInvalid, m.Name, "input %q, which is %s %v: %v; correct it in the declaration", p.Name, p.Datatype, p.Shape, err)
		}
		in.whole = append(in.whole, wire.NamedTensor{Name: p.Name, Tensor: wire.FromConstant(c)})
	}
	return others, nil
}

// single is the port for one request.
func (in *Instance) single(p pipelines.Port) pipelines.Port {
	if in.stacked && len(p.Shape) > 0 {
		p.Shape = p.Shape[1:]
	}
	p.Shape = append([]int64{}, p.Shape...)
	return p
}

func portNames(ports []pipelines.Port) string {
	all := make([]string, len(ports))
	for i, p := range ports {
		all[i] = p.Name
	}
	return strings.Join(all, ", ")
}

// Signature is that of the server's metadata, without batch dimension.
func (in *Instance) Signature() pipelines.Signature { return in.signature }

// Ahead reports whether the server keeps a batch that is sent while it computes one.
func (in *Instance) Ahead() bool { return in.ahead }

// Close ends the connection.
func (in *Instance) Close() error {
	in.stop()
	in.watch.Wait()
	in.setDown(errors.New("it has been closed"))
	if in.regions != nil {
		in.regions.close()
	}
	return in.target.Server.Close()
}

// Run computes one batch on the server.
func (in *Instance) Run(ctx context.Context, items [][]wire.Tensor) ([][]wire.Tensor, error) {
	if err := in.isDown(); err != nil {
		return nil, wire.Errorf(wire.CodeUnavailable, in.module, "model %q on %s is not well: %v", in.target.Model, in.target.Where, err)
	}
	if len(items) < 1 || len(items) > in.largest {
		return nil, wire.Errorf(wire.CodeInvalid, in.module, "a batch of %d requests, but 1 to %d were loaded", len(items), in.largest)
	}
	for i, item := range items {
		if err := executors.Check(in.signature.Inputs, item); err != nil {
			return nil, wire.Errorf(wire.CodeInvalid, in.module, "request %d of the batch: %v", i+1, err)
		}
	}
	items = in.constants.Fill(items)
	answers := make([][]wire.Tensor, len(items))
	err := in.compute(ctx, items, answers)
	if err != nil {
		return nil, in.typed(ctx, err)
	}
	return answers, nil
}

// atOnce is how many requests of a batch are under way at a time, where each
// goes by itself.
const atOnce = 16

func (in *Instance) compute(ctx context.Context, items, answers [][]wire.Tensor) error {
	if in.stacked {
		for _, like := range alike(items) {
			if err := in.together(ctx, items, answers, like); err != nil {
				return err
			}
		}
		return nil
	}
	if len(items) == 1 {
		return in.alone(ctx, items, answers, 0)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	places := make(chan struct{}, atOnce)
	var under sync.WaitGroup
	for i := range items {
		places <- struct{}{}
		under.Go(func() {
			defer func() { <-places }()
			if err := in.alone(ctx, items, answers, i); err != nil {
				cancel(err) // the first counts
			}
		})
	}
	under.Wait()
	return context.Cause(ctx)
}

// alike groups the requests by the shapes of their tensors.
func alike(items [][]wire.Tensor) [][]int {
	var groups [][]int
	same := func(a, b []wire.Tensor) bool {
		return slices.EqualFunc(a, b, func(x, y wire.Tensor) bool {
			return x.Datatype == y.Datatype && slices.Equal(x.Shape, y.Shape)
		})
	}
next:
	for i := range items {
		for g, group := range groups {
			if same(items[group[0]], items[i]) {
				groups[g] = append(group, i)
				continue next
			}
		}
		groups = append(groups, []int{i})
	}
	return groups
}

// together sends requests whose tensors have the same shapes as one.
func (in *Instance) together(ctx context.Context, items, answers [][]wire.Tensor, like []int) error {
	outputs, err := in.askPlaced(ctx, items, like)
	if errors.Is(err, errNotPlaced) {
		outputs, err = in.askStacked(ctx, items, like)
	}
	if err != nil {
		return err
	}
	for _, i := range like {
		answers[i] = make([]wire.Tensor, len(in.names))
	}
	for j, t := range outputs {
		p := &in.signature.Outputs[j]
		want := append([]int64{int64(len(like))}, p.Shape...)
		if !fits(p, want, t) {
			return in.unfit(p, want, t)
		}
		rows, err := wire.Rows(t)
		if err != nil {
			return in.unfit(p, want, t)
		}
		for k, i := range like {
			answers[i][j] = rows[k]
		}
	}
	return nil
}

// askStacked sends requests as one whose tensors travel.
func (in *Instance) askStacked(ctx context.Context, items [][]wire.Tensor, like []int) ([]wire.Tensor, error) {
	q := in.request()
	column := make([]wire.Tensor, len(like))
	for j := range in.sent.Inputs {
		for k, i := range like {
			column[k] = items[i][j]
		}
		stack, err := wire.Stack(column)
		if err != nil {
			return nil, wire.Errorf(wire.CodeInternal, in.module, "%v", err)
		}
		q.Inputs = append(q.Inputs, wire.NamedTensor{Name: in.sent.Inputs[j].Name, Tensor: stack})
	}
	return in.ask(ctx, in.travel(q))
}

// travel sends a request with its tensors.
func (in *Instance) travel(q *wire.InferRequest) func(context.Context) (*wire.InferResponse, error) {
	return func(ctx context.Context) (*wire.InferResponse, error) {
		return in.target.Server.Infer(ctx, q, in.target.Version)
	}
}

// alone sends one request by itself.
func (in *Instance) alone(ctx context.Context, items, answers [][]wire.Tensor, i int) error {
	q := in.request()
	for j, t := range items[i] {
		q.Inputs = append(q.Inputs, wire.NamedTensor{Name: in.sent.Inputs[j].Name, Tensor: t})
	}
	outputs, err := in.ask(ctx, in.travel(q))
	if err != nil {
		return err
	}
	for j, t := range outputs {
		if p := &in.signature.Outputs[j]; !fits(p, p.Shape, t) {
			return in.unfit(p, p.Shape, t)
		}
	}
	answers[i] = outputs
	return nil
}

func (in *Instance) request() *wire.InferRequest {
	return &wire.InferRequest{Pipeline: in.target.Model, Inputs: slices.Clone(in.whole), Outputs: in.names}
}

// fits compares an answer with the metadata, which may leave everything open.
func fits(p *pipelines.Port, shape []int64, t wire.Tensor) bool {
	return p.Datatype == "" || p.Datatype == t.Datatype && wire.ShapeFits(shape, t.Shape)
}

func (in *Instance) unfit(p *pipelines.Port, want []int64, t wire.Tensor) error {
	return wire.Errorf(wire.CodeInternal, in.module, "%s answered output %q as %s %v where its metadata name %s %v",
		in.target.Where, p.Name, t.Datatype, t.Shape, p.Datatype, want)
}

// How often, and after what wait, a request is sent again that the server has
// not computed.
const (
	attempts = 3
	again    = 50 * time.Millisecond
)

// ask sends a request and gives the outputs in the order of the signature.
func (in *Instance) ask(ctx context.Context, send func(context.Context) (*wire.InferResponse, error)) ([]wire.Tensor, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, in.target.Timeout, errTimeout)
	defer cancel()
	var r *wire.InferResponse
	var err error
	for n := 1; ; n++ {
		r, err = send(ctx)
		if err == nil || n == attempts || !safe(err) || osutil.SleepTimer(ctx, again<<(n-1)) != nil {
			break
		}
	}
	if err != nil {
		if in.timedOut(ctx, err) {
			err = wire.Errorf(wire.CodeUnavailable, in.module, "%s has not answered within %v", in.target.Where, in.target.Timeout)
		}
		return nil, err
	}
	outputs := make([]wire.Tensor, len(in.names))
	for j, name := range in.names {
		at := slices.IndexFunc(r.Outputs, func(t wire.NamedTensor) bool { return t.Name == name })
		if at < 0 {
			return nil, wire.Errorf(wire.CodeInternal, in.module, "%s answered without output %q, which its metadata name", in.target.Where, name)
		}
		outputs[j] = r.Outputs[at].Tensor
	}
	return outputs, nil
}

// timedOut reports that the timeout has passed. The server receives it, too, and may give up a
// moment before this side does.
func (in *Instance) timedOut(ctx context.Context, err error) bool {
	if cause := context.Cause(ctx); cause != nil {
		return errors.Is(cause, errTimeout)
	}
	at, _ := ctx.Deadline()
	return time.Until(at) < in.target.Timeout/10 && (errors.Is(err, wire.ErrDeadline) || errors.Is(err, wire.ErrCanceled))
}

var errTimeout = errors.New("the server's time is up")

// safe is true where the server has not computed the request.
func safe(err error) bool {
	return errors.Is(err, wire.ErrUnavailable) && !errors.Is(err, oip.ErrLost)
}

// typed makes the error that an executor understands: a model that has gone is
// one that must be loaded again.
func (in *Instance) typed(ctx context.Context, err error) *wire.Error {
	var e *wire.Error
	if !errors.As(err, &e) {
		e = wire.Errorf(wire.CodeInternal, "", "%v", err)
	}
	out := *e
	out.Stage = in.module
	if e.Stage != "" && e.Stage != in.module {
		out.Reason = "at " + e.Stage + ": " + e.Reason // of another Harpagon
	}
	if out.Code == wire.CodeNotFound || out.Code == wire.CodeCanceled && ctx.Err() == nil {
		out.Code = wire.CodeUnavailable
	}
	return &out
}
