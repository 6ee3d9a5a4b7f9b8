package hcl

import (
	"fmt"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/files"
)

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
