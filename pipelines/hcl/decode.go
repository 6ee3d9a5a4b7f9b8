package hcl

import (
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/files"
)

var rootSchema = &hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{
	{Type: "hardware", LabelNames: []string{"name"}},
	{Type: "pipeline", LabelNames: []string{"name"}},
	{Type: "variable", LabelNames: []string{"name"}},
	{Type: "locals"},
	{Type: "pool", LabelNames: []string{"name"}},
	{Type: "cluster", LabelNames: []string{"name"}},
	{Type: "provider", LabelNames: []string{"name"}},
	{Type: "function", LabelNames: []string{"name"}},
}}

var pipelineSchema = &hcl.BodySchema{
	Attributes: []hcl.AttributeSchema{
		{Name: "slo", Required: true}, {Name: "rate", Required: true},
		{Name: "arrivals"}, {Name: "attainment"}, {Name: "dispatch"}, {Name: "headroom"}, {Name: "accuracy"},
	},
	Blocks: []hcl.BlockHeaderSchema{
		planBlock, updateBlock,
		{Type: "input", LabelNames: []string{"name"}},
		{Type: "module", LabelNames: []string{"name"}},
		{Type: "output", LabelNames: []string{"name"}},
	},
}

var inputSchema = &hcl.BodySchema{Attributes: []hcl.AttributeSchema{
	{Name: "datatype", Required: true}, {Name: "shape", Required: true}, {Name: "typical"}, {Name: "sample"},
}}

var outputSchema = &hcl.BodySchema{Attributes: []hcl.AttributeSchema{{Name: "value", Required: true}}}

var moduleSchema = &hcl.BodySchema{Attributes: []hcl.AttributeSchema{
	{Name: "model"}, {Name: "function"}, {Name: "engine"}, {Name: "profile"},
	{Name: "inputs", Required: true}, {Name: "fanout"}, {Name: "rate"},
	{Name: "hardware"}, {Name: "batches"}, {Name: "parameters"}, {Name: "command"}, {Name: "files"},
	{Name: "batching"}, {Name: "batch_axis"}, {Name: "typical"}, {Name: "accuracy"},
}, Blocks: []hcl.BlockHeaderSchema{variantBlock}}

// decoder reads one declaration into its Config.
type decoder struct {
	config *Config
	ctx    *hcl.EvalContext
	diags  hcl.Diagnostics
}

func (c *Config) decode(body hcl.Body, opts LoadOptions) hcl.Diagnostics {
	d := &decoder{config: c}
	content := d.content(body, rootSchema)
	blocks := content.Blocks.ByType()
	d.ctx = d.scope(blocks["variable"], blocks["locals"], opts)
	for _, kind := range []struct {
		name   string
		decode func(*hcl.Block)
	}{
		{"hardware", d.hardware}, {"pipeline", d.pipeline}, {"provider", d.provider},
		{"function", d.function}, {"pool", d.pool}, {"cluster", d.cluster},
	} {
		for _, b := range blocks[kind.name] {
			kind.decode(b)
		}
	}
	c.decoded = d.diags
	return d.diags
}

func (d *decoder) report(diag *hcl.Diagnostic) { d.diags = append(d.diags, diag) }

// content reads a body by its schema; what does not belong there is reported.
func (d *decoder) content(body hcl.Body, schema *hcl.BodySchema) *hcl.BodyContent {
	content, diags := body.Content(schema)
	d.diags = append(d.diags, diags...)
	return content
}

func (d *decoder) place(path string, r hcl.Range) { d.config.ranges[path] = r }

// block reads a block of the top level by its schema: where it stands, what is in
// it and its attributes, which are nil where the block is declared twice.
func (d *decoder) block(b *hcl.Block, schema *hcl.BodySchema) (path string, content *hcl.BodyContent, attrs hcl.Attributes) {
	path = b.Type + "." + b.Labels[0]
	if !d.fresh(path, b.Type, b) {
		return path, nil, nil
	}
	content = d.content(b.Body, schema)
	return path, content, d.attributes(path, content)
}

// attributes notes where each attribute stands.
func (d *decoder) attributes(path string, content *hcl.BodyContent) hcl.Attributes {
	for name, a := range content.Attributes {
		d.place(path+"."+name, a.Expr.Range())
	}
	return content.Attributes
}

// fresh reports a second block of the same name and says whether it is new.
func (d *decoder) fresh(path, kind string, b *hcl.Block) bool {
	name := b.Labels[0]
	if earlier, taken := d.config.ranges[path]; taken {
		d.report(files.Problem("Declared twice", fmt.Sprintf("The %s %q is declared already at %s.", kind, name, earlier), &b.DefRange))
		return false
	}
	d.place(path, b.DefRange)
	if !pipelines.IsName(name) {
		d.report(files.Problem("Invalid name", fmt.Sprintf("%q cannot name a %s: use letters, digits, dots, hyphens and underscores, and start with a letter or digit.", name, kind), &b.LabelRanges[0]))
	}
	return true
}

