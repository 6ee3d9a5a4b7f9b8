package hcl

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

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

var hardwareSchema = &hcl.BodySchema{Attributes: []hcl.AttributeSchema{
	{Name: "price"}, {Name: "memory"}, {Name: "count"}, {Name: "cores"}, {Name: "interruptions"}, {Name: "recovery"},
	{Name: "prices"}, {Name: "listed_as"}, {Name: "market"},
}}

func (d *decoder) hardware(b *hcl.Block) {
	_, _, attrs := d.block(b, hardwareSchema)
	if attrs == nil {
		return
	}
	h := pipelines.Hardware{Name: b.Labels[0]}
	d.number(attrs["price"], &h.Price)
	d.size(attrs["memory"], &h.Memory)
	d.integer(attrs["count"], &h.Count)
	d.integer(attrs["cores"], &h.Cores)
	d.number(attrs["interruptions"], &h.Interruptions)
	d.duration(attrs["recovery"], &h.Recovery)
	d.listed(b, attrs, &h)
	d.config.Document.Hardware = append(d.config.Document.Hardware, h)
}

// listed reads the price of a kind of hardware from the list that it names.
func (d *decoder) listed(b *hcl.Block, attrs hcl.Attributes, h *pipelines.Hardware) {
	list := attrs["prices"]
	if list == nil {
		if attrs["price"] == nil {
			d.report(files.Problem("Missing price", `Hardware has a price in money per hour, or takes it from a list: price = 0.5, or prices = "prices.csv".`, &b.DefRange))
		}
		for _, name := range []string{"listed_as", "market"} {
			if a := attrs[name]; a != nil {
				d.report(files.Problem("No price list", name+` says which price of a list is meant; name the list: prices = "prices.csv".`, ptr(a.Expr.Range())))
			}
		}
		return
	}
	h.Listed.Name = h.Name
	d.text(attrs["listed_as"], &h.Listed.Name)
	d.text(attrs["market"], &h.Listed.Market)
	if a := attrs["price"]; a != nil {
		d.report(files.Problem("Two prices", "The price stands on the list; give price or prices.", ptr(a.Expr.Range())))
		return
	}
	if d.file(list, b.DefRange.Filename, &h.Listed.File); h.Listed.File == "" {
		return // reported
	}
	if a := attrs["interruptions"]; a != nil {
		d.report(files.Problem("Two rates of interruptions", "How often a device is taken back stands on the price list; take interruptions out, or state the price here, too.", ptr(a.Expr.Range())))
		return
	}
	d.fromList(list, h)
}

func (d *decoder) fromList(a *hcl.Attribute, h *pipelines.Hardware) {
	src, ok := d.read(h.Listed.File, a, "price list", "A price list is CSV with the columns hardware,price and, for devices of the spot market, spot_price,interruptions.")
	if !ok {
		return
	}
	prices, diags := files.ReadPrices(h.Listed.File, src)
	d.diags = append(d.diags, diags...)
	if !diags.HasErrors() {
		d.diags = append(d.diags, prices.Set(h, ptr(a.Expr.Range()))...)
	}
}

var clusterSchema = &hcl.BodySchema{Attributes: []hcl.AttributeSchema{
	{Name: "hardware", Required: true}, {Name: "devices"}, {Name: "dispatch"}, {Name: "pipelines", Required: true},
}}

func (d *decoder) cluster(b *hcl.Block) {
	path, _, attrs := d.block(b, clusterSchema)
	if attrs == nil {
		return
	}
	c := pipelines.Cluster{Name: b.Labels[0]}
	d.text(attrs["hardware"], &c.Hardware)
	d.text(attrs["dispatch"], &c.Dispatch)
	d.texts(attrs["pipelines"], &c.Pipelines)
	if a := attrs["pipelines"]; a != nil {
		if list, diags := hcl.ExprList(a.Expr); !diags.HasErrors() {
			for i, one := range list {
				d.place(path+".pipelines."+strconv.Itoa(i), one.Range())
			}
		}
	}
	if a := attrs["devices"]; a != nil {
		d.devices(a, &c.Devices)
	}
	d.config.Document.Clusters = append(d.config.Document.Clusters, c)
}

