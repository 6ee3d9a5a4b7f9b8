package hcl

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
)

func TestUpdateBlock(t *testing.T) {
	c, diags := Parse("/a.hcl", []byte(`
pipeline "p" {
  slo  = "1s"
  rate = 1
  update {
    canary = 0.1
    shadow = 0.05
    hold   = "90s"
    revert = { attainment = 0.95, cost = 1.2 }
  }
}
`))
	require.Empty(t, diags)
	want := pipelines.Update{Canary: 0.1, Shadow: 0.05, Hold: 90 * time.Second, Revert: pipelines.Revert{Attainment: 0.95, Cost: 1.2}}
	assert.Equal(t, want, c.Document.Pipelines[0].Update)
	assert.Empty(t, want.Faults())

	printed := HCL(c.Document)
	again, diags := Parse("/b.hcl", printed)
	require.Empty(t, diags, string(printed))
	assert.Equal(t, want, again.Document.Pipelines[0].Update, string(printed))
}

func TestUpdateBlockFindings(t *testing.T) {
	for name, test := range map[string]struct {
		update       string
		line, column int
		summary      string
	}{
		"a canary above 1":     {`canary = 1.5`, 3, 10, "Not a share"},
		"a negative shadow":    {`shadow = -0.1`, 3, 10, "Not a share"},
		"both above 1":         {"canary = 0.6\nshadow = 0.6", 4, 10, "More than all requests"},
		"nothing tried":        {`hold = "60s"`, 2, 2, "Nothing is tried"},
		"an empty block":       {``, 2, 2, "Nothing is tried"},
		"an attainment over 1": {"canary = 0.1\nrevert = { attainment = 98 }", 4, 10, "Not a share"},
		"a cost below 0":       {"canary = 0.1\nrevert = { cost = -1 }", 4, 10, "Not a factor"},
		"a misspelt limit":     {"canary = 0.1\nrevert = { attainmnt = 0.9 }", 4, 10, "Wrong type"},
		"no object":            {"canary = 0.1\nrevert = 0.9", 4, 10, "Wrong type"},
		"a negative hold":      {"canary = 0.1\nhold = \"-1s\"", 4, 8, "Not a time"},
		"a misspelt name":      {`canry = 0.1`, 3, 1, "Unsupported argument"},
	} {
		t.Run(name, func(t *testing.T) {
			c, diags := Parse("/a.hcl", []byte("pipeline \"x\" {\n update {\n"+test.update+"\n }\n}"))
			for _, f := range Findings(append(diags, c.Validate(nil)...)) {
				if f.Summary == test.summary {
					assert.Equal(t, [2]int{test.line, test.column}, [2]int{f.Line, f.Column}, f.String())
					return
				}
			}
			assert.Fail(t, "no such finding", "%v", append(diags, c.Validate(nil)...))
		})
	}
}
