package language

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
