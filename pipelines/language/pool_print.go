package language

import (
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"

	"github.com/harpagon/harpagon/pipelines"
)

func printPool(b *hclwrite.Body, p pipelines.Pool) {
	setText(b, "profile", p.ProfileFile)
	setText(b, "sizes", p.SizesFile)
	b.SetAttributeValue("slo", cty.StringVal(durationText(p.SLO)))
	b.SetAttributeValue("budget", decimal(p.Budget))
	setText(b, "base", p.Base)
	if len(p.Hardware) > 0 {
		var names []cty.Value
		for _, h := range p.Hardware {
			names = append(names, cty.StringVal(h))
		}
		b.SetAttributeValue("hardware", cty.TupleVal(names))
	}
	setText(b, "arrivals", p.Arrivals)
	printPlanning(b, p.Plan)
}