func (d *decoder) pipeline(b *hcl.Block) {
	path, content, attrs := d.block(b, pipelineSchema)
	if attrs == nil {
		return
	}
	p := pipelines.Pipeline{Name: b.Labels[0]}
	d.duration(attrs["slo"], &p.SLO)
	d.number(attrs["rate"], &p.Rate)
	d.arrivals(attrs["arrivals"], b.DefRange.Filename, &p)
	d.attainment(attrs["attainment"], &p.Attainment)
	d.headroom(attrs["headroom"], &p.Headroom)
	d.text(attrs["dispatch"], &p.Dispatch)
	d.accuracy(attrs["accuracy"], &p.Accuracy)
	for _, b := range content.Blocks {
		d.part(&p, path, b)
	}
	d.config.Document.Pipelines = append(d.config.Document.Pipelines, p)
}

// part reads a plan, update, input, module or output of a pipeline.
func (d *decoder) part(p *pipelines.Pipeline, path string, b *hcl.Block) {
	if b.Type == planBlock.Type {
		d.planning(path, b, &p.Plan)
		return
	}
	if b.Type == updateBlock.Type {
		d.update(path, b, &p.Update)
		return
	}
	path += "." + b.Type + "." + b.Labels[0]
	if !d.fresh(path, b.Type, b) {
		return
	}
	switch b.Type {
	case "input":
		p.Inputs = append(p.Inputs, d.input(path, b))
	case "module":
		p.Modules = append(p.Modules, d.module(b, path))
	case "output":
		attrs := d.attributes(path, d.content(b.Body, outputSchema))
		out := pipelines.Output{Name: b.Labels[0]}
		if a := attrs["value"]; a != nil {
			out.From, _ = d.reference(a.Expr)
		}
		p.Outputs = append(p.Outputs, out)
	}
}

func (d *decoder) input(path string, b *hcl.Block) pipelines.Port {
	attrs := d.attributes(path, d.content(b.Body, inputSchema))
	in := pipelines.Port{Name: b.Labels[0]}
	d.text(attrs["datatype"], &in.Datatype)
	d.integers(attrs["shape"], &in.Shape)
	d.integers(attrs["typical"], &in.Typical)
	if a := attrs["sample"]; a != nil && attrs["typical"] != nil {
		d.report(files.Problem("Two typical shapes", "The shape of the sample is the typical one; give sample or typical.", ptr(a.Expr.Range())))
	} else {
		d.sample(&in, a, b.DefRange.Filename)
	}
	return in
}

func (d *decoder) module(b *hcl.Block, path string) pipelines.Module {
	content := d.content(b.Body, moduleSchema)
	attrs := d.attributes(path, content)
	folder := b.DefRange.Filename
	m := pipelines.Module{Name: b.Labels[0], Fanout: 1}
	d.text(attrs["function"], &m.Function)
	d.text(attrs["engine"], &m.Engine)
	d.runs(&m, attrs, folder)
	m.Inputs = d.bindings(attrs["inputs"], path)
	if a := attrs["fanout"]; a != nil {
		m.Scatter = true
		d.number(a, &m.Fanout)
	}
	d.number(attrs["rate"], &m.Rate)
	d.texts(attrs["hardware"], &m.Hardware)
	d.batches(attrs["batches"], &m.Batches)
	d.parameters(attrs["parameters"], &m.Parameters)
	d.batching(attrs["batching"], &m.Unbatched)
	d.batchAxis(attrs["batch_axis"], &m.BatchAxis)
	d.typicals(attrs["typical"], &m.Typical)
	if m.ProfileFile != "" {
		d.profile(&m, attrs["profile"])
		if m.Unbatched {
			d.single(&m, attrs["profile"])
		}
	}
	for _, b := range content.Blocks {
		d.variant(b, path, &m)
	}
	return m
}

// runs reads what a module and its variants both say of what they run.
func (d *decoder) runs(m *pipelines.Module, attrs hcl.Attributes, folder string) {
	d.text(attrs["model"], &m.Model)
	if !strings.Contains(m.Model, "://") {
		m.Model = absolute(m.Model, folder)
	}
	d.command(attrs["command"], folder, &m.Command)
	d.texts(attrs["files"], &m.Files)
	for i := range m.Files {
		m.Files[i] = absolute(m.Files[i], folder)
	}
	d.file(attrs["profile"], folder, &m.ProfileFile)
	d.accuracy(attrs["accuracy"], &m.Accuracy)
}

// reference reads input.NAME or module.NAME.OUTPUT.
func (d *decoder) reference(e hcl.Expression) (pipelines.Ref, bool) {
	traversal, diags := hcl.AbsTraversalForExpr(e)
	names := make([]string, 0, 3)
	for _, step := range traversal {
		switch s := step.(type) {
		case hcl.TraverseRoot:
			names = append(names, s.Name)
		case hcl.TraverseAttr:
			names = append(names, s.Name)
		case hcl.TraverseIndex: // module["a.b"].out reaches names that are no words
			if s.Key.Type().FriendlyName() == "string" {
				names = append(names, s.Key.AsString())
			}
		}
	}
	if !diags.HasErrors() && len(names) == len(traversal) {
		switch {
		case len(names) == 2 && names[0] == "input":
			return pipelines.Ref{Port: names[1]}, true
		case len(names) == 3 && names[0] == "module":
			return pipelines.Ref{Module: names[1], Port: names[2]}, true
		}
	}
	d.report(files.Problem("Not a reference", "Refer to an input of the pipeline as input.NAME, or to the output of a module as module.NAME.OUTPUT.", ptr(e.Range())))
	return pipelines.Ref{}, false
}

func ptr[T any](v T) *T { return &v }
