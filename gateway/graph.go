package gateway

import (
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/harpagon/harpagon/dispatcher"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/dispatch/admission"
	"github.com/harpagon/harpagon/scheduler/placement"
)

// Queue takes items that are ready to be dispatched.
type Queue interface {
	Arrive(it *dispatcher.Item)
	Cancel(it *dispatcher.Item)
	// Fits reports whether n items of a request that have come of one, of which this is the
	// first, can be in time.
	Fits(it *dispatcher.Item, n int) bool
}

// Graph is a generation compiled for running. It does not change, except for
// the count of its requests.
type Graph struct {
	*dispatcher.Generation
	Title   string // kind and name, for errors
	SLO     time.Duration
	Inputs  []pipelines.Port
	Nodes   []*Node // as in the generation
	Outputs []Output

	// Whole means that the one module takes what the request brings and its outputs are passed on
	// unread, as those of a function are.
	Whole bool

	InFlight atomic.Int64

	rules    []admission.StreamRules // of a pipeline whose requests are frames, one for each kind of streams
	stateful bool                    // modules keep state between them

	queue    Queue
	gateway  dispatcher.Gateway
	exceeded func(ExceedInfo) // nil where nobody observes it
}

// Module is what stays of a module for as long as it is the same, from one
// deployment to the next.
type Module struct {
	Identity string // see placement.Identity

	signature atomic.Pointer[pipelines.Signature] // of the executor that came last
}

// Signature is that of the module's executors; nil before one has come.
func (m *Module) Signature() *pipelines.Signature { return m.signature.Load() }

// Announce notes the signature of an executor.
func (m *Module) Announce(s *pipelines.Signature) { m.signature.Store(s) }

// Node is a module in a graph, with where its tensors come from and go to.
type Node struct {
	Name string
	// Resident is its name to executors that run all modules of a cluster; empty to
	// those that run one.
	Resident string

	Scope  int32 // of its items
	Sized  bool  // its items are queries
	Inputs []Input
	Outs   []string // ports that are referred to, in order of first mention
	Module *Module  // set before the graph runs

	index   int32
	state   bool  // it keeps some between the frames of a stream
	common  int32 // scope of its inputs
	scatter bool
	most    int    // items of one, as declared; 0 where there is no bound
	when    *Input // its condition; nil for none
	not     bool   // it runs where that does not hold
}

// Input is one bound input of a node.
type Input struct {
	Name string
	From *Node  // nil for an input of the pipeline
	Port int    // index into From.Outs, or into Graph.Inputs
	Or   *Input // where From is of a branch that did not run; nil for what always comes

	varies bool // of an input of the pipeline: its first dimension
}

// Output is one output of a graph.
type Output struct {
	Name string
	From *Node // nil for an input of the pipeline
	Port int
}

// Compile checks what running depends on and leaves out modules that no output
// needs. Items go to the queue as those of the gateway. The modules of the nodes are
// to be set by the caller.
func Compile(of *dispatcher.Generation, q Queue, gateway dispatcher.Gateway) (*Graph, error) {
	d := &of.Deployment
	p := &d.Pipeline
	if len(p.Outputs) == 0 {
		return nil, fmt.Errorf("gateway: pipeline %q has no output", p.Name)
	}
	g := &Graph{
		Generation: of, Title: fmt.Sprintf("%s %q", d.Kind(), p.Name), SLO: p.SLO, Inputs: p.Inputs, Whole: d.Function != nil,
		queue: q, gateway: gateway,
	}
	for _, kind := range p.Sending() {
		g.rules = append(g.rules, admission.StreamRules{Stream: kind})
	}
	for i := range of.Nodes {
		at := &of.Nodes[i]
		n := &Node{Name: at.Module, Scope: at.Scope, index: int32(i), common: at.Common, scatter: at.Scatter}
		n.Sized, n.most, n.state = p.Module(n.Name).Sized, p.Module(n.Name).MostItems(), p.Module(n.Name).State
		g.stateful = g.stateful || n.state
		if d.Within != "" {
			n.Resident = placement.Resident(p.Name, n.Name)
		}
		if err := g.bind(n, p.Module(n.Name)); err != nil {
			return nil, err
		}
		g.Nodes = append(g.Nodes, n)
	}
	for _, o := range p.Outputs {
		from, port, err := g.resolve(o.From)
		if err != nil {
			return nil, err
		}
		g.Outputs = append(g.Outputs, Output{Name: o.Name, From: from, Port: port})
	}
	return g, nil
}

