package hcl

import (
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// rack is what a block of the tests declares.
type rack struct {
	Name   string
	Region string
	Slots  int
	Labels []string
}

var racks = block[[]rack]{parts: []part[[]rack]{many(&rackBlock, func(all *[]rack) *[]rack { return all })}}

var rackBlock = block[rack]{
	kind: "rack",
	attributes: []attribute[rack]{
		attr("region", text, func(r *rack) *string { return &r.Region }, `where it stands: '"eu"' or the owner's own`).required(),
		attr("slots", integer, func(r *rack) *int { return &r.Slots }, `how many, and what is on them`).noted("or 'labels'"),
		attr("labels", texts, func(r *rack) *[]string { return &r.Labels }, ""),
	},
	name: func(r *rack) *string { return &r.Name },
}

// TestARowIsAllOfAnAttribute: what is read, printed, missed, suggested and documented
// follows from the rows of a block.
func TestARowIsAllOfAnAttribute(t *testing.T) {
	read := func(src string) ([]rack, []string) {
		c := NewConfig()
		body, diags := c.parse("racks.hcl", []byte(src))
		require.False(t, diags.HasErrors())
		d := &decoder{config: c, ctx: &hcl.EvalContext{}}
		var all []rack
		racks.readParts(d, "", d.content(body, racks.schema(body)).Blocks, &all)
		var found []string
		for _, f := range Findings(d.diags) {
			found = append(found, f.String())
		}
		return all, found
	}
	print := func(all []rack) string {
		file := hclwrite.NewEmptyFile()
		racks.print(file.Body(), &all)
		return string(hclwrite.Format(file.Bytes()))
	}
	const canonical = `
rack "a" {
  region = ""
}

rack "b" {
  region = "eu"
  slots  = 4
  labels = ["x"]
}
`
	want := []rack{{Name: "a"}, {Name: "b", Region: "eu", Slots: 4, Labels: []string{"x"}}}
	assert.Equal(t, canonical, print(want))
	all, found := read(canonical)
	assert.Empty(t, found)
	assert.Equal(t, want, all)

	_, found = read("rack \"a\" {\n  slotz = 1\n}\nrack \"b\" {\n  region = \"eu\"\n  slots = 1.5\n}\nrack \"a\" {}\n")
	assert.Equal(t, []string{
		`racks.hcl:1:10: error: Missing required argument: The argument "region" is required, but no definition was found.`,
		`racks.hcl:2:3: error: Unsupported argument: An argument named "slotz" is not expected here. Did you mean "slots"?`,
		`racks.hcl:6:11: error: Not a whole number: The value of slots must be a whole number.`,
		`racks.hcl:8:1: error: Declared twice: The rack "a" is declared already at racks.hcl:1,1-9.`,
	}, found)

	tables := map[string]string{}
	rackBlock.reference(tables)
	assert.Equal(t, map[string]string{"rack": "" +
		"| attribute | | meaning |\n|---|---|---|\n" +
		"| `region` | required | where it stands: `\"eu\"` or the owner's own |\n" +
		"| `slots`, `labels` | or `labels` | how many, and what is on them |\n"}, tables)
}

// TestASuggestionIsTheNearest: where two attributes are spelled like a wrong one, the
// nearer is suggested, wherever it is in the table.
func TestASuggestionIsTheNearest(t *testing.T) {
	for wrong, want := range map[string]string{"izes": "sizes", "fles": "files"} {
		_, diags := Parse("p.hcl", []byte("pool \"p\" {\n  slo = \"1s\"\n  budget = 1\n  base = \"x\"\n  "+wrong+" = \"x\"\n}\n"))
		require.Len(t, diags, 1)
		assert.Contains(t, diags[0].Detail, `Did you mean "`+want+`"?`)
	}
}
