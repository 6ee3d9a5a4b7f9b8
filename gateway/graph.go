package gateway

import (
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/flow"
	"github.com/harpagon/harpagon/scheduler/placement"
)

// graph is a deployment compiled for running. It does not change, except for
// the count of its requests.
type graph struct {
	*flow.Graph
	deployment placement.Deployment
	title      string // kind and name, for errors
	slo        time.Duration
	inputs     []pipelines.Port
	nodes      []*node // as in flow.Graph.Nodes
	outputs    []output
	largest    int       // size of a query; 0 where requests are none
	number     int       // at the door; see unguarded
	function   *function // nil where executors of this fleet serve

	inFlight atomic.Int64
}

// node is a module in a graph, with where its tensors come from and go to.
type node struct {
	*flow.Node
	index    int
	declared pipelines.Module
	station  *station

	inputs []input
	outs   []string // ports that are referred to, in order of first mention
}

// input is one bound input of a node.
type input struct {
	name string
	from *node // nil for an input of the pipeline
	port int   // index into from.outs, or into graph.inputs

	varies bool // of an input of the pipeline: its first dimension
}

type output struct {
	name string
	from *node
	port int
}

// compile checks what running depends on and leaves out modules that no output
// needs. The stations are set by Install.
func compile(d placement.Deployment) (*graph, error) {
	p := &d.Pipeline
	if len(p.Outputs) == 0 {
		return nil, fmt.Errorf("gateway: pipeline %q has no output", p.Name)
	}
	compiled, err := flow.Compile(p)
	if err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	g := &graph{Graph: compiled, deployment: d, title: fmt.Sprintf("%s %q", d.Kind(), p.Name), slo: p.SLO, inputs: p.Inputs}
	for i := range g.Nodes {
		n := &node{Node: &g.Nodes[i], index: i}
		n.declared = *p.Module(n.Module)
		if err := g.bind(n); err != nil {
			return nil, err
		}
		g.nodes = append(g.nodes, n)
	}
	for _, o := range p.Outputs {
		from, port, err := g.resolve(o.From)
		if err != nil {
			return nil, err
		}
		g.outputs = append(g.outputs, output{name: o.Name, from: from, port: port})
	}
	if d.Pool != nil {
		g.largest = d.Pipeline.Modules[0].Profile.Latency(d.Pool.Base).Largest()
	}
	g.schedule()
	return g, nil
}

// resolve finds the node and port that a reference points at; the node is nil
// for an input of the pipeline.
func (g *graph) resolve(r pipelines.Ref) (*node, int, error) {
	if r.Module == "" {
		i := slices.IndexFunc(g.inputs, func(p pipelines.Port) bool { return p.Name == r.Port })
		if i < 0 {
			return nil, 0, fmt.Errorf("gateway: pipeline %q has no input %q", g.deployment.Pipeline.Name, r.Port)
		}
		return nil, i, nil
	}
	n := g.node(r.Module)
	if n == nil {
		return nil, 0, fmt.Errorf("gateway: pipeline %q has no module %q", g.deployment.Pipeline.Name, r.Module)
	}
	port := slices.Index(n.outs, r.Port)
	if port < 0 {
		port = len(n.outs)
		n.outs = append(n.outs, r.Port)
	}
	return n, port, nil
}

// bind resolves the inputs of a node.
func (g *graph) bind(n *node) error {
	for _, b := range n.declared.Inputs {
		if b.IsConstant() {
			continue // its executors fill it in
		}
		from, port, err := g.resolve(b.From)
		if err != nil {
			return err
		}
		in := input{name: b.Name, from: from, port: port}
		if from == nil {
			shape := g.inputs[port].Shape
			in.varies = len(shape) > 0 && shape[0] < 0
		}
		n.inputs = append(n.inputs, in)
	}
	return nil
}

// brought says whether an input is one of the request itself.
func (n *node) brought() bool {
	return slices.ContainsFunc(n.inputs, func(in input) bool { return in.from == nil })
}

// node of a module by name; nil when the graph does not run it.
func (g *graph) node(name string) *node {
	for _, n := range g.nodes {
		if n.Module == name {
			return n
		}
	}
	return nil
}
