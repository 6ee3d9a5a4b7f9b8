package gateway

import (
	"errors"
	"slices"
	"strings"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/quantity"
	"github.com/harpagon/harpagon/scheduler/flow"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/attach"
)

// collect is the value of a node's port with respect to a frame: as it is when
// the frame is of the node's scope, otherwise the rows of all its items below
// the frame, in order, stacked along a new first axis. It is for an input of the node to, or
// for the caller where that is nil.
func (r *Request) collect(n *Node, port int, frame int32, to *Node, input string) (wire.Tensor, *wire.Error) {
	at := flow.Item{Node: n.index, Frame: frame}
	if r.flow.Scope(frame) == n.Scope {
		return r.values[r.flow.Index(at)][port], nil
	}
	var room [16]int32
	frames := r.flow.Frames(at.Node, frame, room[:0])
	if len(frames) == 0 {
		return noRows(n, port, to, input), nil
	}
	rows := make([]wire.Tensor, len(frames))
	for i, f := range frames {
		at.Frame = f
		rows[i] = r.values[r.flow.Index(at)][port]
	}
	if err := r.Keep(wire.DataSize(rows)); err != nil {
		return wire.Tensor{}, err
	}
	return stack(n, port, rows)
}

func stack(n *Node, port int, rows []wire.Tensor) (wire.Tensor, *wire.Error) {
	t, err := wire.Stack(rows)
	if err != nil {
		return wire.Tensor{}, wire.Errorf(wire.CodeInternal, n.Name, "output %q cannot be gathered: %s",
			n.Outs[port], strings.TrimPrefix(err.Error(), "wire: "))
	}
	return t, nil
}

// noRows is a gathered tensor without items. Its row comes from the signature of the module
// that makes it, and from that of the module that takes it where the former has none; a
// dimension that varies for both is 0.
func noRows(n *Node, port int, to *Node, input string) wire.Tensor {
	t := wire.Tensor{Datatype: wire.FP32, Shape: []int64{0}}
	var made, taken *pipelines.Port
	if sig := n.Module.Signature(); sig != nil {
		made = typed(sig.Outputs, n.Outs[port])
	}
	var row []int64 // as it is taken
	if to != nil {
		if sig := to.Module.Signature(); sig != nil {
			taken = typed(sig.Inputs, input)
		}
	}
	if taken != nil {
		if row = taken.Shape; !to.scatter && len(row) > 0 {
			row = row[1:]
		}
		t.Datatype, t.Shape = taken.Datatype, append(t.Shape, row...)
	}
	if made != nil {
		t.Datatype, t.Shape = made.Datatype, append(t.Shape[:1], made.Shape...)
	}
	for k := range t.Shape {
		if t.Shape[k] < 0 && len(row) == len(t.Shape)-1 {
			t.Shape[k] = row[k-1]
		}
		t.Shape[k] = max(t.Shape[k], 0)
	}
	return t
}

// typed is the port of that name, where its datatype is known; else nil.
func typed(ports []pipelines.Port, name string) *pipelines.Port {
	if p := portOf(ports, name); p != nil && p.Datatype != "" {
		return p
	}
	return nil
}

func portOf(ports []pipelines.Port, name string) *pipelines.Port {
	for i := range ports {
		if ports[i].Name == name {
			return &ports[i]
		}
	}
	return nil
}

// split cuts the inputs of a scattering node into k rows, one after the other,
// each of them with all inputs. Inputs that are one rank higher than the module
// takes are split, the others repeated.
func split(n *Node, inputs []wire.Tensor) (rows []wire.Tensor, k int, e *wire.Error) {
	var room [8]bool
	splits := room[:0]
	k = -1
	for j := range inputs {
		splits = append(splits, n.splits(j, &inputs[j]))
		if !splits[j] {
			continue
		}
		switch first := int(inputs[j].Shape[0]); {
		case k < 0:
			k = first
		case k != first:
			return nil, 0, wire.Errorf(wire.CodeInternal, n.Name, "its inputs have %d and %d rows to fan out; they must have the same number", k, first)
		}
	}
	if k < 0 {
		return nil, 0, wire.Errorf(wire.CodeInternal, n.Name, "none of its inputs has rows to fan out")
	}
	if k > pipelines.MaxItems {
		return nil, 0, wire.Errorf(wire.CodeInternal, n.Name, "%d rows to fan out; at most %d are allowed", k, pipelines.MaxItems)
	}
	rows = make([]wire.Tensor, k*len(inputs))
	for j := range inputs {
		if err := fill(rows, j, len(inputs), &inputs[j], splits[j]); err != nil {
			return nil, 0, wire.Errorf(wire.CodeInternal, n.Name, "input %q cannot be split: %v", n.Inputs[j].Name, err)
		}
	}
	return rows, k, nil
}

