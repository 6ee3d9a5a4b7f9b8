package hcl

import (
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"

	"github.com/harpagon/harpagon/pipelines"
)

func printHardware(b *hclwrite.Body, h pipelines.Hardware) {
	if l := h.Listed; l.File != "" {
		setText(b, "prices", l.File)
		if l.Name != h.Name {
			setText(b, "listed_as", l.Name)
		}
		setText(b, "market", l.Market)
	} else {
		b.SetAttributeValue("price", decimal(h.Price))
		if h.Interruptions != 0 {
			b.SetAttributeValue("interruptions", decimal(h.Interruptions))
		}
	}
	if h.Recovery != 0 {
		b.SetAttributeValue("recovery", cty.StringVal(durationText(h.Recovery)))
	}
	if h.Memory > 0 {
		b.SetAttributeValue("memory", cty.StringVal(memoryText(h.Memory)))
	}
	if h.Count != 0 {
		b.SetAttributeValue("count", cty.NumberIntVal(int64(h.Count)))
	}
	if h.Cores != 0 {
		b.SetAttributeValue("cores", cty.NumberIntVal(int64(h.Cores)))
	}
}