// devices reads a number, or { min = 2, max = 64 }.
func (d *decoder) devices(a *hcl.Attribute, to *pipelines.Range) {
	v, diags := a.Expr.Value(d.ctx)
	if !diags.HasErrors() && v.IsWhollyKnown() && !v.IsNull() && v.Type().IsObjectType() {
		kind := cty.Object(map[string]cty.Type{"min": cty.Number, "max": cty.Number})
		v, ok := d.value(a, kind, "a number of devices, or { min = 2, max = 64 }")
		if !ok {
			return
		}
		for name, field := range map[string]*int{"min": &to.Min, "max": &to.Max} {
			d.integer(&hcl.Attribute{Name: name, Expr: hcl.StaticExpr(v.GetAttr(name), a.Expr.Range())}, field)
		}
		return
	}
	d.integer(a, &to.Min)
	to.Max = to.Min
}

var planBlock = hcl.BlockHeaderSchema{Type: "plan"}

// planSchema has what the plan of any kind of service may say; the validator
// tells what does not fit the kind.
var planSchema = &hcl.BodySchema{Attributes: []hcl.AttributeSchema{
	{Name: "policy"}, {Name: "cost_model"}, {Name: "without"}, {Name: "split"}, {Name: "reading"},
	{Name: "concurrency"}, {Name: "allow_unsound"},
}}

// planning reads the plan block of a service.
func (d *decoder) planning(path string, b *hcl.Block, to *pipelines.Planning) {
	path += pipelines.PlanPath
	if earlier, taken := d.config.ranges[path]; taken {
		d.report(files.Problem("Declared twice", fmt.Sprintf("There is a plan block already at %s; a service has one.", earlier), &b.DefRange))
		return
	}
	d.place(path, b.DefRange)
	attrs := d.attributes(path, d.content(b.Body, planSchema))
	d.text(attrs["policy"], &to.Policy)
	d.text(attrs["cost_model"], &to.CostModel)
	d.texts(attrs["without"], &to.Without)
	d.text(attrs["split"], &to.Split)
	d.text(attrs["reading"], &to.Reading)
	d.boolean(attrs["concurrency"], &to.Concurrency)
	d.boolean(attrs["allow_unsound"], &to.AllowUnsound)
}

func (d *decoder) boolean(a *hcl.Attribute, to *bool) {
	if v, ok := d.value(a, cty.Bool, "true or false"); ok {
		*to = v.True()
	}
}

var updateBlock = hcl.BlockHeaderSchema{Type: "update"}

var updateSchema = &hcl.BodySchema{Attributes: []hcl.AttributeSchema{
	{Name: "canary"}, {Name: "shadow"}, {Name: "hold"}, {Name: "revert"},
}}

// update reads the update block of a pipeline.
func (d *decoder) update(path string, b *hcl.Block, to *pipelines.Update) {
	path += pipelines.UpdatePath
	if earlier, taken := d.config.ranges[path]; taken {
		d.report(files.Problem("Declared twice", fmt.Sprintf("There is an update block already at %s; a pipeline has one.", earlier), &b.DefRange))
		return
	}
	d.place(path, b.DefRange)
	content := d.content(b.Body, updateSchema)
	attrs := d.attributes(path, content)
	d.number(attrs["canary"], &to.Canary)
	d.number(attrs["shadow"], &to.Shadow)
	d.duration(attrs["hold"], &to.Hold)
	d.revert(attrs["revert"], &to.Revert)
	for _, name := range []string{"canary", "shadow"} {
		d.place(path+"."+name, rangeOf(attrs[name], b.DefRange)) // a fault may be that it is missing
	}
}

func rangeOf(a *hcl.Attribute, otherwise hcl.Range) hcl.Range {
	if a == nil {
		return otherwise
	}
	return a.Expr.Range()
}

// revert reads { attainment = SHARE, cost = FACTOR }.
func (d *decoder) revert(a *hcl.Attribute, to *pipelines.Revert) {
	v, ok := d.value(a, cty.DynamicPseudoType, revertHint)
	if !ok {
		return
	}
	if !v.Type().IsObjectType() {
		d.report(files.Problem("Wrong type", "revert is "+revertHint+".", ptr(a.Expr.Range())))
		return
	}
	for name, x := range v.AsValueMap() {
		into := map[string]*float64{"attainment": &to.Attainment, "cost": &to.Cost}[name]
		if into == nil || x.IsNull() || x.Type() != cty.Number {
			d.report(files.Problem("Wrong type", fmt.Sprintf("%s is not a number that revert has; it is %s.", name, revertHint), ptr(a.Expr.Range())))
			continue
		}
		*into, _ = x.AsBigFloat().Float64()
	}
}

const revertHint = "what a change may cost at the most, such as { attainment = 0.98, cost = 1.2 }"
