package hcl

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	hcljson "github.com/hashicorp/hcl/v2/json"
	"github.com/zclconf/go-cty/cty"

	"github.com/harpagon/harpagon/pipelines/files"
)

// maxTemplate bounds a text with expressions in it, as texts of JSON have them.
const maxTemplate = 4000

// isJSON reports whether a file is in the JSON syntax of HCL.
func isJSON(name string) bool { return strings.HasSuffix(name, ".json") }

// parseJSON reads a file in the JSON syntax, which is as deep as HCL may be at most.
func parseJSON(src []byte, name string) (*hcl.File, hcl.Diagnostics) {
	depth := 0
	for tokens := json.NewDecoder(bytes.NewReader(src)); ; {
		t, err := tokens.Token()
		if err != nil {
			break // the end, or what parsing says better
		}
		switch t {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth > maxDepth {
			return nil, hcl.Diagnostics{files.Problem(tooComplex, fmt.Sprintf("Objects and arrays stand in one another at most %d deep.", maxDepth), &hcl.Range{Filename: name, Start: hcl.InitialPos, End: hcl.InitialPos})}
		}
	}
	return hcljson.Parse(src, name)
}

// native is an attribute with its expression as HCL has it: references are read off the
// expression, which JSON keeps in texts such as "${input.x}".
func (d *decoder) native(a *hcl.Attribute) *hcl.Attribute {
	file := d.config.Files[a.Range.Filename]
	if !isJSON(a.Range.Filename) || file == nil {
		return a
	}
	e := d.fromJSON(a.Expr, file.Bytes)
	d.config.meter.watch(e)
	return &hcl.Attribute{Name: a.Name, Expr: e, Range: a.Range, NameRange: a.NameRange}
}

func (d *decoder) fromJSON(e hcl.Expression, src []byte) hclsyntax.Expression {
	place := e.Range()
	raw := place.SliceBytes(src)
	switch {
	case len(raw) > 0 && raw[0] == '{':
		pairs, diags := hcl.ExprMap(e)
		d.diags = append(d.diags, diags...)
		object := &hclsyntax.ObjectConsExpr{SrcRange: place, OpenRange: place}
		for _, pair := range pairs {
			object.Items = append(object.Items, hclsyntax.ObjectConsItem{
				KeyExpr: d.fromJSON(pair.Key, src), ValueExpr: d.fromJSON(pair.Value, src),
			})
		}
		return object
	case len(raw) > 0 && raw[0] == '[':
		elements, diags := hcl.ExprList(e)
		d.diags = append(d.diags, diags...)
		tuple := &hclsyntax.TupleConsExpr{SrcRange: place, OpenRange: place}
		for _, element := range elements {
			tuple.Exprs = append(tuple.Exprs, d.fromJSON(element, src))
		}
		return tuple
	case len(raw) > 0 && raw[0] == '"' && (bytes.Contains(raw, []byte("${")) || bytes.Contains(raw, []byte("%{"))):
		return d.template(raw, place)
	}
	v, diags := e.Value(nil)
	if d.diags = append(d.diags, diags...); diags.HasErrors() {
		v = cty.DynamicVal
	}
	return &hclsyntax.LiteralValueExpr{Val: v, SrcRange: place}
}

// template is a text with expressions in it; one that is nothing but an expression is that.
func (d *decoder) template(raw []byte, place hcl.Range) hclsyntax.Expression {
	var text string
	unknown := &hclsyntax.LiteralValueExpr{Val: cty.DynamicVal, SrcRange: place}
	if json.Unmarshal(raw, &text) != nil {
		return unknown // it was parsed as JSON before
	}
	if len(text) > maxTemplate {
		d.report(files.Problem(tooComplex, fmt.Sprintf("A text with expressions in it has at most %d characters.", maxTemplate), &place))
		return unknown
	}
	e, diags := hclsyntax.ParseTemplate([]byte(text), place.Filename, place.Start)
	if d.diags = append(d.diags, diags...); diags.HasErrors() {
		return unknown
	}
	if whole, ok := e.(*hclsyntax.TemplateWrapExpr); ok {
		return whole.Wrapped
	}
	return e
}
