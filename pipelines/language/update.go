package language

import (
	"fmt"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/files"
)

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

// printUpdate writes the update block, where there is anything to say.
func printUpdate(b *hclwrite.Body, u pipelines.Update) {
	if u.IsZero() {
		return
	}
	b.AppendNewline()
	block := b.AppendNewBlock("update", nil).Body()
	number := func(name string, x float64) {
		if x != 0 {
			block.SetAttributeValue(name, decimal(x))
		}
	}
	number("canary", u.Canary)
	number("shadow", u.Shadow)
	if u.Hold != 0 {
		block.SetAttributeValue("hold", cty.StringVal(durationText(u.Hold)))
	}
	revert := map[string]cty.Value{}
	if u.Revert.Attainment != 0 {
		revert["attainment"] = decimal(u.Revert.Attainment)
	}
	if u.Revert.Cost != 0 {
		revert["cost"] = decimal(u.Revert.Cost)
	}
	if len(revert) > 0 {
		block.SetAttributeValue("revert", cty.ObjectVal(revert))
	}
}
