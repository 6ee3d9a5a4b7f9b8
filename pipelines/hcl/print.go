package hcl

import (
	"bytes"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/quantity"
)

// HCL prints a document in canonical form: reading it gives the same document
// back. Profiles are named by their file; points without one are not printed.
func HCL(doc pipelines.Document) []byte {
	file := hclwrite.NewEmptyFile()
	document.print(file.Body(), &doc)
	return bytes.TrimPrefix(hclwrite.Format(file.Bytes()), []byte("\n"))
}

// Format lays a file out in canonical style and keeps its comments. A file that
// cannot be parsed comes back as it is, with what is wrong.
func Format(filename string, src []byte) ([]byte, hcl.Diagnostics) {
	if _, diags := hclsyntax.ParseConfig(src, filename, hcl.InitialPos); diags.HasErrors() {
		return src, diags
	}
	return hclwrite.Format(src), nil
}

func literal(v cty.Value) hclwrite.Tokens { return hclwrite.TokensForValue(v) }

// sorted prints an object, by name.
func sorted[V any](all map[string]V, value func(V) cty.Value) hclwrite.Tokens {
	var pairs []hclwrite.ObjectAttrTokens
	for _, name := range slices.Sorted(maps.Keys(all)) {
		pairs = append(pairs, hclwrite.ObjectAttrTokens{Name: keyTokens(name), Value: literal(value(all[name]))})
	}
	return object(pairs)
}

func textTuple(texts []string) cty.Value {
	all := make([]cty.Value, len(texts))
	for i, s := range texts {
		all[i] = cty.StringVal(s)
	}
	return cty.TupleVal(all)
}

// decimal is the number that prints shortest and reads back the same.
func decimal(x float64) cty.Value {
	f, _, err := big.ParseFloat(strconv.FormatFloat(x, 'g', -1, 64), 10, 512, big.ToNearestEven)
	if err != nil {
		return cty.NumberFloatVal(0)
	}
	return cty.NumberVal(f)
}

func intTuple(values []int64) cty.Value {
	all := make([]cty.Value, 0, len(values))
	for _, v := range values {
		all = append(all, cty.NumberIntVal(v))
	}
	return cty.TupleVal(all)
}

// durationText prints the largest unit that keeps the number whole, and
// milliseconds below a second.
func durationText(d time.Duration) string {
	switch {
	case d == 0:
		return "0s"
	case d%time.Hour == 0:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d%time.Minute == 0:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d%time.Second == 0:
		return fmt.Sprintf("%ds", d/time.Second)
	case d%time.Microsecond == 0:
		return strconv.FormatFloat(quantity.Millis(d), 'f', -1, 64) + "ms"
	}
	return d.String()
}

func memoryText(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	i := 0
	for n%1024 == 0 && i < len(units)-1 {
		n, i = n/1024, i+1
	}
	return fmt.Sprintf("%d%s", n, units[i])
}

// reference writes names that are no plain words as indices.
func reference(names ...string) hclwrite.Tokens {
	t := hcl.Traversal{hcl.TraverseRoot{Name: names[0]}}
	for _, name := range names[1:] {
		if hclsyntax.ValidIdentifier(name) {
			t = append(t, hcl.TraverseAttr{Name: name})
		} else {
			t = append(t, hcl.TraverseIndex{Key: cty.StringVal(name)})
		}
	}
	return hclwrite.TokensForTraversal(t)
}

func keyTokens(name string) hclwrite.Tokens {
	if hclsyntax.ValidIdentifier(name) {
		return hclwrite.TokensForIdentifier(name)
	}
	return hclwrite.TokensForValue(cty.StringVal(name))
}

// object prints one pair on one line, and several on a line each.
func object(pairs []hclwrite.ObjectAttrTokens) hclwrite.Tokens {
	if len(pairs) > 1 {
		return hclwrite.TokensForObject(pairs)
	}
	tokens := hclwrite.Tokens{{Type: hclsyntax.TokenOBrace, Bytes: []byte("{")}}
	for _, p := range pairs {
		tokens = append(tokens, p.Name...)
		tokens = append(tokens, &hclwrite.Token{Type: hclsyntax.TokenEqual, Bytes: []byte(" = ")})
		tokens = append(tokens, p.Value...)
	}
	return append(tokens, &hclwrite.Token{Type: hclsyntax.TokenCBrace, Bytes: []byte("}")})
}

// ctyValue is a plain value as HCL prints it.
func ctyValue(v any) cty.Value {
	switch v := v.(type) {
	case string:
		return cty.StringVal(v)
	case bool:
		return cty.BoolVal(v)
	case float64:
		return decimal(v)
	case []any:
		list := make([]cty.Value, 0, len(v))
		for _, e := range v {
			list = append(list, ctyValue(e))
		}
		return cty.TupleVal(list)
	case map[string]any:
		all := make(map[string]cty.Value, len(v))
		for name, e := range v {
			all[name] = ctyValue(e)
		}
		return cty.ObjectVal(all)
	}
	if plain, err := pipelines.Plain(v); err == nil {
		return ctyValue(plain)
	}
	return cty.StringVal(strings.TrimSpace(fmt.Sprint(v))) // Builder.Build refuses it
}

// firstIsDefault lists names for the reference of the language.
func firstIsDefault(names []string) string {
	return `'"` + names[0] + `"' (default), '"` + strings.Join(names[1:], `"', '"`) + `"'`
}
