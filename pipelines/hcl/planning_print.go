package hcl

import (
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"

	"github.com/harpagon/harpagon/pipelines"
)

// printPlanning writes the plan block, where there is anything to say.
func printPlanning(b *hclwrite.Body, p pipelines.Planning) {
	if p.IsZero() {
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
