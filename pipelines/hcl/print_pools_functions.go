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

func printProvider(b *hclwrite.Body, p pipelines.Provider) {
	setPrice := func(name string, x float64) {
		if x != 0 {
			b.SetAttributeValue(name, decimal(x))
		}
	}
	setPrice("vcpu_second", p.VCPUSecond)
	setPrice("gpu_gb_second", p.GPUGBSecond)
	b.SetAttributeValue("invocation", decimal(p.Invocation))
	if p.Billing != 0 {
		b.SetAttributeValue("billing", cty.StringVal(durationText(p.Billing)))
	}
	setGrid(b, "vcpu", p.VCPU)
	setGrid(b, "gpu_memory", p.GPUMemory)
	if p.GPUSlice != 0 {
		b.SetAttributeValue("gpu_slice", cty.StringVal(durationText(p.GPUSlice)))
	}
	if p.Overhead != 0 {
		b.SetAttributeValue("overhead", cty.StringVal(durationText(p.Overhead)))
	}
	setText(b, "url", p.URL)
	if p.Timeout != 0 {
		b.SetAttributeValue("timeout", cty.StringVal(durationText(p.Timeout)))
	}
	if p.Attempts != 0 {
		b.SetAttributeValue("attempts", cty.NumberIntVal(int64(p.Attempts)))
	}
	if p.Concurrency != 0 {
		b.SetAttributeValue("concurrency", cty.NumberIntVal(int64(p.Concurrency)))
	}
	setText(b, "token_variable", p.TokenVariable)
	setPrice("memory_gb_second", p.MemoryGBSecond)
	setGrid(b, "memory_per_vcpu", p.MemoryPerVCPU)
	if p.GPUBilling != 0 {
		b.SetAttributeValue("gpu_billing", cty.StringVal(durationText(p.GPUBilling)))
	}
	setPrice("gpu_vcpu_per_gb", p.GPUVCPUPerGB)
	setPrice("gpu_latency_factor", p.GPULatencyFactor)
	if p.Manage {
		b.SetAttributeValue("manage", cty.True)
	}
	setText(b, "manage_url", p.ManageURL)
}

// setGrid keeps the grid on one line, least first.
func setGrid(b *hclwrite.Body, name string, g pipelines.Grid) {
	if g.Empty() {
		return
	}
	tokens := hclwrite.TokensForIdentifier("{ min = ")
	for i, part := range []struct {
		text  string
		value float64
	}{{"", g.Min}, {", max = ", g.Max}, {", step = ", g.Step}} {
		if i > 0 {
			tokens = append(tokens, hclwrite.TokensForIdentifier(part.text)...)
		}
		tokens = append(tokens, hclwrite.TokensForValue(decimal(part.value))...)
	}
	b.SetAttributeRaw(name, append(tokens, hclwrite.TokensForIdentifier(" }")...))
}

func printFunction(b *hclwrite.Body, f pipelines.Function) {
	b.SetAttributeRaw("provider", reference("provider", f.Provider))
	setText(b, "profile", f.ProfileFile)
	setText(b, "model", f.Model)
	printPlanning(b, f.Plan)
	for _, in := range f.Inputs {
		printInput(b, in)
	}
	for _, a := range f.Applications {
		b.AppendNewline()
		block := b.AppendNewBlock("application", []string{a.Name}).Body()
		block.SetAttributeValue("slo", cty.StringVal(durationText(a.SLO)))
		block.SetAttributeValue("rate", decimal(a.Rate))
	}
}
