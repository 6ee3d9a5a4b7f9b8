package hcl

import (
	"fmt"

	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"

	"github.com/harpagon/harpagon/pipelines"
)

func printCluster(b *hclwrite.Body, c pipelines.Cluster) {
	b.SetAttributeValue("hardware", cty.StringVal(c.Hardware))
	switch {
	case c.Devices == pipelines.Range{}:
	case c.Devices.Min == c.Devices.Max:
		b.SetAttributeValue("devices", cty.NumberIntVal(int64(c.Devices.Min)))
	default:
		b.SetAttributeRaw("devices", hclwrite.TokensForIdentifier(fmt.Sprintf("{ min = %d, max = %d }", c.Devices.Min, c.Devices.Max)))
	}
	setText(b, "dispatch", c.Dispatch)
	b.SetAttributeValue("pipelines", textTuple(c.Pipelines))
}