// splits reports whether input j is one to split: by its rank where the module
// states a shape, else by whether its maker states that the first dimension
// varies, else by whether it has one.
// The only input of a module that states none is.
func (n *Node) splits(j int, t *wire.Tensor) bool {
	if len(t.Shape) == 0 {
		return false
	}
	in := &n.Inputs[j]
	if sig := n.Module.Signature(); sig != nil {
		if p := portOf(sig.Inputs, in.Name); p != nil && p.Datatype != "" {
			return len(t.Shape) == len(p.Shape)+1
		}
	}
	if len(n.Inputs) == 1 {
		return true
	}
	if in.From == nil {
		return in.varies
	}
	if in.From.Scope != n.common && in.Or == nil {
		return true // gathered
	}
	if sig := in.From.Module.Signature(); sig != nil {
		p := portOf(sig.Outputs, in.From.Outs[in.Port])
		if p != nil && p.Datatype != "" && len(p.Shape) > 0 {
			return p.Shape[0] < 0
		}
	}
	return true
}

// fill sets input j of every row of so many inputs. Rows alias the tensor's
// memory.
func fill(rows []wire.Tensor, j, width int, t *wire.Tensor, splits bool) error {
	if !splits {
		for i := j; i < len(rows); i += width {
			rows[i] = *t
		}
		return nil
	}
	all, err := wire.Rows(*t)
	if err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), "wire: "))
	}
	for i := range all {
		rows[i*width+j] = all[i]
	}
	return nil
}

// A pool serves queries. A query is one request of several items, the rows of
// its inputs; it goes to one executor as a batch of its items and nothing else.

// sizeOf is how many rows an item of the node brings.
func (n *Node) sizeOf(inputs []wire.Tensor) int32 {
	if !n.Sized || len(inputs) == 0 || len(inputs[0].Shape) == 0 {
		return 1
	}
	return int32(inputs[0].Shape[0])
}

// AppendRows adds the tensors that an executor is sent for the item.
func (it *Item) AppendRows(rows [][]wire.Tensor, r *Route) [][]wire.Tensor {
	if len(r.loops) > 0 {
		return append(rows, r.stateful(it))
	}
	inputs := r.inputs(it.Inputs)
	if !it.Node.Sized {
		return append(rows, inputs)
	}
	n, first := int(it.Size), len(rows)
	rows = slices.Grow(rows, n)
	all := make([]wire.Tensor, n*len(inputs))
	for i := range n {
		rows = append(rows, all[i*len(inputs):(i+1)*len(inputs):(i+1)*len(inputs)])
	}
	for j := range inputs {
		cut, err := wire.Rows(inputs[j])
		if err != nil {
			continue // the executor refuses empty tensors with a reason
		}
		for i := range min(n, len(cut)) {
			rows[first+i][j] = cut[i]
		}
	}
	return rows
}

// Gather puts the answers to an item's rows together.
func (it *Item) Gather(r *Route, rows [][]wire.Tensor) ([]wire.Tensor, *wire.Error) {
	if len(r.loops) > 0 {
		if err := r.keep(it, rows[0]); err != nil {
			return nil, err
		}
	}
	if !it.Node.Sized {
		return r.outputs(rows[0])
	}
	columns := make([][]wire.Tensor, len(it.Node.Outs))
	for _, row := range rows {
		values, err := r.outputs(row)
		if err != nil {
			return nil, err
		}
		for j := range columns {
			columns[j] = append(columns[j], values[j])
		}
	}
	out := make([]wire.Tensor, len(columns))
	for j := range columns {
		t, err := wire.Stack(columns[j])
		if err != nil {
			return nil, wire.Errorf(wire.CodeInternal, it.Node.Name, "output %q cannot be put together: %s", it.Node.Outs[j], strings.TrimPrefix(err.Error(), "wire: "))
		}
		out[j] = t
	}
	return out, nil
}

// Route states how the tensors of a node's items lie in the signature of an
// executor.
type Route struct {
	Node     *Node
	Err      *wire.Error // why the executor cannot serve the node
	in, out  []int       // in[j] is the binding for input j; out[j] is the output for Outs[j]
	straight bool        // in and out change nothing
	loops    []loop      // of a module with state; in is -1 there
}

// newRoute makes the route of an executor for a node.
func newRoute(n *Node, h *attach.Hello) *Route {
	signature := h.SignatureOf(n.Resident)
	if signature == nil {
		return &Route{Node: n, Err: wire.Errorf(wire.CodeInternal, n.Name, "executor %q does not run %s", h.Executor, n.Resident)}
	}
	r := &Route{Node: n, straight: len(n.Outs) == len(signature.Outputs)}
	r.loops, r.Err = loopsOf(n, signature)
	for j, p := range signature.Inputs {
		i := slices.IndexFunc(n.Inputs, func(in Input) bool { return in.Name == p.Name })
		if i < 0 && p.Loop == "" && r.Err == nil {
			r.Err = wire.Errorf(wire.CodeInternal, n.Name, "executor %q takes an input %q that the module does not bind", h.Executor, p.Name)
		}
		r.in = append(r.in, i)
		r.straight = r.straight && i == j
	}
	if fed := len(r.in) - len(r.loops); len(n.Inputs) != fed && r.Err == nil {
		r.Err = wire.Errorf(wire.CodeInternal, n.Name, "executor %q takes %d inputs, but the module binds %d", h.Executor, fed, len(n.Inputs))
	}
	for j, name := range n.Outs {
		i := slices.IndexFunc(signature.Outputs, func(p pipelines.Port) bool { return p.Name == name })
		if i < 0 && r.Err == nil {
			r.Err = wire.Errorf(wire.CodeInternal, n.Name, "executor %q has no output %q", h.Executor, name)
		}
		r.out = append(r.out, i)
		r.straight = r.straight && i == j
	}
	return r
}

