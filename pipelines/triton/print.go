package triton

import (
	"slices"
	"strings"

	hclv2 "github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"

	"github.com/harpagon/harpagon/pipelines/hcl"
)

// HCL is the declaration, with variables for what the repository does not say.
func (x *Imported) HCL() []byte {
	file := hclwrite.NewEmptyFile()
	body := file.Body()
	x.variable(body, "slo", "string", cty.StringVal(x.options.SLO.String()), "from a request's arrival to its answer")
	x.variable(body, "rate", "number", cty.NumberFloatVal(x.options.Rate), "requests per second of each pipeline")
	if slices.ContainsFunc(x.Served, func(s Served) bool { return s.By == ByTriton }) {
		x.variable(body, "triton", "string", cty.StringVal(x.options.Triton), "HOST:PORT (gRPC) of the Triton that goes on serving some models")
	}
	printed, diags := hclwrite.ParseConfig(hcl.HCL(x.Document), "", hclv2.InitialPos)
	if diags.HasErrors() { // cannot happen: it was printed
		panic(diags)
	}
	for _, block := range printed.Body().Blocks() {
		if block.Type() == "pipeline" {
			x.rates(block.Body())
			for _, m := range block.Body().Blocks() {
				x.remote(m)
			}
		}
		body.AppendBlock(block)
		body.AppendNewline()
	}
	return hclwrite.Format(file.Bytes())
}

func (x *Imported) variable(to *hclwrite.Body, name, kind string, value cty.Value, what string) {
	b := to.AppendNewBlock("variable", []string{name}).Body()
	b.SetAttributeTraversal("type", hclv2.Traversal{hclv2.TraverseRoot{Name: kind}})
	b.SetAttributeValue("default", value)
	b.SetAttributeValue("description", cty.StringVal(what))
	to.AppendNewline()
}

// rates writes the variables slo and rate; streams share the latter.
func (x *Imported) rates(pipeline *hclwrite.Body) {
	variable := func(name string) hclv2.Traversal {
		return hclv2.Traversal{hclv2.TraverseRoot{Name: "var"}, hclv2.TraverseAttr{Name: name}}
	}
	pipeline.SetAttributeTraversal("slo", variable("slo"))
	stream := pipeline.FirstMatchingBlock("stream", nil)
	if stream == nil {
		pipeline.SetAttributeTraversal("rate", variable("rate"))
		return
	}
	each := append(hclwrite.TokensForTraversal(variable("rate")), &hclwrite.Token{Type: hclsyntax.TokenSlash, Bytes: []byte("/")})
	stream.Body().SetAttributeRaw("rate", append(each, stream.Body().GetAttribute("count").Expr().BuildTokens(nil)...))
}

// remote writes the variable in an address as one.
func (x *Imported) remote(module *hclwrite.Block) {
	a := module.Body().GetAttribute("model")
	if a == nil {
		return
	}
	address := strings.TrimSpace(string(a.Expr().BuildTokens(nil).Bytes()))
	if name, ok := strings.CutPrefix(address, `"grpc://$${var.triton}/`); ok {
		module.Body().SetAttributeRaw("model", hclwrite.Tokens{{Type: hclsyntax.TokenQuotedLit, Bytes: []byte(`"grpc://${var.triton}/` + name)}})
	}
}
