package hcl

import (
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"

	"github.com/harpagon/harpagon/pipelines"
)

func printPool(b *hclwrite.Body, p pipelines.Pool) {
	setText(b, "model", p.Network.Model)
	setText(b, "engine", p.Network.Engine)
	if len(p.Network.Command) > 0 {
		b.SetAttributeValue("command", textTuple(p.Network.Command))
	}
	if len(p.Network.Files) > 0 {
		b.SetAttributeValue("files", textTuple(p.Network.Files))
	}
	if len(p.Network.BatchAxis) > 0 {
		b.SetAttributeRaw("batch_axis", axisTokens(p.Network.BatchAxis))
	}
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
	if p.Overhead != 0 {
		b.SetAttributeValue("overhead", cty.StringVal(durationText(p.Overhead)))
	}
	if p.Learned {
		b.SetAttributeValue("measure", cty.False)
	}
	printPlanning(b, p.Plan)
	printMatching(b, p.Matching)
	for _, in := range p.Inputs {
		printInput(b, in)
	}
	for _, o := range p.Outputs {
		b.AppendNewline()
		b.AppendNewBlock("output", []string{o.Name}).Body().SetAttributeRaw("value", reference("model", o.From.Port))
	}
}

func printMatching(b *hclwrite.Body, m pipelines.Matching) {
	if m == (pipelines.Matching{}) {
		return
	}
	b.AppendNewline()
	block := b.AppendNewBlock("dispatch", []string{"matching"}).Body()
	setText(block, "coefficients", m.Coefficients)
	switch {
	case m.Width == pipelines.WidthAll:
		block.SetAttributeValue("width", cty.StringVal("all"))
	case m.Width != 0:
		block.SetAttributeValue("width", cty.NumberIntVal(int64(m.Width)))
	}
}