func (r *Route) inputs(bound []wire.Tensor) []wire.Tensor {
	if r.straight || r.Err != nil {
		return bound
	}
	return pick(bound, r.in)
}

// outputs are those of the node in an answer. An executor may be another project's, so its
// answer is checked: as many outputs as its signature has, each with as much data as its shape
// needs.
func (r *Route) outputs(made []wire.Tensor) ([]wire.Tensor, *wire.Error) {
	switch {
	case r.Err != nil:
		return nil, r.Err
	case len(r.out) > 0 && slices.Max(r.out) >= len(made):
		return nil, wire.Errorf(wire.CodeInternal, r.Node.Name, "an answer has %d outputs; its executor promised more", len(made))
	}
	out := made
	if !r.straight || len(made) != len(r.out) {
		out = pick(made, r.out)
	}
	for j := range out {
		if err := out[j].Validate(); err != nil {
			return nil, wire.Errorf(wire.CodeInternal, r.Node.Name, "output %q of an answer: %s", r.Node.Outs[j], strings.TrimPrefix(err.Error(), "wire: "))
		}
	}
	return out, nil
}

func pick(from []wire.Tensor, at []int) []wire.Tensor {
	out := make([]wire.Tensor, len(at))
	for j, i := range at {
		out[j] = from[i]
	}
	return out
}

// MaxState bounds what a module keeps of one stream, in bytes of its tensors.
const MaxState = 1 << 20

// loop is state in the signature of an executor.
type loop struct {
	in, out int // places among inputs and outputs
	port    pipelines.Port
}

// loopsOf are those of a signature; err where an output is missing.
func loopsOf(n *Node, s *pipelines.Signature) (all []loop, err *wire.Error) {
	for i, p := range s.Inputs {
		if p.Loop == "" {
			continue
		}
		out := slices.IndexFunc(s.Outputs, func(o pipelines.Port) bool { return o.Name == p.Loop })
		if out < 0 {
			return nil, wire.Errorf(wire.CodeInternal, n.Name, "its executor has no output %q, which is to go back to input %q", p.Loop, p.Name)
		}
		all = append(all, loop{i, out, p})
	}
	switch {
	case n.state && len(all) == 0:
		err = wire.Errorf(wire.CodeInternal, n.Name, "its executor keeps no state")
	case !n.state && len(all) > 0:
		err = wire.Errorf(wire.CodeInternal, n.Name, "its executor keeps state, and the module does not declare that; set state = true")
	}
	return all, err
}

// stateful are the inputs of an executor with the state of the item's stream among them: zeros where
// it begins.
func (r *Route) stateful(it *Item) []wire.Tensor {
	all := make([]wire.Tensor, len(r.in))
	for j, i := range r.in {
		if i >= 0 {
			all[j] = it.Inputs[i]
		}
	}
	it.fresh = false
	for _, l := range r.loops {
		at := slices.IndexFunc(it.state, func(t wire.NamedTensor) bool { return t.Name == l.port.Name && l.fits(&t.Tensor) })
		if at < 0 {
			all[l.in], it.fresh = wire.Zeros(l.port.Datatype, l.port.Shape), true
			continue
		}
		all[l.in] = it.state[at].Tensor
	}
	return all
}

func (l *loop) fits(t *wire.Tensor) bool {
	return t.Datatype == l.port.Datatype && wire.ShapeFits(l.port.Shape, t.Shape)
}

// keep takes the state out of an answer. It has memory of its own: that of an answer may be that of
// a batch.
func (r *Route) keep(it *Item, made []wire.Tensor) *wire.Error {
	var left []wire.NamedTensor
	var size int64
	for _, l := range r.loops {
		if l.out >= len(made) {
			return wire.Errorf(wire.CodeInternal, it.Node.Name, "an answer has %d outputs; its executor promised more", len(made))
		}
		t := made[l.out]
		if err := t.Validate(); err != nil || !l.fits(&t) {
			return wire.Errorf(wire.CodeInternal, it.Node.Name, "output %q is %s %v, and cannot go back to input %q, which is %s %v", l.port.Loop, t.Datatype, t.Shape, l.port.Name, l.port.Datatype, l.port.Shape)
		}
		if size += int64(len(t.Data)); size > MaxState {
			return wire.Errorf(wire.CodeInternal, it.Node.Name, "its state of this stream has %s, and at most %s are kept; let the module keep less", quantity.Bytes(size), quantity.Bytes(MaxState))
		}
		t.Data, t.Shape = slices.Clone(t.Data), slices.Clone(t.Shape)
		left = append(left, wire.NamedTensor{Name: l.port.Name, Tensor: t})
	}
	it.left = left
	return nil
}
