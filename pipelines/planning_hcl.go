package pipelines

import (
	"fmt"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"
)

// planPath is where a plan block stands within its service. No name can be
// spelled like it, so that pipeline "x.plan" is not taken for a part of "x".
const planPath = ".{plan}"

var planBlock = hcl.BlockHeaderSchema{Type: "plan"}

// planSchema has what the plan of any kind of service may say; the validator
// tells what does not fit the kind.
var planSchema = &hcl.BodySchema{Attributes: []hcl.AttributeSchema{
	{Name: "policy"}, {Name: "cost_model"}, {Name: "without"}, {Name: "split"}, {Name: "reading"},
	{Name: "concurrency"}, {Name: "allow_unsound"},
}}

// planning reads the plan block of a service.
func (d *decoder) planning(path string, b *hcl.Block, to *Planning) {
	path += planPath
	if earlier, taken := d.config.ranges[path]; taken {
		d.report(problem("Declared twice", fmt.Sprintf("There is a plan block already at %s; a service has one.", earlier), &b.DefRange))
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

// planning reports what is wrong with how a service is planned.
func (v *validator) planning(p Planning, k Kind, path string) {
	for _, f := range p.Faults(k) {
		v.errorf(path+planPath+"."+f.Attribute, f.Summary, "%s", f.Detail)
	}
}

// printPlanning writes the plan block, where there is anything to say.
func printPlanning(b *hclwrite.Body, p Planning) {
	given := false
	for _, one := range p.attributes() {
		given = given || one.given
	}
	if !given {
		return
	}
	b.AppendNewline()
	block := b.AppendNewBlock("plan", nil).Body()
	setText(block, "policy", p.Policy)
	setText(block, "cost_model", p.CostModel)
	if len(p.Without) > 0 {
		block.SetAttributeValue("without", textTuple(p.Without))
	}
	setText(block, "split", p.Split)
	setText(block, "reading", p.Reading)
	for _, one := range []struct {
		name string
		set  bool
	}{{"concurrency", p.Concurrency}, {"allow_unsound", p.AllowUnsound}} {
		if one.set {
			block.SetAttributeValue(one.name, cty.True)
		}
	}
}
