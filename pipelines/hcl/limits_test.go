package hcl

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/files"
)

// tooComplexSources are declarations that took the stack, all memory or hours
// before there were limits. deep is how deep those go that nest: above maxOperators.
func tooComplexSources(deep int) map[string]string {
	in := func(open string, n int, inner, end string) string {
		return "locals {\n a = " + strings.Repeat(open, n) + inner + strings.Repeat(end, n) + "\n}"
	}
	chain := func(first, next string, n int) string {
		text := "locals {\n a0 = " + first + "\n"
		for i := 1; i < n; i++ {
			text += fmt.Sprintf(" a%d = %s\n", i, strings.ReplaceAll(next, "?", fmt.Sprintf("local.a%d", i-1)))
		}
		return text + "}"
	}
	return map[string]string{
		"parentheses":     in("(", deep, "1", ")"),
		"lists":           in("[", deep, "1", "]"),
		"templates":       in("\"${", deep, "1", "}\""),
		"objects":         in("{ a = ", deep, "1", "}"),
		"not":             in("!", deep, "true", ""),
		"minus":           in("-", deep, "1", ""),
		"sum":             in("", 1, "1"+strings.Repeat("+1", deep), ""),
		"sum of lines":    "locals {\n a = (1" + strings.Repeat("\n+ {a=1}.a", deep) + ")\n}",
		"conditions":      in("true ? 1 : ", deep, "1", ""),
		"blocks":          strings.Repeat("a {\n", deep) + strings.Repeat("}\n", deep),
		"splat":           chain("range(1000)", "[for i in ?: ?[*]]", 20),
		"strings doubled": chain(`"0123456789"`, `"${?}${?}"`, 60),
		"lists doubled":   chain("[1, 2]", "[?, ?]", 60),
		"concat doubled":  chain("[1, 2]", "concat(?, ?)", 60),
		"replace":         chain(`"0123456789"`, `replace("${?}${?}", "", ?)`, 20),
		"join":            chain(`"0123456789"`, `join(?, split("", ?))`, 20),
		"width":           `locals { a = format("%99999999s", "x") }`,
		"loops":           "locals {\n a = [for i in range(1000): [for j in range(1000): [for k in range(1000): i]]]\n}",
		"loops of loops":  chain("range(1000)", "[for i in ?: [for j in ?: j]]", 20),
		"a long number":   "locals {\n a = 1e99999999\n b = \"${local.a}\"\n}",
	}
}

func TestTooComplexIsSaid(t *testing.T) {
	for name, src := range tooComplexSources(20_000) {
		t.Run(name, func(t *testing.T) {
			c, diags := Parse("big.hcl", []byte(src))
			require.True(t, diags.HasErrors())
			assert.LessOrEqual(t, len(diags), 100, "a finding, not a flood of them")
			assert.Regexp(t, "Too complex|would have more than|has more than", fmt.Sprint(diags.Errs()))
			require.NotNil(t, diags[0].Subject)
			var b strings.Builder
			require.NoError(t, WriteDiagnostics(&b, c, diags, false))
			assert.Less(t, b.Len(), 300_000) // with the values that an expression was made of
		})
	}
}

func TestWhatPeopleWriteIsNotTooComplex(t *testing.T) {
	src := `
locals {
  sizes  = [for i in range(6): 1 + i * 2]
  labels = merge({ a = 1 }, { for s in local.sizes: "k${s}" => upper("v${s}") })
  wide   = concat(range(1000), range(1000), range(1000))
  deep   = ((((((1 + 2) * 3) - 4) / 5)))
  text   = join(", ", [for s in local.sizes: format("%04d", s)])
}
hardware "cpu" {
  price = 1 + local.deep
}
`
	_, diags := Parse("fine.hcl", []byte(src))
	assert.Empty(t, diags)
}

// A declaration of many modules is read in time proportional to it: this one
// would take minutes if every reference were looked for among all modules.
func TestManyModules(t *testing.T) {
	const n = 10_000
	var b strings.Builder
	b.WriteString("hardware \"cpu\" {\n price = 1\n}\npipeline \"p\" {\n slo = \"400s\"\n rate = 1\n input \"x\" {\n datatype = \"FP32\"\n shape = [1]\n }\n")
	source := "input.x"
	for i := range n {
		fmt.Fprintf(&b, " module \"m%d\" {\n function = \"f\"\n inputs = { x = %s }\n }\n", i, source)
		source = fmt.Sprintf("module.m%d.y", i)
	}
	fmt.Fprintf(&b, " output \"y\" { value = %s }\n}\n", source)
	c, diags := Parse("many.hcl", []byte(b.String()))
	require.Empty(t, diags)
	sig := func(pipelines.Module) (pipelines.Signature, error) {
		x := pipelines.Port{Name: "x", Datatype: "FP32", Shape: []int64{1}}
		y := pipelines.Port{Name: "y", Datatype: "FP32", Shape: []int64{1}}
		return pipelines.Signature{Inputs: []pipelines.Port{x}, Outputs: []pipelines.Port{y}}, nil
	}
	require.Empty(t, c.Validate(sig))
	order, err := c.Document.Pipelines[0].Order()
	require.NoError(t, err)
	assert.Len(t, order, n)
	assert.Len(t, c.Document.Pipelines[0].Rates(), n)

	c.Document.Pipelines[0].Modules[0].Inputs[0].From = pipelines.Ref{Module: fmt.Sprintf("m%d", n-1), Port: "y"}
	diags = c.Validate(sig)
	assert.Len(t, diags, n, "each reference of the cycle is one")
	assert.Contains(t, diags[0].Detail, "(9981 more)")
	c.Document.Pipelines[0].Modules[0].Inputs[0].From = pipelines.Ref{Module: "elsewhere", Port: "y"}
	assert.NotEmpty(t, c.Validate(sig))
}

func TestNestedFanouts(t *testing.T) {
	p := pipelines.Pipeline{Name: "p", SLO: 1e9, Rate: 1, Inputs: []pipelines.Port{{Name: "x", Datatype: "FP32", Shape: []int64{-1}}}}
	from := pipelines.Ref{Port: "x"}
	for i := range pipelines.MaxNesting + 2 {
		name := fmt.Sprintf("m%d", i)
		p.Modules = append(p.Modules, pipelines.Module{Name: name, Function: "f", Scatter: true, Fanout: 1, Inputs: []pipelines.Binding{{Name: "x", From: from}}})
		from = pipelines.Ref{Module: name, Port: "y"}
	}
	p.Outputs = []pipelines.Output{{Name: "y", From: from}}
	doc := pipelines.Document{Hardware: []pipelines.Hardware{{Name: "cpu", Price: 1}}, Pipelines: []pipelines.Pipeline{p}}
	err := pipelines.CheckDocument(doc, func(pipelines.Module) (pipelines.Signature, error) { return pipelines.Signature{}, nil })
	require.ErrorContains(t, err, "at most 64 may stand in one another")
	assert.Equal(t, 2, strings.Count(err.Error(), "nested too deeply"))
}

func TestManyFindingsAreCutShort(t *testing.T) {
	var diags hcl.Diagnostics
	for range 500 {
		diags = append(diags, files.Problem("Wrong", "It is wrong.", nil))
	}
	var b strings.Builder
	require.NoError(t, WriteDiagnostics(&b, nil, diags, false))
	assert.Equal(t, 100, strings.Count(b.String(), "Error: Wrong"))
	assert.Contains(t, b.String(), "... and 400 more findings; harpagon validate --json lists all.")
}
