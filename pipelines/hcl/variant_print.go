package hcl

import (
	"github.com/hashicorp/hcl/v2/hclwrite"

	"github.com/harpagon/harpagon/pipelines"
)

func printAccuracy(b *hclwrite.Body, x float64) {
	if x != 0 {
		b.SetAttributeValue("accuracy", decimal(x))
	}
}

// printNetwork prints what a module and its variants both say of what they run.
func printNetwork(b *hclwrite.Body, v pipelines.Variant) {
	setText(b, "model", v.Model)
	setText(b, "engine", v.Engine)
	if len(v.Command) > 0 {
		b.SetAttributeValue("command", textTuple(v.Command))
	}
	if len(v.Files) > 0 {
		b.SetAttributeValue("files", textTuple(v.Files))
	}
	setText(b, "profile", v.ProfileFile)
	printAccuracy(b, v.Accuracy)
}
