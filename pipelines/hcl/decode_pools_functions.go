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

var poolSchema = &hcl.BodySchema{
	Attributes: []hcl.AttributeSchema{
		{Name: "profile"}, {Name: "sizes"}, {Name: "slo", Required: true},
		{Name: "budget", Required: true}, {Name: "base", Required: true}, {Name: "hardware"}, {Name: "arrivals"},
		{Name: "model"}, {Name: "engine"}, {Name: "command"}, {Name: "files"}, {Name: "batch_axis"}, {Name: "overhead"}, {Name: "measure"},
	},
	Blocks: []hcl.BlockHeaderSchema{
		planBlock,
		{Type: "input", LabelNames: []string{"name"}},
		{Type: "output", LabelNames: []string{"name"}},
		{Type: "dispatch", LabelNames: []string{"policy"}},
	},
}

var (
	poolOutputSchema = &hcl.BodySchema{Attributes: []hcl.AttributeSchema{{Name: "value"}}}
	matchingSchema   = &hcl.BodySchema{Attributes: []hcl.AttributeSchema{{Name: "coefficients"}, {Name: "width"}}}
)

func (d *decoder) pool(b *hcl.Block) {
	path, content, attrs := d.block(b, poolSchema)
	if attrs == nil {
		return
	}
	p := pipelines.Pool{Name: b.Labels[0]}
	for _, block := range content.Blocks {
		d.poolPart(&p, path, block)
	}
	d.network(&p.Network, attrs, b.DefRange.Filename)
	d.duration(attrs["overhead"], &p.Overhead)
	measure := true
	d.boolean(attrs["measure"], &measure)
	p.Learned = !measure
	d.duration(attrs["slo"], &p.SLO)
	d.number(attrs["budget"], &p.Budget)
	d.text(attrs["base"], &p.Base)
	d.texts(attrs["hardware"], &p.Hardware)
	d.text(attrs["arrivals"], &p.Arrivals)
	d.file(attrs["profile"], b.DefRange.Filename, &p.ProfileFile)
	d.file(attrs["sizes"], b.DefRange.Filename, &p.SizesFile)
	if p.ProfileFile != "" {
		d.poolProfile(&p, attrs["profile"])
	}
	if p.SizesFile != "" {
		d.poolSizes(&p, path, attrs["sizes"])
	}
	d.config.Document.Pools = append(d.config.Document.Pools, p)
}

// network reads what answers the queries of a pool.
func (d *decoder) network(m *pipelines.Module, attrs hcl.Attributes, folder string) {
	d.text(attrs["engine"], &m.Engine)
	d.text(attrs["model"], &m.Model)
	if !strings.Contains(m.Model, "://") {
		m.Model = absolute(m.Model, folder)
	}
	d.command(attrs["command"], folder, &m.Command)
	d.texts(attrs["files"], &m.Files)
	for i := range m.Files {
		m.Files[i] = absolute(m.Files[i], folder)
	}
	d.batchAxis(attrs["batch_axis"], &m.BatchAxis)
}

// poolPart reads a plan, dispatch, input or output of a pool.
func (d *decoder) poolPart(p *pipelines.Pool, path string, b *hcl.Block) {
	if b.Type == planBlock.Type {
		d.planning(path, b, &p.Plan)
		return
	}
	part := path + "." + b.Type + "." + b.Labels[0]
	if !d.fresh(part, b.Type, b) {
		return
	}
	switch b.Type {
	case "dispatch":
		d.matching(p, path, b)
	case "input":
		in := d.input(part, b)
		if len(in.Shape) == 0 || in.Shape[0] != -1 {
			in.Shape = append([]int64{-1}, in.Shape...)
			if in.Typical != nil {
				in.Typical = append([]int64{1}, in.Typical...)
			}
		}
		p.Inputs = append(p.Inputs, in)
	case "output":
		attrs := d.attributes(part, d.content(b.Body, poolOutputSchema))
		out := pipelines.Output{Name: b.Labels[0], From: pipelines.Ref{Port: b.Labels[0]}}
		if a := attrs["value"]; a != nil {
			out.From.Port = d.modelOutput(a.Expr)
		}
		p.Outputs = append(p.Outputs, out)
	}
}

// modelOutput reads model.NAME, or the name of an output in quotes.
func (d *decoder) modelOutput(e hcl.Expression) string {
	traversal, diags := hcl.AbsTraversalForExpr(e)
	if !diags.HasErrors() && len(traversal) == 2 && traversal.RootName() == "model" {
		switch step := traversal[1].(type) {
		case hcl.TraverseAttr:
			return step.Name
		case hcl.TraverseIndex:
			if step.Key.Type() == cty.String {
				return step.Key.AsString()
			}
		}
	}
	d.report(files.Problem("Not an output", "Refer to an output of the pool's model as model.NAME, or leave value out where the output has the same name.", ptr(e.Range())))
	return ""
}

