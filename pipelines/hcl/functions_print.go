package hcl

import (
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"

	"github.com/harpagon/harpagon/pipelines"
)

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
