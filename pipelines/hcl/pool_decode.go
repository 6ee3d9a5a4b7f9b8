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