// matching reads dispatch "matching" { coefficients, width }.
func (d *decoder) matching(p *pipelines.Pool, path string, b *hcl.Block) {
	at := path + ".dispatch"
	attrs := d.attributes(at, d.content(b.Body, matchingSchema))
	if policy := b.Labels[0]; policy != "matching" {
		d.report(files.Problem("Unknown dispatch", fmt.Sprintf("A pool is served with dispatch \"matching\", not %q; others are for harpagon simulate.", policy), &b.LabelRanges[0]))
	}
	d.text(attrs["coefficients"], &p.Matching.Coefficients)
	a := attrs["width"]
	if a == nil {
		return
	}
	if v, diags := a.Expr.Value(d.ctx); !diags.HasErrors() && v.Type() == cty.String && v.IsWhollyKnown() && !v.IsNull() && v.AsString() == "all" {
		p.Matching.Width = pipelines.WidthAll
		return
	}
	if d.integer(a, &p.Matching.Width); p.Matching.Width < 1 {
		d.report(files.Problem("Invalid width", "The width is how many waiting queries a decision looks at for each instance: a whole number from 1, or \"all\".", ptr(a.Expr.Range())))
	}
}

func (d *decoder) poolProfile(p *pipelines.Pool, a *hcl.Attribute) {
	src, ok := d.read(p.ProfileFile, a, "profile", "The profile of a pool says how long a query takes by its size: hardware,batch,duration_ms.")
	if !ok {
		return
	}
	points, diags := files.ReadProfile(p.ProfileFile, src)
	for _, diag := range diags {
		if diag.Severity == hcl.DiagError { // noise matters to batches that could be padded, not to queries
			d.diags = append(d.diags, diag)
		}
	}
	p.Profile.Points = points
}

func (d *decoder) poolSizes(p *pipelines.Pool, path string, a *hcl.Attribute) {
	src, ok := d.read(p.SizesFile, a, "sizes", "A file of sizes says how often queries have which size: size,weight.")
	if !ok {
		return
	}
	mix, lines, diags := files.ReadSizesAt(p.SizesFile, src)
	d.diags = append(d.diags, diags...)
	p.Sizes = mix
	for size, at := range lines {
		d.place(path+".sizes."+strconv.Itoa(size), at)
	}
}

var providerSchema = &hcl.BodySchema{Attributes: []hcl.AttributeSchema{
	{Name: "vcpu_second"}, {Name: "gpu_gb_second"}, {Name: "invocation", Required: true},
	{Name: "billing"}, {Name: "vcpu"}, {Name: "gpu_memory"}, {Name: "gpu_slice"}, {Name: "overhead"},
	{Name: "url"}, {Name: "timeout"}, {Name: "attempts"}, {Name: "concurrency"}, {Name: "token_variable"},
	{Name: "memory_gb_second"}, {Name: "memory_per_vcpu"}, {Name: "gpu_billing"}, {Name: "gpu_vcpu_per_gb"}, {Name: "gpu_latency_factor"},
	{Name: "manage"}, {Name: "manage_url"},
}}

var functionSchema = &hcl.BodySchema{
	Attributes: []hcl.AttributeSchema{{Name: "provider", Required: true}, {Name: "profile", Required: true}, {Name: "model"}},
	Blocks: []hcl.BlockHeaderSchema{
		planBlock, {Type: "input", LabelNames: []string{"name"}}, {Type: "application", LabelNames: []string{"name"}},
	},
}

var applicationSchema = &hcl.BodySchema{Attributes: []hcl.AttributeSchema{
	{Name: "slo", Required: true}, {Name: "rate", Required: true},
}}

func (d *decoder) provider(b *hcl.Block) {
	path, _, attrs := d.block(b, providerSchema)
	if attrs == nil {
		return
	}
	p := pipelines.Provider{Name: b.Labels[0]}
	d.number(attrs["vcpu_second"], &p.VCPUSecond)
	d.number(attrs["gpu_gb_second"], &p.GPUGBSecond)
	d.number(attrs["invocation"], &p.Invocation)
	d.duration(attrs["billing"], &p.Billing)
	d.grid(attrs["vcpu"], path+".vcpu", &p.VCPU)
	d.grid(attrs["gpu_memory"], path+".gpu_memory", &p.GPUMemory)
	d.duration(attrs["gpu_slice"], &p.GPUSlice)
	d.duration(attrs["overhead"], &p.Overhead)
	d.text(attrs["url"], &p.URL)
	d.duration(attrs["timeout"], &p.Timeout)
	d.integer(attrs["attempts"], &p.Attempts)
	d.integer(attrs["concurrency"], &p.Concurrency)
	d.text(attrs["token_variable"], &p.TokenVariable)
	d.number(attrs["memory_gb_second"], &p.MemoryGBSecond)
	d.grid(attrs["memory_per_vcpu"], path+".memory_per_vcpu", &p.MemoryPerVCPU)
	d.duration(attrs["gpu_billing"], &p.GPUBilling)
	d.number(attrs["gpu_vcpu_per_gb"], &p.GPUVCPUPerGB)
	d.number(attrs["gpu_latency_factor"], &p.GPULatencyFactor)
	d.boolean(attrs["manage"], &p.Manage)
	d.text(attrs["manage_url"], &p.ManageURL)
	d.config.Document.Providers = append(d.config.Document.Providers, p)
}