// resolve finds the node and port that a reference points at; the node is nil
// for an input of the pipeline.
func (g *Graph) resolve(r pipelines.Ref) (*Node, int, error) {
	if r.Module == "" {
		i := slices.IndexFunc(g.Inputs, func(p pipelines.Port) bool { return p.Name == r.Port })
		if i < 0 {
			return nil, 0, fmt.Errorf("gateway: pipeline %q has no input %q", g.Deployment.Pipeline.Name, r.Port)
		}
		return nil, i, nil
	}
	n := g.Node(r.Module)
	if n == nil {
		return nil, 0, fmt.Errorf("gateway: pipeline %q has no module %q", g.Deployment.Pipeline.Name, r.Module)
	}
	port := slices.Index(n.Outs, r.Port)
	if port < 0 {
		port = len(n.Outs)
		n.Outs = append(n.Outs, r.Port)
	}
	return n, port, nil
}

// bind resolves the inputs of a node, and its condition.
func (g *Graph) bind(n *Node, declared *pipelines.Module) error {
	if declared.IsConditional() {
		from, port, err := g.resolve(declared.When)
		if err != nil {
			return err
		}
		n.when, n.not = &Input{From: from, Port: port}, declared.Else
	}
	for _, b := range declared.Inputs {
		if b.IsConstant() {
			continue // its executors fill it in
		}
		from, port, err := g.resolve(b.From)
		if err != nil {
			return err
		}
		in := Input{Name: b.Name, From: from, Port: port}
		if from == nil {
			shape := g.Inputs[port].Shape
			in.varies = len(shape) > 0 && shape[0] < 0
		}
		if b.IsMerge() {
			or, port, err := g.resolve(b.Or)
			if err != nil {
				return err
			}
			in.Or = &Input{Name: b.Name, From: or, Port: port}
		}
		n.Inputs = append(n.Inputs, in)
	}
	return nil
}

// Index is the node's place in the graph.
func (n *Node) Index() int { return int(n.index) }

// TakesRequestInput reports whether an input is one of the request itself.
func (n *Node) TakesRequestInput() bool {
	return slices.ContainsFunc(n.Inputs, func(in Input) bool { return in.From == nil })
}

// Node of a module by name; nil when the graph does not run it.
func (g *Graph) Node(name string) *Node {
	for _, n := range g.Nodes {
		if n.Name == name {
			return n
		}
	}
	return nil
}

// OutputPort is an output as a caller sees it: gathered where it comes from a
// scope, and of shape [1] where it is a scalar.
func (g *Graph) OutputPort(o Output) pipelines.Port {
	port := pipelines.Port{Name: o.Name}
	if o.From == nil {
		port.Datatype, port.Shape = g.Inputs[o.Port].Datatype, g.Inputs[o.Port].Shape
		return port
	}
	if sig := o.From.Module.Signature(); sig != nil {
		if p := portOf(sig.Outputs, o.From.Outs[o.Port]); p != nil {
			port.Datatype, port.Shape = p.Datatype, slices.Clone(p.Shape)
		}
	}
	switch {
	case o.From.Scope != 0, o.From.Sized:
		port.Shape = append([]int64{-1}, port.Shape...)
	case len(port.Shape) == 0 && port.Datatype != "":
		port.Shape = []int64{1}
	}
	return port
}