// grid reads { min = 0.05, max = 16, step = 0.05 }.
func (d *decoder) grid(a *hcl.Attribute, path string, to *pipelines.Grid) {
	if a == nil {
		return
	}
	pairs, diags := hcl.ExprMap(a.Expr)
	if diags.HasErrors() {
		d.gridValue(a, to) // not written out here: a variable or local
		return
	}
	fields := map[string]*float64{"min": &to.Min, "max": &to.Max, "step": &to.Step}
	for _, pair := range pairs {
		name := hcl.ExprAsKeyword(pair.Key)
		if name == "" {
			if v, diags := pair.Key.Value(d.ctx); !diags.HasErrors() && v.IsWhollyKnown() && !v.IsNull() && v.Type() == cty.String {
				name = v.AsString()
			}
		}
		field, ok := fields[name]
		if !ok {
			d.report(files.Problem("Not part of a grid", fmt.Sprintf("A grid has min, max and step, each once; %q is none of them or there twice.", name), ptr(pair.Key.Range())))
			continue
		}
		delete(fields, name)
		d.place(path+"."+name, pair.Value.Range())
		d.number(&hcl.Attribute{Name: name, Expr: pair.Value}, field)
	}
	for _, name := range []string{"min", "max", "step"} {
		if fields[name] != nil {
			d.report(files.Problem("Incomplete grid", fmt.Sprintf("The grid of %s has no %s: write { min = 1, max = 24, step = 1 }.", a.Name, name), ptr(a.Expr.Range())))
		}
	}
}

func (d *decoder) gridValue(a *hcl.Attribute, to *pipelines.Grid) {
	kind := cty.Object(map[string]cty.Type{"min": cty.Number, "max": cty.Number, "step": cty.Number})
	v, ok := d.value(a, kind, "a grid: { min = 1, max = 24, step = 1 }")
	if !ok {
		return
	}
	for name, field := range map[string]*float64{"min": &to.Min, "max": &to.Max, "step": &to.Step} {
		if x := v.GetAttr(name); !x.IsNull() {
			*field, _ = x.AsBigFloat().Float64()
		}
	}
}

func (d *decoder) function(b *hcl.Block) {
	path, content, attrs := d.block(b, functionSchema)
	if attrs == nil {
		return
	}
	f := pipelines.Function{Name: b.Labels[0]}
	if a := attrs["provider"]; a != nil {
		f.Provider = d.providerName(a)
	}
	d.file(attrs["profile"], b.DefRange.Filename, &f.ProfileFile)
	if f.ProfileFile != "" {
		d.functionProfile(&f, attrs["profile"])
	}
	d.file(attrs["model"], b.DefRange.Filename, &f.Model)
	for _, b := range content.Blocks {
		switch b.Type {
		case planBlock.Type:
			d.planning(path, b, &f.Plan)
		case "input":
			d.functionInput(&f, path, b)
		default:
			d.application(&f, path, b)
		}
	}
	d.config.Document.Functions = append(d.config.Document.Functions, f)
}

// providerName reads provider.NAME.
func (d *decoder) providerName(a *hcl.Attribute) string {
	traversal, diags := hcl.AbsTraversalForExpr(a.Expr)
	if !diags.HasErrors() && len(traversal) == 2 && traversal.RootName() == "provider" {
		switch s := traversal[1].(type) {
		case hcl.TraverseAttr:
			return s.Name
		case hcl.TraverseIndex: // provider["a.b"] reaches names that are no words
			if s.Key.Type() == cty.String {
				return s.Key.AsString()
			}
		}
	}
	d.report(files.Problem("Not a reference", "Refer to a provider block as provider.NAME, without quotes.", ptr(a.Expr.Range())))
	return ""
}

func (d *decoder) functionProfile(f *pipelines.Function, a *hcl.Attribute) {
	src, ok := d.read(f.ProfileFile, a, "profile", "The profile of a function is a JSON file of its model's coefficients.")
	if !ok {
		return
	}
	profile, diags := files.ReadFunctionProfile(f.ProfileFile, src)
	d.diags = append(d.diags, diags...)
	if !diags.HasErrors() {
		f.Profile = profile
	}
}

func (d *decoder) application(f *pipelines.Function, path string, b *hcl.Block) {
	path += ".application." + b.Labels[0]
	if !d.fresh(path, "application", b) {
		return
	}
	attrs := d.attributes(path, d.content(b.Body, applicationSchema))
	a := pipelines.Application{Name: b.Labels[0]}
	d.duration(attrs["slo"], &a.SLO)
	d.number(attrs["rate"], &a.Rate)
	f.Applications = append(f.Applications, a)
}

func (d *decoder) functionInput(f *pipelines.Function, path string, b *hcl.Block) {
	path += ".input." + b.Labels[0]
	if d.fresh(path, "input", b) {
		f.Inputs = append(f.Inputs, d.input(path, b))
	}
}
